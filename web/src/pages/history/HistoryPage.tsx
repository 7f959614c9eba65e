import { Badge, Table, Text } from "@mantine/core";
import { IconFileUpload, IconHistory } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import type { Api } from "../../api/client";
import { AdminOnly } from "../../components/AdminOnly";
import { EmptyState } from "../../components/EmptyState";
import { ErrorNotice } from "../../components/ErrorNotice";
import { LoadMore } from "../../components/LoadMore";
import { ButtonLink, PageLink } from "../../components/links";
import { Message } from "../../components/Message";
import { PageTitle } from "../../components/PageTitle";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { TableHead } from "../../components/TableHead";
import { Time } from "../../components/Time";
import { actionText, authorOf } from "./changes";
import { DownloadButton } from "./DownloadButton";
import classes from "./history.module.css";
import { historyQuery } from "./queries";

/** The versions of the access model. */
export function HistoryPage() {
  return (
    <AdminOnly>
      <PageTitle title="Model history">
        <DownloadButton version={null} label="Download the model" />
        <ButtonLink to="/history/apply" leftSection={<IconFileUpload size={16} aria-hidden />}>
          Import model
        </ButtonLink>
      </PageTitle>
      <Text c="dimmed" mb="md" maw={720}>
        All versions of the access model: the trace source, the marked fields, the roles and their policies.
        Each version is one file, which can be downloaded, kept in a repository, imported and restored. Users
        and their role assignments are not included.
      </Text>
      <VersionsTable />
    </AdminOnly>
  );
}

function VersionsTable() {
  const query = useInfiniteQuery(historyQuery);
  const { data, error, hasNextPage, isFetching, isFetchNextPageError, fetchNextPage } = query;
  if (data === undefined) {
    return <QueryPlaceholder query={query} label="the model history" height={240} />;
  }
  const entries = data.pages.flatMap((page) => page.changes);
  if (entries.length === 0) {
    return <EmptyState title="No versions yet" icon={<IconHistory size={32} aria-hidden />} />;
  }
  return (
    <>
      <Table.ScrollContainer minWidth={620} type="native">
        <Table verticalSpacing="xs" highlightOnHover aria-label="Changes">
          <TableHead columns={["Version", "Change", "By", "Time"]} />
          <Table.Tbody>
            {entries.map((entry, index) => (
              <VersionRow key={entry.version} entry={entry} isCurrent={index === 0} />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {error !== null && isFetchNextPageError && (
        <ErrorNotice error={error} onRetry={() => void fetchNextPage()} />
      )}
      {hasNextPage && !isFetchNextPageError && (
        <LoadMore busy={isFetching} onMore={() => void fetchNextPage()} />
      )}
    </>
  );
}

/** Number of summary lines in the list. */
const MAX_LINES = 4;

function VersionRow({ entry, isCurrent }: { entry: Api["HistoryEntry"]; isCurrent: boolean }) {
  const hiddenLines = entry.summary.length - MAX_LINES;
  return (
    <Table.Tr>
      <Table.Th scope="row" fw={500} style={{ whiteSpace: "nowrap" }}>
        <PageLink to="/history/$version" params={{ version: String(entry.version) }} inherit>
          {entry.version}
        </PageLink>
        {isCurrent && (
          <Badge ml="xs" size="sm" variant="default" fw={500}>
            current
          </Badge>
        )}
      </Table.Th>
      <Table.Td>
        <Secondary size="xs">
          <SanitizedText text={actionText(entry.action)} />
        </Secondary>
        <Summary lines={entry.summary.slice(0, MAX_LINES)} />
        {hiddenLines > 0 && <Secondary size="sm">and {hiddenLines.toLocaleString("en")} more</Secondary>}
      </Table.Td>
      <Table.Td style={{ overflowWrap: "anywhere" }}>
        <SanitizedText text={authorOf(entry)} maxLength={60} />
      </Table.Td>
      <Table.Td>
        <Time at={entry.at} digits={0} />
      </Table.Td>
    </Table.Tr>
  );
}

function Summary({ lines }: { lines: readonly string[] }) {
  return (
    <ul className={classes.summary}>
      {lines.map((line) => (
        <li key={line}>
          <Message text={line} maxLength={200} />
        </li>
      ))}
    </ul>
  );
}
