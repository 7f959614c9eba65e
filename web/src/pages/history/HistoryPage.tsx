import { Badge, Skeleton, Table, Text } from "@mantine/core";
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
import { SanitizedText } from "../../components/SanitizedText";
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
      <Text c="var(--tw-text-secondary)" mb="md" maw={720}>
        All versions of the access model: the trace source, the marked fields, the roles and their policies.
        Each version is one file, which can be downloaded, kept in a repository, imported and restored. Users
        and their role assignments are not included.
      </Text>
      <VersionsTable />
    </AdminOnly>
  );
}

function VersionsTable() {
  const { data, error, hasNextPage, isFetching, isFetchNextPageError, fetchNextPage, refetch } =
    useInfiniteQuery(historyQuery);
  if (data === undefined) {
    return error === null ? (
      <Skeleton height={240} aria-label="Loading the model history" />
    ) : (
      <ErrorNotice error={error} onRetry={() => void refetch()} />
    );
  }
  const entries = data.pages.flatMap((page) => page.changes);
  if (entries.length === 0) {
    return <EmptyState title="No versions yet" icon={<IconHistory size={32} aria-hidden />} />;
  }
  return (
    <>
      <Table.ScrollContainer minWidth={620} type="native">
        <Table verticalSpacing="xs" highlightOnHover aria-label="Changes">
          <Table.Thead>
            <Table.Tr>
              <Table.Th scope="col">Version</Table.Th>
              <Table.Th scope="col">Change</Table.Th>
              <Table.Th scope="col">By</Table.Th>
              <Table.Th scope="col">Time</Table.Th>
            </Table.Tr>
          </Table.Thead>
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
        <LoadMore
          busy={isFetching}
          onMore={() => {
            if (!isFetching) {
              void fetchNextPage();
            }
          }}
        />
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
          <Badge ml="xs" size="sm" variant="default" tt="none" fw={500}>
            current
          </Badge>
        )}
      </Table.Th>
      <Table.Td>
        <Text size="xs" c="var(--tw-text-secondary)">
          <SanitizedText text={actionText(entry.action)} />
        </Text>
        <Summary lines={entry.summary.slice(0, MAX_LINES)} />
        {hiddenLines > 0 && (
          <Text size="sm" c="var(--tw-text-secondary)">
            and {hiddenLines.toLocaleString("en")} more
          </Text>
        )}
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
