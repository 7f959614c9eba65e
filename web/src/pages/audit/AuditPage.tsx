import { Alert, Anchor, Button, Group, Table, Text, VisuallyHidden } from "@mantine/core";
import { IconClipboardOff, IconRefresh } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import type { Api } from "../../api/client";
import { queryClient } from "../../api/queries";
import { AdminOnly } from "../../components/AdminOnly";
import { EmptyState } from "../../components/EmptyState";
import { ErrorNotice } from "../../components/ErrorNotice";
import { LoadMore } from "../../components/LoadMore";
import { PageTitle } from "../../components/PageTitle";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { TableHead } from "../../components/TableHead";
import { Time } from "../../components/Time";
import { countOf } from "../../lib/numbers";
import { sanitize } from "../../lib/sanitize";
import { omitUndefined } from "../../lib/urlParams";
import { actionLabel } from "./actions";
import classes from "./audit.module.css";
import { ExportMenu } from "./ExportMenu";
import { type FilterChange, Filters } from "./Filters";
import { OutcomeBadge } from "./OutcomeBadge";
import { auditQuery, pruningQuery } from "./queries";
import { RecordPanel } from "./RecordPanel";
import { actorName, pruningCutoff, recordSummary, toolCallOf, viaLabel } from "./record";
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
  const filters = route.useSearch();
  const navigate = route.useNavigate();
  const query = useInfiniteQuery(auditQuery(filters));
  const { data, error, hasNextPage, isFetching, isFetchingNextPage, isPlaceholderData, fetchNextPage } =
    query;
  const changeFilters = (changes: FilterChange) =>
    void navigate({
      search: (previous): AuditUrl => omitUndefined({ ...previous, record: undefined, ...changes }),
      replace: true,
      resetScroll: false,
    });
  const { request } = filters;
  useEffect(() => {
    // The API cannot filter by request, so that all records within a short time around it are loaded and filtered here.
    if (request !== undefined && hasNextPage && !isFetching && error === null) {
      void fetchNextPage();
    }
  }, [request, hasNextPage, isFetching, error, fetchNextPage]);

  const loaded = data?.pages.flatMap((page) => page.records) ?? [];
  const records = request === undefined ? loaded : loaded.filter((record) => record.request_id === request);
  const openIndex = records.findIndex((record) => record.id === filters.record);
  const isFiltered = Object.keys(filters).some((name) => name !== "record");
  return (
    <div className={filters.record === undefined ? undefined : classes.withPanel}>
      <PageTitle title="Audit">
        <Button
          variant="default"
          leftSection={<IconRefresh size={16} aria-hidden />}
          loading={isFetching && !isFetchingNextPage}
          onClick={() =>
            void queryClient.resetQueries({ queryKey: auditQuery(filters).queryKey, exact: true })
          }
        >
          Refresh
        </Button>
        <ExportMenu filters={filters} />
      </PageTitle>
      <Filters filters={filters} onChange={changeFilters} />
      {request !== undefined && (
        <Alert color="brand" mb="xs" p="xs">
          <Group gap="sm">
            <Text size="sm" style={{ overflowWrap: "anywhere" }}>
              Only records of the request <SanitizedText text={request} />, within a minute of it
            </Text>
            <Button
              size="compact-xs"
              variant="default"
              onClick={() => changeFilters({ request: undefined, from: undefined, to: undefined })}
            >
              Show all again
            </Button>
          </Group>
        </Alert>
      )}
      {data === undefined ? (
        <QueryPlaceholder query={query} label="the audit log" height={320} />
      ) : (
        <>
          {records.length === 0 && !hasNextPage ? (
            <EmptyState title="No records" icon={<IconClipboardOff size={32} aria-hidden />}>
              No record matches the filters. Actor, target and key need whole names or ids.
              {isFiltered && (
                <>
                  <br />
                  <Button mt="md" variant="default" onClick={() => void navigate({ search: {} })}>
                    Show all records
                  </Button>
                </>
              )}
            </EmptyState>
          ) : (
            <RecordsTable
              records={records}
              openId={filters.record}
              isStale={isPlaceholderData}
              onOpen={(record) => changeFilters({ record })}
            />
          )}
          {error !== null && <ErrorNotice error={error} onRetry={() => void fetchNextPage()} />}
          {hasNextPage && error === null && (
            <LoadMore busy={isFetching} onMore={() => void fetchNextPage()} />
          )}
          {!hasNextPage && <EndOfList count={records.length} />}
        </>
      )}
      <RecordPanel
        recordId={data === undefined ? undefined : filters.record}
        record={records[openIndex]}
        newer={records[openIndex - 1]}
        older={openIndex < 0 ? undefined : records[openIndex + 1]}
        onShow={(record) => changeFilters({ record })}
        onClose={() => {
          const row = openIndex < 0 ? null : document.getElementById(rowId(records[openIndex]?.id ?? ""));
          changeFilters({ record: undefined });
          row?.focus({ preventScroll: true });
        }}
      />
    </div>
  );
}

