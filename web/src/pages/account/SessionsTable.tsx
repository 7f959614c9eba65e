import { Table, Text } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { Api } from "../../api/client";
import { ConfirmButton } from "../../components/ConfirmButton";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { RelativeTime } from "../../components/RelativeTime";
import { SanitizedText } from "../../components/SanitizedText";
import { StateBadge } from "../../components/StateBadge";
import { TableHead } from "../../components/TableHead";
import { Time } from "../../components/Time";
import { sanitize } from "../../lib/sanitize";
import { agentName } from "./userAgent";

/** The sessions of a user, with buttons to end them. */
export function SessionsTable({
  query,
  onEnd,
}: {
  query: Pick<UseQueryResult<Api["SessionList"]>, "data" | "error" | "refetch">;
  onEnd: (session: Api["Session"]) => Promise<unknown>;
}) {
  if (query.data === undefined) {
    return <QueryPlaceholder query={query} label="the sessions" height={60} />;
  }
  const { sessions } = query.data;
  if (sessions.length === 0) {
    return <Text c="dimmed">Not signed in anywhere.</Text>;
  }
  return (
    <Table.ScrollContainer minWidth={640} type="native">
      <Table verticalSpacing="xs">
        <TableHead columns={["Browser", "Address", "Signed in", "Last used", ""]} />
        <Table.Tbody>
          {sessions.map((session) => {
            const agent = session.user_agent ?? "unknown";
            return (
              <Table.Tr key={session.id}>
                <Table.Td title={sanitize(agent)}>
                  <SanitizedText text={agentName(agent)} maxLength={60} />{" "}
                  {session.current && <StateBadge color="green">This session</StateBadge>}
                </Table.Td>
                <Table.Td>
                  <SanitizedText text={session.client_ip ?? "unknown"} />
                </Table.Td>
                <Table.Td>
                  <Time at={session.created_at} digits={0} />
                </Table.Td>
                <Table.Td>
                  <RelativeTime at={session.last_used_at} />
                </Table.Td>
                <Table.Td ta="right">
                  <ConfirmButton
                    subtle
                    label="Sign out"
                    object={`the session of ${sanitize(agentName(agent))} from ${sanitize(session.client_ip ?? "unknown")}`}
                    title="Sign out this session?"
                    action={() => onEnd(session)}
                  >
                    {session.current
                      ? "This is your current session: you will have to sign in again."
                      : "The next request of this session leads to the sign-in page. Signing in with the password stays possible."}
                  </ConfirmButton>
                </Table.Td>
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
