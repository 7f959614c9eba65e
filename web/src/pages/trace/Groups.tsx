import { Button, ScrollArea, Table, Text, UnstyledButton } from "@mantine/core";
import { IconArrowDown, IconArrowUp } from "@tabler/icons-react";
import { useMemo, useState } from "react";
import table from "../../components/operationsTable.module.css";
import { SanitizedText } from "../../components/SanitizedText";
import { ServiceDot } from "../../components/ServiceDot";
import { formatDuration } from "../../lib/duration";
import { type GroupColumn, groupsOf, sortGroups } from "../../trace/groups";
import { serviceOfSpan, type Trace } from "../../trace/model";
import classes from "./trace.module.css";
import { serviceColourIn } from "./useColours";
import type { FindResult } from "./useFind";

const COLUMNS: [GroupColumn, string][] = [
  ["service", "Service"],
  ["operation", "Operation"],
  ["count", "Spans"],
  ["matches", "Matches"],
  ["total", "Total"],
  ["self", "Self"],
  ["max", "Longest"],
  ["errors", "Errors"],
];
const PAGE_SIZE = 200;

/** Spans of a trace by service and operation, to show the distribution of time in large traces. During a text
 * search, only groups with a matching span are shown. */
export function Groups({
  trace,
  findResult,
  onShow,
}: {
  trace: Trace;
  findResult: FindResult;
  onShow: (span: number) => void;
}) {
  const [sorting, setSorting] = useState<{ by: GroupColumn; descending: boolean }>({
    by: "self",
    descending: true,
  });
  const [limit, setLimit] = useState(PAGE_SIZE);
  const marks = findResult.text.trim() === "" || !findResult.done ? null : findResult.marks;
  const groups = useMemo(() => groupsOf(trace, marks), [trace, marks]);
  const sorted = useMemo(() => {
    const found = marks === null ? groups : groups.filter(({ matches }) => matches > 0);
    return sortGroups(found, sorting.by, sorting.descending);
  }, [groups, marks, sorting]);
  const columns = COLUMNS.filter(([column]) => column !== "matches" || marks !== null);
  const totalSelf = groups.reduce((sum, group) => sum + group.self, 0) || 1;
  return (
    <ScrollArea className={classes.groups} tabIndex={-1}>
      <Table striped highlightOnHover stickyHeader verticalSpacing={4} miw={720} aria-label="Operations">
        <Table.Thead>
          <Table.Tr>
            {columns.map(([column, name]) => {
              const isSortColumn = sorting.by === column;
              return (
                <Table.Th
                  key={column}
                  aria-sort={isSortColumn ? (sorting.descending ? "descending" : "ascending") : "none"}
                  ta={column === "service" || column === "operation" ? "left" : "right"}
                >
                  <UnstyledButton
                    className={table.sort}
                    onClick={() =>
                      setSorting({
                        by: column,
                        descending: isSortColumn
                          ? !sorting.descending
                          : column !== "service" && column !== "operation",
                      })
                    }
                  >
                    {name}
                    {isSortColumn &&
                      (sorting.descending ? (
                        <IconArrowDown size={14} aria-hidden />
                      ) : (
                        <IconArrowUp size={14} aria-hidden />
                      ))}
                  </UnstyledButton>
                </Table.Th>
              );
            })}
            <Table.Th>Share of self time</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody className={table.numbers}>
          {sorted.slice(0, limit).map((group) => (
            <Table.Tr key={group.longest}>
              <Table.Td>
                <ServiceDot colour={serviceColourIn(trace, serviceOfSpan(trace, group.longest))} />{" "}
                <SanitizedText text={group.service} maxLength={80} />
              </Table.Td>
              <Table.Td>
                <UnstyledButton
                  className={table.operation}
                  onClick={() => onShow(group.longest)}
                  title="Open the longest span"
                >
                  <SanitizedText text={group.operation} maxLength={120} />
                </UnstyledButton>
              </Table.Td>
              <Table.Td ta="right">{group.count.toLocaleString("en")}</Table.Td>
              {marks !== null && <Table.Td ta="right">{group.matches.toLocaleString("en")}</Table.Td>}
              <Table.Td ta="right">{formatDuration(group.total)}</Table.Td>
              <Table.Td ta="right">{formatDuration(group.self)}</Table.Td>
              <Table.Td ta="right">{formatDuration(group.max)}</Table.Td>
              <Table.Td ta="right">
                <Text span inherit c={group.errors > 0 ? "var(--tw-error)" : "var(--tw-text-secondary)"}>
                  {group.errors.toLocaleString("en")}
                </Text>
              </Table.Td>
              <Table.Td>
                <span className={classes.share}>
                  <span
                    style={{
                      width: `${(group.self / totalSelf) * 100}%`,
                      background: serviceColourIn(trace, serviceOfSpan(trace, group.longest)),
                    }}
                  />
                </span>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {sorted.length > limit && (
        <Button m="sm" size="xs" variant="default" onClick={() => setLimit(limit + PAGE_SIZE)}>
          Show {Math.min(PAGE_SIZE, sorted.length - limit)} more of {sorted.length.toLocaleString("en")}
        </Button>
      )}
    </ScrollArea>
  );
}