/** End of the list, which may also be the point up to which records were removed. */
function EndOfList({ count }: { count: number }) {
  const pruning = useQuery(pruningQuery);
  const cutoff = pruningCutoff(pruning.data ?? undefined);
  return (
    <Text size="sm" c="dimmed" ta="center" py="sm">
      {count > 0 && `${countOf(count, "record")} in total.`}
      {cutoff !== null && (
        <>
          {" "}
          Records from before <Time at={cutoff} digits={0} /> were removed because of their age.
        </>
      )}
    </Text>
  );
}

const rowId = (record: string) => `record-${record}`;

function RecordsTable({
  records,
  openId,
  isStale,
  onOpen,
}: {
  records: readonly AuditRecord[];
  openId: string | undefined;
  isStale: boolean;
  onOpen: (id: string) => void;
}) {
  return (
    <Table.ScrollContainer minWidth={860} type="native">
      <Table
        verticalSpacing={6}
        highlightOnHover
        aria-busy={isStale}
        className={isStale ? classes.stale : undefined}
      >
        <TableHead columns={["Time", "Actor", "Action", "Outcome", "Target", "Address"]} />
        <Table.Tbody>
          {records.map((record) => (
            <RecordRow key={record.id} record={record} isOpen={record.id === openId} onOpen={onOpen} />
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function RecordRow({
  record,
  isOpen,
  onOpen,
}: {
  record: AuditRecord;
  isOpen: boolean;
  onOpen: (id: string) => void;
}) {
  const summary = recordSummary(record);
  const client = toolCallOf(record)?.client ?? null;
  const row = useRef<HTMLTableRowElement>(null);
  useEffect(() => {
    if (isOpen) {
      row.current?.scrollIntoView({ block: "nearest" });
    }
  }, [isOpen]);
  return (
    <Table.Tr
      ref={row}
      className={classes.row}
      data-open={isOpen || undefined}
      onClick={() => onOpen(record.id)}
    >
      <Table.Td>
        {/* The whole row handles clicks; this button is for keyboard users. */}
        <Anchor
          component="button"
          type="button"
          inherit
          id={rowId(record.id)}
          aria-expanded={isOpen}
          onClick={(event) => {
            event.stopPropagation();
            onOpen(record.id);
          }}
        >
          <Time at={record.at} />
          <VisuallyHidden>
            , open the record: {actionLabel(record.action)} by {sanitize(actorName(record))}
          </VisuallyHidden>
        </Anchor>
      </Table.Td>
      <Table.Td miw={90} style={{ overflowWrap: "anywhere" }}>
        <SanitizedText text={actorName(record)} maxLength={60} />
        {record.actor.via !== "session" && record.actor.via !== "service" && (
          <Secondary size="xs">
            by {viaLabel(record.actor.via)}
            {client !== null && (
              <>
                , <SanitizedText text={client} maxLength={40} />
              </>
            )}
          </Secondary>
        )}
      </Table.Td>
      <Table.Td title={record.action}>{actionLabel(record.action)}</Table.Td>
      <Table.Td>
        <OutcomeBadge outcome={record.outcome} />
      </Table.Td>
      <Table.Td className={classes.target}>
        {record.target !== null && <SanitizedText text={record.target} maxLength={80} />}
        {summary !== "" && (
          <Secondary size="xs">
            <SanitizedText text={summary} maxLength={120} />
          </Secondary>
        )}
      </Table.Td>
      <Table.Td>
        <SanitizedText text={record.client_ip ?? "–"} />
      </Table.Td>
    </Table.Tr>
  );
}
