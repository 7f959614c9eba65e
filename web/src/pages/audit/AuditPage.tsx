import { Alert, Anchor, Button, Group, Skeleton, Table, Text, VisuallyHidden } from "@mantine/core";
import { IconClipboardOff, IconRefresh } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import type { Api } from "../../api/client";
import { queryClient } from "../../api/queries";
import { AdminOnly } from "../../components/AdminOnly";
import { EmptyState } from "../../components/EmptyState";
import { ErrorNotice } from "../../components/ErrorNotice";
import { MoreRows } from "../../components/MoreRows";
import { PageTitle } from "../../components/PageTitle";
import { Time } from "../../components/Time";
import { Visible } from "../../components/Visible";
import { visible } from "../../lib/visible";
import { actionLabel } from "./actions";
import classes from "./audit.module.css";
import { Export } from "./Export";
import { type Change, Filters } from "./Filters";
import { OutcomeBadge } from "./OutcomeBadge";
import { auditQuery, pruningQuery } from "./queries";
import { RecordPanel } from "./RecordPanel";
import { actorName, inShort, prunedBefore, toolCallOf, viaLabel } from "./record";
import type { AuditUrl } from "./url";

const route = getRouteApi("/app/audit");

type AuditRecord = Api["AuditRecord"];

/** The audit log. */
export function AuditPage() {
  return (
    <AdminOnly>
      <Explorer />
    </AdminOnly>
  );
}

function Explorer() {
  const asked = route.useSearch();
  const navigate = route.useNavigate();
  const query = useInfiniteQuery(auditQuery(asked));
  const { data, error, hasNextPage, isFetching, isFetchingNextPage, isPlaceholderData, fetchNextPage } =
    query;
  const change = (part: Change) =>
    void navigate({
      search: (before): AuditUrl => {
        const after = { ...before, record: undefined, ...part };
        return Object.fromEntries(Object.entries(after).filter(([, value]) => value !== undefined));
      },
      replace: true,
      resetScroll: false,
    });
  const { request } = asked;
  useEffect(() => {
    // The API cannot filter by request, so that all records within a short time around it are loaded and filtered here.
    if (request !== undefined && hasNextPage && !isFetching && error === null) {
      void fetchNextPage();
    }
  }, [request, hasNextPage, isFetching, error, fetchNextPage]);

  const loaded = data?.pages.flatMap((page) => page.records) ?? [];
  const records = request === undefined ? loaded : loaded.filter((record) => record.request_id === request);
  const place = records.findIndex((record) => record.id === asked.record);
  const narrowed = Object.keys(asked).some((name) => name !== "record");
  return (
    <div className={asked.record === undefined ? undefined : classes.beside}>
      <PageTitle title="Audit">
        <Button
          variant="default"
          leftSection={<IconRefresh size={16} aria-hidden />}
          loading={isFetching && !isFetchingNextPage}
          onClick={() => void queryClient.resetQueries({ queryKey: auditQuery(asked).queryKey, exact: true })}
        >
          Refresh
        </Button>
        <Export asked={asked} />
      </PageTitle>
      <Filters asked={asked} onChange={change} />
      {request !== undefined && (
        <Alert color="brand" variant="light" mb="xs" p="xs">
          <Group gap="sm">
            <Text size="sm" style={{ overflowWrap: "anywhere" }}>
              Only records of the request <Visible text={request} />, within a minute of it
            </Text>
            <Button
              size="compact-xs"
              variant="default"
              onClick={() => change({ request: undefined, from: undefined, to: undefined })}
            >
              Show all again
            </Button>
          </Group>
        </Alert>
      )}
      {data === undefined ? (
        error === null ? (
          <Skeleton height={320} aria-label="Loading the audit log" />
        ) : (
          <ErrorNotice error={error} onRetry={() => void query.refetch()} />
        )
      ) : (
        <>
          {records.length === 0 && !hasNextPage ? (
            <EmptyState title="No records" icon={<IconClipboardOff size={32} aria-hidden />}>
              No record matches the filters. The actor filter needs the whole name or id.
              {narrowed && (
                <>
                  <br />
                  <Button mt="md" variant="default" onClick={() => void navigate({ search: {} })}>
                    Show all records
                  </Button>
                </>
              )}
            </EmptyState>
          ) : (
            <Records
              records={records}
              open={asked.record}
              stale={isPlaceholderData}
              onOpen={(record) => change({ record })}
            />
          )}
          {error !== null && <ErrorNotice error={error} onRetry={() => void fetchNextPage()} />}
          {hasNextPage && error === null && (
            <MoreRows
              busy={isFetching}
              onMore={() => {
                if (!isFetching) {
                  void fetchNextPage();
                }
              }}
            />
          )}
          {!hasNextPage && <End count={records.length} />}
        </>
      )}
      <RecordPanel
        wanted={data === undefined ? undefined : asked.record}
        record={records[place]}
        newer={records[place - 1]}
        older={place < 0 ? undefined : records[place + 1]}
        onShow={(record) => change({ record })}
        onClose={() => {
          const row = place < 0 ? null : document.getElementById(rowId(records[place]?.id ?? ""));
          change({ record: undefined });
          row?.focus({ preventScroll: true });
        }}
      />
    </div>
  );
}

