import { Code, Stack, Table, Text } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { Api } from "../../api/client";
import { ConfirmButton } from "../../components/ConfirmButton";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { RelativeTime } from "../../components/RelativeTime";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { StateBadge } from "../../components/StateBadge";
import { TableHead } from "../../components/TableHead";
import { Time } from "../../components/Time";
import { sanitize } from "../../lib/sanitize";
import { daysUntil, WARNING_DAYS } from "./expiry";

/** The API keys of a user, with buttons to revoke them. */
export function KeysTable({
  query,
  empty,
  onRevoke,
  links,
}: {
  query: Pick<UseQueryResult<Api["ApiKeyList"]>, "data" | "error" | "refetch">;
  /** Shown if there are no keys. */
  empty: ReactNode;
  onRevoke: (key: Api["ApiKey"]) => Promise<unknown>;
  /** Links to related pages. */
  links?: (key: Api["ApiKey"]) => ReactNode;
}) {
  if (query.data === undefined) {
    return <QueryPlaceholder query={query} label="the keys" height={80} />;
  }
  const keys = query.data.api_keys;
  if (keys.length === 0) {
    return empty;
  }
  return (
    <Table.ScrollContainer minWidth={760} type="native">
      <Table verticalSpacing="xs">
        <TableHead columns={["Name", "Token", "Constraint", "Created", "Last used", "Expires", ""]} />
        <Table.Tbody>
          {keys.map((key) => (
            <Table.Tr key={key.id}>
              <Table.Td maw={260} style={{ overflowWrap: "anywhere" }}>
                <SanitizedText text={key.name} />
              </Table.Td>
              <Table.Td>
                <Code>{key.token_hint}…</Code>
              </Table.Td>
              <Table.Td maw={320}>
                <KeyConstraint policy={key.policy} tools={key.tools} />
              </Table.Td>
              <Table.Td>
                <Time at={key.created_at} digits={0} />
              </Table.Td>
              <Table.Td>
                <RelativeTime at={key.last_used_at} />
                <LastClient apiKey={key} />
              </Table.Td>
              <Table.Td>
                <Expiry at={key.expires_at} />
              </Table.Td>
              <Table.Td ta="right">
                {links?.(key)}
                <ConfirmButton
                  subtle
                  label="Revoke"
                  object={`the key ${sanitize(key.name)}`}
                  title="Revoke this key?"
                  action={() => onRevoke(key)}
                >
                  After this, requests with the key <SanitizedText text={key.name} maxLength={100} /> (
                  {key.token_hint}…) are rejected. This cannot be undone.
                </ConfirmButton>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function LastClient({ apiKey: { last_client_ip, last_user_agent } }: { apiKey: Api["ApiKey"] }) {
  if (last_client_ip === null && last_user_agent === null) {
    return null;
  }
  return (
    <Text size="xs" c="dimmed" maw={220} style={{ overflowWrap: "anywhere" }}>
      {last_client_ip} <SanitizedText text={last_user_agent ?? ""} maxLength={60} />
    </Text>
  );
}

function Expiry({ at }: { at: string | null }) {
  if (at === null) {
    return <Secondary>never</Secondary>;
  }
  const days = daysUntil(at, new Date());
  if (days < 0) {
    return (
      <StateBadge color="red" title={at}>
        Expired
      </StateBadge>
    );
  }
  return days < WARNING_DAYS ? (
    <StateBadge color="yellow" title={at}>
      {days === 0 ? "Expires within a day" : days === 1 ? "Expires in 1 day" : `Expires in ${days} days`}
    </StateBadge>
  ) : (
    <Time at={at} digits={0} />
  );
}

function KeyConstraint({ policy, tools }: { policy: string | null; tools: readonly string[] | null }) {
  if (policy === null && tools === null) {
    return <Secondary>none</Secondary>;
  }
  return (
    <Stack gap={2}>
      {policy !== null && (
        <Code style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
          <SanitizedText text={policy} maxLength={300} />
        </Code>
      )}
      {tools !== null && (
        <Text span size="xs">
          only {tools.join(", ")}
        </Text>
      )}
    </Stack>
  );
}
