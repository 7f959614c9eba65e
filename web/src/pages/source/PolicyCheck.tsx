import { Alert, List, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconAlertTriangle, IconCheck } from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type Api, api, ask } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";
import { Visible } from "../../components/Visible";

/** What the service says about an expression, a moment after it was last changed. */
export function usePolicyCheck(expression: string) {
  const [settled] = useDebouncedValue(expression, 300);
  return useQuery({
    queryKey: ["policy-check", settled],
    queryFn: async ({ signal }) => ({
      expression: settled,
      result: await ask(api.POST("/policies/check", { signal, body: { expression: settled } })),
    }),
    enabled: settled !== "",
    placeholderData: keepPreviousData,
    // What is marked, and who has which attributes, may have changed since.
    staleTime: 0,
  });
}

/** The answer, with the place of each error. */
export function PolicyCheck({
  check: { data, error },
  expression,
}: {
  check: ReturnType<typeof usePolicyCheck>;
  expression: string;
}) {
  if (expression === "") {
    return null;
  }
  if (error !== null) {
    return <ErrorNotice error={error} title="The expression could not be checked" />;
  }
  if (data === undefined) {
    return null;
  }
  const { valid, errors, warnings, fields } = data.result;
  return (
    <div aria-live="polite">
      {valid ? (
        <Text size="sm" style={{ display: "flex", alignItems: "center", gap: 6 }}>
          <IconCheck size={16} aria-hidden />
          <span>
            Valid.{" "}
            {fields.length === 0 ? (
              "It looks at no field."
            ) : (
              <>
                It reads <Visible text={fields.join(", ")} />.
              </>
            )}
          </span>
        </Text>
      ) : (
        <Alert color="red" variant="light" icon={<IconAlertTriangle aria-hidden />} title="Not a policy yet">
          <Remarks remarks={errors} />
        </Alert>
      )}
      {warnings.length > 0 && (
        <Alert
          mt="xs"
          color="yellow"
          variant="light"
          icon={<IconAlertTriangle aria-hidden />}
          title="Allowed, yet perhaps not meant"
        >
          <Remarks remarks={warnings} />
        </Alert>
      )}
    </div>
  );
}

function Remarks({ remarks }: { remarks: Api["Diagnostic"][] }) {
  return (
    <List size="sm">
      {remarks.map(({ line, column, code, message, hint }) => (
        <List.Item key={`${line} ${column} ${code} ${message}`}>
          {line > 1 || column > 1 ? `Line ${line}, column ${column}: ` : ""}
          <Visible text={message} />
          {hint === undefined ? null : (
            <>
              {" – "}
              <Visible text={hint} />
            </>
          )}
        </List.Item>
      ))}
    </List>
  );
}
