import { Alert, Group, List, Stack, Table, Text } from "@mantine/core";
import { IconAlertTriangle, IconInfoCircle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import type { Api } from "../../api/client";
import { PageLink } from "../../components/links";
import { Message } from "../../components/Message";
import { ScrolledTable } from "../../components/ScrolledTable";
import { Visible } from "../../components/Visible";
import { formatDuration } from "../../lib/duration";
import { visible } from "../../lib/visible";
import { formatBytes, formatCount } from "../source/numbers";
import { Paged } from "../source/Paged";
import { byLoss, headline, sampleText, tracesText } from "./impact";
import classes from "./impact.module.css";

type Counts = Api["TraceChange"];

const KINDS = [
  { kind: "lost", label: "Lost" },
  { kind: "gained", label: "Gained" },
  { kind: "unchanged", label: "Unchanged" },
] as const;

/** Numbers of traces that become inaccessible and accessible, losses first. */
export function CountsView({ counts, sampled }: { counts: Counts; sampled: boolean }) {
  return (
    <dl className={classes.counts}>
      {KINDS.map(({ kind, label }) => (
        <div key={kind} className={classes.count} data-kind={counts[kind] === 0 ? undefined : kind}>
          <dt>{label}</dt>
          <dd>
            <span className={classes.number}>{tracesText(counts[kind], sampled)}</span>
            {kind !== "unchanged" && (
              <TraceLinks
                ids={kind === "lost" ? counts.lost_ids : counts.gained_ids}
                label={`Traces ${kind}`}
              />
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Maximum number of sample links, which suffice to judge the kind of traces. */
const MOST_LINKS = 5;

/** Links to sample traces, to check before deciding. */
function TraceLinks({ ids, label }: { ids: readonly string[]; label: string }) {
  if (ids.length === 0) {
    return null;
  }
  return (
    <ul className={classes.ids} aria-label={label}>
      {ids.slice(0, MOST_LINKS).map((id) => (
        <li key={id}>
          <PageLink
            to="/trace/$traceId"
            params={{ traceId: id }}
            target="_blank"
            title={`${visible(id)}, in a new tab`}
            aria-label={`Trace ${visible(id.slice(0, 8))}, in a new tab`}
            inherit
          >
            <Visible text={id.slice(0, 8)} />
          </PageLink>
        </li>
      ))}
    </ul>
  );
}

/** Changes of each user's whole access. */
export function UsersView({
  users,
  compared,
  total,
  sampled,
}: {
  users: readonly Api["UserImpact"][];
  /** Number of compared users, and of all users. */
  compared: number;
  total: number;
  sampled: boolean;
}) {
  const losing = users.some(({ lost }) => lost > 0);
  return (
    <Stack gap="xs">
      <Group gap={6} wrap="nowrap" align="flex-start">
        {losing && <IconAlertTriangle size={18} aria-hidden className={classes.warning} />}
        <Text size="sm" fw={600}>
          {headline(users, compared, sampled)}
        </Text>
      </Group>
      {compared < total && (
        <Text size="sm">
          {(total - compared).toLocaleString("en")} more were not compared; the impact on them is not known.
        </Text>
      )}
      {users.length > 0 && (
        <Paged items={byLoss(users)} size={10} what="users">
          {(shown) => (
            <ScrolledTable minWidth={420} label="Users whose access was compared">
              <Table.Thead>
                <Table.Tr>
                  <Table.Th scope="col">User</Table.Th>
                  <Table.Th scope="col">Loses</Table.Th>
                  <Table.Th scope="col">Gains</Table.Th>
                  <Table.Th scope="col">Keeps</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {shown.map((user) => (
                  <Table.Tr key={user.username}>
                    <Table.Th scope="row" fw={500}>
                      <PageLink
                        to="/users/$username"
                        params={{ username: user.username }}
                        target="_blank"
                        inherit
                      >
                        <Visible text={user.username} />
                      </PageLink>
                    </Table.Th>
                    <Table.Td>
                      <span className={classes.change} data-kind={user.lost > 0 ? "lost" : undefined}>
                        {tracesText(user.lost, sampled)}
                      </span>
                      <TraceLinks ids={user.lost_ids} label={`Traces that ${visible(user.username)} loses`} />
                    </Table.Td>
                    <Table.Td>
                      <span className={classes.change} data-kind={user.gained > 0 ? "gained" : undefined}>
                        {tracesText(user.gained, sampled)}
                      </span>
                      <TraceLinks
                        ids={user.gained_ids}
                        label={`Traces that ${visible(user.username)} gains`}
                      />
                    </Table.Td>
                    <Table.Td>{tracesText(user.unchanged, sampled)}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </ScrolledTable>
          )}
        </Paged>
      )}
    </Stack>
  );
}

/** How reliable the numbers are. */
export function Reliance({
  sampled,
  fraction,
  among,
  notes = [],
  action,
}: {
  sampled: boolean;
  fraction: number;
  among: Api["Among"];
  notes?: readonly string[];
  /** Action that improves the reliability. */
  action?: ReactNode;
}) {
  const sample = sampleText(sampled, fraction);
  const said = [
    sample,
    among === "readable"
      ? "Only traces that you may see yourself are counted: the service is configured to show administrators nothing of other traces."
      : null,
    ...notes,
  ].filter((text) => text !== null);
  if (said.length === 0) {
    return null;
  }
  return (
    <Alert
      variant="light"
      color={sampled ? "yellow" : "gray"}
      icon={<IconInfoCircle aria-hidden />}
      p="xs"
      {...(sampled ? { title: "These numbers are estimates" } : {})}
    >
      {said.length === 1 ? (
        <Text size="sm" c="var(--mantine-color-text)">
          <Message text={said[0] ?? ""} />
        </Text>
      ) : (
        <List size="sm" c="var(--mantine-color-text)">
          {said.map((text) => (
            <List.Item key={text}>
              <Message text={text} />
            </List.Item>
          ))}
        </List>
      )}
      {action}
    </Alert>
  );
}

/** Cost of ClickHouse statements. */
export function costText({ rows, bytes, milliseconds }: Api["Cost"]): string {
  return `${formatCount(rows)} ${rows === 1 ? "row" : "rows"}, ${formatBytes(bytes)}, ${formatDuration(milliseconds * 1e6)}`;
}
