import { Badge, Button, Group, Stack, Switch, Table, Text, VisuallyHidden } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Api } from "../../api/client";
import { EmptyState } from "../../components/EmptyState";
import { Message } from "../../components/Message";
import { PagedList } from "../../components/PagedList";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { SanitizedText } from "../../components/SanitizedText";
import { SearchInput } from "../../components/SearchInput";
import { Secondary } from "../../components/Secondary";
import { formatBytes, formatCount } from "../../lib/numbers";
import { sanitize } from "../../lib/sanitize";
import { unsuitableReason } from "./columns";
import { tablesQuery } from "./queries";
import classes from "./source.module.css";

const PAGE_SIZE = 30;

function compareTables(a: Api["Table"], b: Api["Table"]): number {
  const byProposal = Number(b.proposal !== null) - Number(a.proposal !== null);
  return byProposal !== 0 ? byProposal : (b.rows ?? -1) - (a.rows ?? -1);
}

/** Step that selects the table with the spans. */
export function TableStep({
  selected,
  bound,
  onChoose,
}: {
  selected: { database: string; table: string } | null;
  bound: Api["Binding"] | null;
  onChoose: (database: string, table: string) => void;
}) {
  const query = useQuery(tablesQuery);
  const { data, error, refetch, isFetching } = query;
  const [text, setText] = useState("");
  const [allRequested, setAllRequested] = useState(false);
  if (error !== null || data === undefined) {
    return (
      <QueryPlaceholder
        query={query}
        label="tables"
        height={260}
        errorTitle="The tables could not be listed"
      />
    );
  }
  const proposedTables = data.filter((table) => table.proposal !== null);
  const otherCount = data.length - proposedTables.length;
  // Unsuitable tables are hidden unless there are no others or the user searches.
  const showAll = allRequested || proposedTables.length === 0 || text !== "";
  const shownTables = (showAll ? data : proposedTables)
    .filter(({ database, name }) => `${database}.${name}`.toLowerCase().includes(text.trim().toLowerCase()))
    .sort(compareTables);
  const recommended = [...proposedTables].sort(compareTables)[0];
  return (
    <Stack gap="md">
      <Text maw={720}>
        Choose the table with one row for each span. Tables whose columns look like those of spans come first.
        Tracewarden only ever reads it.
      </Text>
      <Group justify="space-between" gap="sm">
        <SearchInput label="Search tables" value={text} onSearch={setText} w={{ base: "100%", xs: 280 }} />
        <Group gap="md">
          {proposedTables.length > 0 && otherCount > 0 && (
            <Switch
              label={`Show ${otherCount === 1 ? "the other table" : `the ${otherCount} other tables`}`}
              checked={showAll}
              disabled={text !== ""}
              onChange={(event) => setAllRequested(event.currentTarget.checked)}
            />
          )}
          <Button variant="default" size="xs" loading={isFetching} onClick={() => void refetch()}>
            Refresh
          </Button>
        </Group>
      </Group>
      {data.length === 0 && (
        <EmptyState title="Tracewarden can see no tables in ClickHouse">
          Send the first spans with the OpenTelemetry Collector's ClickHouse exporter, which creates the
          table. If it exists, grant SELECT on it to the user that Tracewarden connects with. Then refresh.
        </EmptyState>
      )}
      {data.length > 0 && proposedTables.length === 0 && (
        <Text>
          No table has the usual columns of spans. If one of them holds spans, choose it: its columns can be
          mapped in the next step.
        </Text>
      )}
      {data.length > 0 && shownTables.length === 0 && <Text>No table's name contains this text.</Text>}
      {shownTables.length > 0 && (
        <PagedList items={shownTables} pageSize={PAGE_SIZE} itemName="tables" key={text}>
          {(tables) => (
            <div className={classes.scroll}>
              <Table verticalSpacing="xs" highlightOnHover aria-label="Tables in ClickHouse">
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>Table</Table.Th>
                    <Table.Th visibleFrom="sm">Engine</Table.Th>
                    <Table.Th className={classes.number}>Rows</Table.Th>
                    <Table.Th className={classes.number} visibleFrom="xs">
                      Size
                    </Table.Th>
                    <Table.Th>
                      <VisuallyHidden>Choose</VisuallyHidden>
                    </Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {tables.map((table) => {
                    const { database, name } = table;
                    const isSame = (other: { database: string; table: string } | null) =>
                      other?.database === database && other.table === name;
                    return (
                      <Table.Tr
                        key={`${database} ${name}`}
                        className={isSame(selected) ? classes.selected : undefined}
                      >
                        <Table.Td>
                          <Group gap="xs">
                            <Text span className={classes.name}>
                              <SanitizedText text={`${database}.${name}`} />
                            </Text>
                            {table === recommended && <Badge variant="light">Recommended</Badge>}
                            {table.product !== null && (
                              <Badge variant="default" color="gray" tt="none">
                                {table.product}
                              </Badge>
                            )}
                            {isSame(bound) && (
                              <Badge variant="default" color="gray">
                                Currently bound
                              </Badge>
                            )}
                          </Group>
                          {table.proposal === null && (
                            <Secondary size="xs">
                              <Message text={unsuitableReason(table)} />
                            </Secondary>
                          )}
                        </Table.Td>
                        <Table.Td visibleFrom="sm">{table.engine}</Table.Td>
                        <Table.Td className={classes.number}>
                          {table.rows === null ? "–" : formatCount(table.rows)}
                        </Table.Td>
                        <Table.Td className={classes.number} visibleFrom="xs">
                          {table.bytes === null ? "–" : formatBytes(table.bytes)}
                        </Table.Td>
                        <Table.Td className={classes.number}>
                          <Button
                            size="xs"
                            variant={table === recommended ? "filled" : "default"}
                            onClick={() => onChoose(database, name)}
                            aria-label={`Choose ${sanitize(`${database}.${name}`)}`}
                          >
                            Choose
                          </Button>
                        </Table.Td>
                      </Table.Tr>
                    );
                  })}
                </Table.Tbody>
              </Table>
            </div>
          )}
        </PagedList>
      )}
    </Stack>
  );
}
