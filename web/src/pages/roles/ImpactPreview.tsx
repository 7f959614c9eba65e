import { Button, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import type { Api } from "../../api/client";
import type { Range } from "../search/range";
import { TimeRange } from "../search/TimeRange";
import {
  COLLATERAL_ERROR_TITLE,
  COLLATERAL_STOPPED_TEXT,
  COUNT_SECONDS,
  FieldSelect,
} from "./CollateralAccess";
import { CollateralAccessView } from "./CollateralAccessView";
import { CountResult } from "./CountResult";
import type { DraftPolicy } from "./draft";
import { CountsView, costText, ReliabilityNotice, UsersView } from "./ImpactView";
import classes from "./impact.module.css";
import { collateralAccessQuery, type PreviewRequest, previewQuery } from "./impactQueries";

/** Longer time limit for more exact counts. */
const LONG_COUNT_SECONDS = 60;

/** Preview of the effects of saving or deleting a role, counted on stored traces. Saving does not wait for it. */
export function ImpactPreview({
  role,
  draft,
}: {
  role: string;
  /** `null` means that the role is deleted. */
  draft: readonly DraftPolicy[] | null;
}) {
  const [range, setRange] = useState<Range>({ kind: "last", text: "24h" });
  const [seconds, setSeconds] = useState(COUNT_SECONDS);
  const request: PreviewRequest = { role, draft, range, seconds };
  const options = previewQuery(request);
  const query = useQuery(options);
  const heading = useId();
  return (
    <section aria-labelledby={heading}>
      <Group justify="space-between" gap="xs" mb="xs">
        <Title order={2} size="h3" id={heading}>
          Impact
        </Title>
        <TimeRange
          range={range}
          window={query.data}
          onChange={(next) => {
            setRange(next);
            setSeconds(COUNT_SECONDS);
          }}
        />
      </Group>
      <CountResult
        query={query}
        queryKey={options.queryKey}
        label="Counting traces before and after"
        seconds={seconds}
        errorTitle="The impact could not be counted"
        stoppedText="Stopped: the impact is not known."
      >
        {(preview) => (
          <PreviewResult
            preview={preview}
            request={request}
            onCountLonger={
              preview.sampled && seconds < LONG_COUNT_SECONDS ? () => setSeconds(LONG_COUNT_SECONDS) : null
            }
          />
        )}
      </CountResult>
    </section>
  );
}

function PreviewResult({
  preview,
  request,
  onCountLonger,
}: {
  preview: Api["PolicyPreview"];
  request: PreviewRequest;
  onCountLonger: (() => void) | null;
}) {
  const { members, members_compared, sampled, users } = preview;
  return (
    <Stack gap="md">
      <ReliabilityNotice
        {...preview}
        action={
          onCountLonger !== null && (
            <Button size="compact-sm" variant="default" mt="xs" onClick={onCountLonger}>
              Count for up to {LONG_COUNT_SECONDS} seconds
            </Button>
          )
        }
      />
      {members > 0 && (
        <div>
          <Title order={3} mb={4}>
            Members, with all their roles
          </Title>
          <UsersView users={users} compared={members_compared} total={members} sampled={sampled} />
        </div>
      )}
      {preview.traces !== null && (
        <div>
          <Title order={3} mb={4}>
            Role in isolation
          </Title>
          <Text size="sm" c="dimmed" mb="xs">
            {members === 0
              ? "Traces that the role grants to a user with only this role and no attributes."
              : "Traces that the role grants to any of its members."}
          </Text>
          <CountsView counts={preview.traces} sampled={sampled} />
        </div>
      )}
      {preview.collateral_access != null && request.draft !== null && (
        <DraftCollateralAccess initial={preview.collateral_access} request={request} />
      )}
      <div>
        <Title order={3} mb={4}>
          Cost
        </Title>
        <dl className={classes.cost}>
          {preview.search.before != null && (
            <>
              <dt>First page of a search, before</dt>
              <dd>{costText(preview.search.before)}</dd>
            </>
          )}
          {preview.search.after != null && (
            <>
              <dt>First page of a search, after</dt>
              <dd>{costText(preview.search.after)}</dd>
            </>
          )}
          <dt>This preview</dt>
          <dd>{costText(preview.cost)}</dd>
        </dl>
      </div>
    </Stack>
  );
}

/** Collateral access of the draft. The preview includes it by service; other fields are counted on selection. */
function DraftCollateralAccess({
  initial,
  request,
}: {
  initial: Api["CollateralAccess"];
  request: PreviewRequest;
}) {
  const [by, setBy] = useState<string | null>(null);
  const isOtherField = by !== null && by !== initial.by;
  const { role, draft, range, seconds } = request;
  const options = collateralAccessQuery({ role, draft, by, range, seconds });
  const query = useQuery({ ...options, enabled: isOtherField });
  return (
    <div>
      <Title order={3} mb={4}>
        Collateral access
      </Title>
      <Stack gap="xs">
        <FieldSelect field={by ?? initial.by} onChange={setBy} />
        {!isOtherField ? (
          <CollateralAccessView result={initial} showCost={false} />
        ) : (
          <CountResult
            query={query}
            queryKey={options.queryKey}
            label="Counting"
            seconds={seconds}
            errorTitle={COLLATERAL_ERROR_TITLE}
            stoppedText={COLLATERAL_STOPPED_TEXT}
          >
            {(result) => <CollateralAccessView result={result} />}
          </CountResult>
        )}
      </Stack>
    </div>
  );
}
