import { Alert, Button, Code, List, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { ApiError } from "../api/client";
import { errorText } from "./errorText";
import { Visible } from "./Visible";

const ADVICE: Partial<Record<string, string>> = {
  not_bound: "No table of traces has been set up yet. An administrator does that under “Trace source”.",
  forbidden: "This is for administrators.",
  password_change_required: "Choose a new password first, under your account.",
  session_required: "Only a log-in in the browser may do this, not an API key.",
  trace_store_error:
    "The trace store failed. Try again; if it stays, tell your administrator the request id below.",
  unavailable:
    "The trace store or the application database cannot be reached at the moment. Try again shortly.",
  query_timeout: "The search took longer than the service allows. Narrow the time range or add a condition.",
  last_admin:
    "Somebody has to be able to administer. Give the role admin to another user first, or let another administrator in again.",
  precondition_failed: "Somebody changed this since it was loaded. Load it again, then repeat the change.",
  invalid_cursor: "The search has changed in the meantime. Start it again.",
  conflict: "Somebody changed this at the same time, or the name is taken. Load it again.",
};

/** An error with possible actions. Errors of the service may contain keys and values from spans. */
export function ErrorNotice({
  error,
  onRetry,
  title,
}: {
  error: unknown;
  onRetry?: () => void;
  title?: ReactNode;
}) {
  const problem = error instanceof ApiError ? error.problem : null;
  const detail = errorText(error);
  const advice = problem === null ? undefined : ADVICE[problem.code];
  return (
    <Alert
      role="alert"
      color="red"
      variant="light"
      icon={<IconAlertTriangle aria-hidden />}
      title={title ?? problem?.title ?? "This did not work"}
    >
      <Text size="sm" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
        <Visible text={detail} />
      </Text>
      {problem?.errors !== undefined && problem.errors.length > 0 && (
        <List size="sm" mt="xs">
          {problem.errors.map((one) => (
            <List.Item key={`${one.pointer} ${one.code} ${one.detail}`}>
              <Code>
                <Visible text={one.pointer} />
              </Code>{" "}
              <Visible text={one.detail} />
              {one.hint === undefined ? null : (
                <>
                  {" "}
                  (<Visible text={one.hint} />)
                </>
              )}
            </List.Item>
          ))}
        </List>
      )}
      {advice !== undefined && advice !== detail && (
        <Text size="sm" mt="xs">
          {advice}
        </Text>
      )}
      {problem !== null && problem.request_id !== "" && (
        <Text size="xs" mt="xs">
          Request id <Code>{problem.request_id}</Code>
        </Text>
      )}
      {onRetry !== undefined && (
        <Button mt="sm" size="xs" variant="default" onClick={onRetry}>
          Try again
        </Button>
      )}
    </Alert>
  );
}