/** End of the list, which may also be the point up to which records were removed. */
function End({ count }: { count: number }) {
  const pruning = useQuery(pruningQuery);
  const before = prunedBefore(pruning.data ?? undefined);
  return (
    <Text size="sm" c="var(--tw-quiet)" ta="center" py="sm">
      {count > 0 && `${count.toLocaleString("en")} ${count === 1 ? "record" : "records"} in total.`}
      {before !== null && (
        <>
          {" "}
          Records from before <Time at={before} digits={0} /> were removed because of their age.
        </>
      )}
    </Text>
  );
}

const rowId = (record: string) => `record-${record}`;

function Records({
  records,
  open,
  stale,
  onOpen,
}: {
  records: readonly AuditRecord[];
  open: string | undefined;
  stale: boolean;
  onOpen: (id: string) => void;
}) {
  return (
    <Table.ScrollContainer minWidth={860} type="native">
      <Table
        verticalSpacing={6}
        highlightOnHover
        aria-busy={stale}
        className={stale ? classes.stale : undefined}
      >
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Time</Table.Th>
            <Table.Th>Actor</Table.Th>
            <Table.Th>Action</Table.Th>
            <Table.Th>Outcome</Table.Th>
            <Table.Th>Target</Table.Th>
            <Table.Th>Address</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {records.map((record) => (
            <Row key={record.id} record={record} open={record.id === open} onOpen={onOpen} />
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function Row({ record, open, onOpen }: { record: AuditRecord; open: boolean; onOpen: (id: string) => void }) {
  const short = inShort(record);
  const client = toolCallOf(record)?.client ?? null;
  const row = useRef<HTMLTableRowElement>(null);
  useEffect(() => {
    if (open) {
      row.current?.scrollIntoView({ block: "nearest" });
    }
  }, [open]);
  return (
    <Table.Tr
      ref={row}
      className={classes.row}
      data-open={open || undefined}
      onClick={() => onOpen(record.id)}
    >
      <Table.Td>
        {/* The whole row handles clicks; this button is for keyboard users. */}
        <Anchor
          component="button"
          type="button"
          inherit
          id={rowId(record.id)}
          aria-expanded={open}
          onClick={(event) => {
            event.stopPropagation();
            onOpen(record.id);
          }}
        >
          <Time at={record.at} />
          <VisuallyHidden>
            , open the record: {actionLabel(record.action)} by {visible(actorName(record))}
          </VisuallyHidden>
        </Anchor>
      </Table.Td>
      <Table.Td miw={90} style={{ overflowWrap: "anywhere" }}>
        <Visible text={actorName(record)} most={60} />
        {record.actor.via !== "session" && record.actor.via !== "service" && (
          <Text size="xs" c="var(--tw-quiet)">
            by {viaLabel(record.actor.via)}
            {client !== null && (
              <>
                , <Visible text={client} most={40} />
              </>
            )}
          </Text>
        )}
      </Table.Td>
      <Table.Td title={record.action}>{actionLabel(record.action)}</Table.Td>
      <Table.Td>
        <OutcomeBadge outcome={record.outcome} />
      </Table.Td>
      <Table.Td className={classes.target}>
        {record.target !== null && <Visible text={record.target} most={80} />}
        {short !== "" && (
          <Text size="xs" c="var(--tw-quiet)">
            <Visible text={short} most={120} />
          </Text>
        )}
      </Table.Td>
      <Table.Td>
        <Visible text={record.client_ip ?? "–"} />
      </Table.Td>
    </Table.Tr>
  );
}
