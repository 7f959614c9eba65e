import { Alert, Group, Stack, Table, Text } from "@mantine/core";
import { IconAlertTriangle, IconInfoCircle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import type { Api } from "../../api/client";
import { PageLink } from "../../components/links";
import { Message } from "../../components/Message";
import { MessageList } from "../../components/MessageList";
import { PagedList } from "../../components/PagedList";
import { SanitizedText } from "../../components/SanitizedText";
import { ScrollableTable } from "../../components/ScrollableTable";
import { TableHead } from "../../components/TableHead";
import { formatDuration } from "../../lib/duration";
import { formatBytes, formatCount } from "../../lib/numbers";
import { sanitize } from "../../lib/sanitize";
import { headline, sampleText, sortByLoss, tracesText } from "./impact";
import classes from "./impact.module.css";

type Counts = Api["TraceChange"];

const CHANGE_KINDS = [
  { kind: "lost", label: "Lost" },
  { kind: "gained", label: "Gained" },
  { kind: "unchanged", label: "Unchanged" },
] as const;

/** Numbers of traces that become inaccessible and accessible, losses first. */
export function CountsView({ counts, sampled }: { counts: Counts; sampled: boolean }) {
  return (
    <dl className={classes.counts}>
      {CHANGE_KINDS.map(({ kind, label }) => (
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
const MAX_LINKS = 5;

/** Links to sample traces, to check before deciding. */
function TraceLinks({ ids, label }: { ids: readonly string[]; label: string }) {
  if (ids.length === 0) {
    return null;
  }
  return (
    <ul className={classes.ids} aria-label={label}>
      {ids.slice(0, MAX_LINKS).map((id) => (
        <li key={id}>
          <PageLink
            to="/trace/$traceId"
            params={{ traceId: id }}
            target="_blank"
            title={`${sanitize(id)}, in a new tab`}
            aria-label={`Trace ${sanitize(id.slice(0, 8))}, in a new tab`}
            inherit
          >
            <SanitizedText text={id.slice(0, 8)} />
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
  const hasLoss = users.some(({ lost }) => lost > 0);
  return (
    <Stack gap="xs">
      <Group gap={6} wrap="nowrap" align="flex-start">
        {hasLoss && <IconAlertTriangle size={18} aria-hidden className={classes.warning} />}
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
        <PagedList items={sortByLoss(users)} pageSize={10} itemName="users">
          {(pageUsers) => (
            <ScrollableTable minWidth={420} label="Users whose access was compared">
              <TableHead columns={["User", "Loses", "Gains", "Keeps"]} />
              <Table.Tbody>
                {pageUsers.map((user) => (
                  <Table.Tr key={user.username}>
                    <Table.Th scope="row" fw={500}>
                      <PageLink
                        to="/users/$username"
                        params={{ username: user.username }}
                        target="_blank"
                        inherit
                      >
                        <SanitizedText text={user.username} />
                      </PageLink>
                    </Table.Th>
                    <Table.Td>
                      <span className={classes.change} data-kind={user.lost > 0 ? "lost" : undefined}>
                        {tracesText(user.lost, sampled)}
                      </span>
                      <TraceLinks
                        ids={user.lost_ids}
                        label={`Traces that ${sanitize(user.username)} loses`}
                      />
                    </Table.Td>
                    <Table.Td>
                      <span className={classes.change} data-kind={user.gained > 0 ? "gained" : undefined}>
                        {tracesText(user.gained, sampled)}
                      </span>
                      <TraceLinks
                        ids={user.gained_ids}
                        label={`Traces that ${sanitize(user.username)} gains`}
                      />
                    </Table.Td>
                    <Table.Td>{tracesText(user.unchanged, sampled)}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </ScrollableTable>
          )}
        </PagedList>
      )}
    </Stack>
  );
}

/** How reliable the numbers are. */
export function ReliabilityNotice({
  sampled,
  fraction,
  counted_traces,
  notes = [],
  action,
}: {
  sampled: boolean;
  fraction: number;
  counted_traces: Api["CountedTraces"];
  notes?: readonly string[];
  /** Action that improves the reliability. */
  action?: ReactNode;
}) {
  const sample = sampleText(sampled, fraction);
  const texts = [
    sample,
    counted_traces === "readable"
      ? "Only traces that you may see yourself are counted: this service shows administrators nothing of other traces."
      : null,
    ...notes,
  ].filter((text) => text !== null);
  if (texts.length === 0) {
    return null;
  }
  return (
    <Alert
      color={sampled ? "yellow" : "gray"}
      icon={<IconInfoCircle aria-hidden />}
      p="xs"
      {...(sampled ? { title: "These numbers are estimates" } : {})}
    >
      {texts.length === 1 ? (
        <Text size="sm" c="var(--mantine-color-text)">
          <Message text={texts[0] ?? ""} />
        </Text>
      ) : (
        <MessageList messages={texts} />
      )}
      {action}
    </Alert>
  );
}

/** Cost of ClickHouse statements. */
export function costText({ rows, bytes, milliseconds }: Api["Cost"]): string {
  return `${formatCount(rows)} ${rows === 1 ? "row" : "rows"}, ${formatBytes(bytes)}, ${formatDuration(milliseconds * 1e6)}`;
}
