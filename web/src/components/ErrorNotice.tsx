import { Button, Code, List, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { ApiError } from "../api/client";
import { errorText } from "./errorText";
import { Message } from "./Message";
import { Notice } from "./Notice";
import { SanitizedText } from "./SanitizedText";

const ADVICE: Partial<Record<string, string>> = {
  not_bound: "The trace table is not set up yet. An administrator sets it up under “Trace source”.",
  forbidden: "Only administrators may do this.",
  password_change_required: "Change your password first.",
  session_required: "This requires a browser session, not an API key. Sign in first.",
  clickhouse_error:
    "ClickHouse failed. Try again; if it fails again, give your administrator the request id below.",
  unavailable: "ClickHouse or the application database cannot be reached at the moment. Try again shortly.",
  query_timeout: "The search took longer than the service allows. Narrow the time range or add a condition.",
  last_admin:
    "At least one administrator must remain. Give the admin role to another user first, or enable another administrator.",
  precondition_failed: "Another user changed this after it was loaded. Reload it, then repeat the change.",
  invalid_cursor: "The search has changed in the meantime. Start it again.",
  conflict: "Another user changed this at the same time, or the name is taken. Reload it.",
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
    <Notice kind="error" title={title ?? problem?.title ?? "The request failed"}>
      <Text size="sm" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
        <Message text={detail} />
      </Text>
      {problem?.errors !== undefined && problem.errors.length > 0 && (
        <List size="sm" mt="xs">
          {problem.errors.map((member) => (
            <List.Item key={`${member.pointer} ${member.code} ${member.detail}`}>
              <Code>
                <SanitizedText text={member.pointer} />
              </Code>{" "}
              <Message text={member.detail} />
              {member.hint === undefined ? null : (
                <>
                  {" "}
                  (<Message text={member.hint} />)
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
    </Notice>
  );
}
