import { Button, Group, Stack, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Api, ApiError, hasStatus } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";
import { Notice } from "../../components/Notice";
import { Secondary } from "../../components/Secondary";
import classes from "../../components/stickyBar.module.css";
import { CountResult } from "../roles/CountResult";
import { type ModelFile, validationError } from "./changes";
import { PlanView } from "./PlanView";
import { PLAN_SECONDS, planQuery } from "./queries";

/** Shows the plan of a file and applies it, but only to the version that the plan is based on. */
export function PlanAndApply({
  file,
  label,
  testsMustPass,
  apply,
  onApplied,
  onClose,
}: {
  file: ModelFile;
  /** Label of the button. */
  label: string;
  testsMustPass: boolean;
  /** Applies the file to the version `baseVersion`. */
  apply: (baseVersion: number) => Promise<Api["ImportedModel"]>;
  onApplied: (applied: Api["ImportedModel"]) => void;
  onClose: (() => void) | undefined;
}) {
  const options = planQuery(file);
  const query = useQuery(options);
  const { data, error, isFetching, refetch } = query;
  const [isOutdated, setIsOutdated] = useState(false);
  const save = useMutation({
    mutationFn: apply,
    onSuccess: onApplied,
    onError: (error) => {
      // The model has changed since the plan. The plan is updated, so that it shows exactly the changes that will be applied.
      if (isStale(error)) {
        setIsOutdated(true);
        void refetch();
      }
    },
  });
  const planError = data === undefined ? null : validationError(data, testsMustPass);
  return (
    <Stack gap="md">
      {isOutdated && (
        <Notice kind="warning" title="Another user changed the access model in the meantime">
          <Text size="sm">
            Nothing was applied. The plan below is against the current version, which includes that change.
            Review it again.
          </Text>
        </Notice>
      )}
      <CountResult
        query={query}
        queryKey={options.queryKey}
        label="Comparing, and counting traces"
        seconds={PLAN_SECONDS}
        stoppedText="Stopped: the file was not compared with the current version."
        retryLabel="Compare"
      >
        {(plan) => <PlanView plan={plan} />}
      </CountResult>
      {save.isError && !isStale(save.error) && (
        <ErrorNotice error={save.error} title={errorTitle(save.error)} />
      )}
      <Group justify="flex-end" className={classes.bar ?? ""}>
        {planError !== null && !isFetching && <Secondary size="sm">{planError}</Secondary>}
        {onClose !== undefined && (
          <Button variant="default" onClick={onClose} data-autofocus>
            Cancel
          </Button>
        )}
        <Button
          disabled={data === undefined || isFetching || planError !== null || error !== null}
          loading={save.isPending}
          onClick={() => {
            if (data !== undefined) {
              setIsOutdated(false);
              save.mutate(data.version);
            }
          }}
        >
          {label}
        </Button>
      </Group>
    </Stack>
  );
}

/** After a network or server error, the change may have been applied. */
const errorTitle = (error: unknown): string =>
  error instanceof ApiError && error.status < 500
    ? "Nothing was applied"
    : "It is unknown whether the file was applied: check the model history";

const isStale = (error: unknown): boolean => hasStatus(error, 412);
