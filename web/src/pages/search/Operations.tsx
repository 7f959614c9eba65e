import { Table, Text, UnstyledButton } from "@mantine/core";
import { IconArrowDown } from "@tabler/icons-react";
import { useState } from "react";
import type { Api } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";
import classes from "../../components/operationsTable.module.css";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { ServiceDot } from "../../components/ServiceDot";
import { serviceColour } from "../../lib/colours";
import { formatDuration } from "../../lib/duration";
import { nameOrPlaceholder } from "../../lib/names";
import { countOf } from "../../lib/numbers";
import type { FilterTerm } from "./conditions";
import { type Field, spellings } from "./fields";
import { findOperator } from "./operators";
import { ResultsSkeleton } from "./ResultsTable";
import type { SearchState } from "./searchState";
import { useStatsQuery } from "./useStats";

type Measure = Api["StatsOrder"];

/** Maximum of the groups that the service returns. */
const MAX_GROUPS = 100;

const COLUMNS: { label: string; measure?: Measure; title?: string }[] = [
  { label: "Spans", measure: "count" },
  { label: "Per minute", title: "Spans per minute of the whole time range" },
  { label: "Errors", measure: "errors" },
  { label: "Error rate", measure: "error_rate" },
  { label: "p50" },
  { label: "p95", measure: "duration" },
  { label: "p99" },
];

/** The fields of service and operation, or `null` if not both can be searched. */
export function operationFields(fields: readonly Field[]): readonly [Field, Field] | null {
  const names = spellings(fields);
  const [service, operation] = ["service", "operation"].map((name) => names.get(name));
  const isText = (field: Field | undefined): field is Field =>
    field?.type === "string" && field.operators.includes("eq");
  return isText(service) && isText(operation) ? [service, operation] : null;
}

/** Numbers, errors and durations of all spans of the matching traces, by service and operation. */
export function Operations({
  search,
  by: [service, operation],
  viewer,
  isLive,
  onSearch,
}: {
  /** The search whose matching traces are counted, once its first page is complete. */
  search: SearchState | undefined;
  by: readonly [Field, Field];
  viewer: string;
  /** Whether the search is repeated; its earlier numbers then look current. */
  isLive: boolean;
  /** Searches for the traces in which one span has a service and an operation. */
  onSearch: (term: FilterTerm) => void;
}) {
  const [measure, setMeasure] = useState<Measure>("count");
  const { data, error, isPlaceholderData, refetch } = useStatsQuery(search, viewer, {
    per: "span",
    group_by: [service.ref, operation.ref],
    measure,
    limit: MAX_GROUPS,
  });
  if (error !== null) {
    return <ErrorNotice error={error} onRetry={() => void refetch()} />;
  }
  if (data === undefined) {
    return <ResultsSkeleton />;
  }
  const minutes = data.complete
    ? Math.max(1 / 60, (Date.parse(data.to) - Date.parse(data.from)) / 60_000)
    : null;
  const equals = findOperator("eq");
  const hidden = data.distinct_groups - data.groups.length;
  return (
    <div aria-busy={isPlaceholderData} style={{ opacity: isPlaceholderData && !isLive ? 0.5 : 1 }}>
      <Table.ScrollContainer minWidth={820} type="native">
        <Table highlightOnHover verticalSpacing={3} fz="sm" aria-label="Operations of the matching traces">
          <Table.Thead>
            <Table.Tr>
              <Table.Th scope="col">Service</Table.Th>
              <Table.Th scope="col">Operation</Table.Th>
              {COLUMNS.map((column) => (
                <Table.Th
                  key={column.label}
                  scope="col"
                  ta="right"
                  title={column.title}
                  aria-sort={column.measure === measure ? "descending" : undefined}
                >
                  <SortButton column={column} measure={measure} onSort={setMeasure} />
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody className={classes.numbers}>
            {data.groups.map((group) => {
              const [serviceName = "", operationName = ""] = group.values;
              const conditions =
                equals === undefined
                  ? []
                  : [
                      { field: service, operator: equals, values: [serviceName] },
                      { field: operation, operator: equals, values: [operationName] },
                    ];
              return (
                <Table.Tr key={JSON.stringify(group.values)}>
                  <Table.Td>
                    <ServiceDot colour={serviceColour(serviceName)} />{" "}
                    <SanitizedText text={nameOrPlaceholder(serviceName)} maxLength={80} />
                  </Table.Td>
                  <Table.Td>
                    <UnstyledButton
                      className={classes.operation}
                      title="Search for traces with this operation"
                      onClick={() => onSearch({ conditions, isExclusion: false })}
                    >
                      <SanitizedText text={nameOrPlaceholder(operationName)} maxLength={120} />
                    </UnstyledButton>
                  </Table.Td>
                  <Numbers numbers={group} minutes={minutes} />
                </Table.Tr>
              );
            })}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <Secondary size="xs">
        {hidden > 0 && `${countOf(hidden, "more operation")}: add a condition to see them. `}
        {data.complete
          ? "Counts all spans of the matching traces."
          : "Counts the newest million matching traces only."}
      </Secondary>
    </div>
  );
}

function SortButton({
  column: { label, measure: ownMeasure },
  measure,
  onSort,
}: {
  column: (typeof COLUMNS)[number];
  measure: Measure;
  onSort: (measure: Measure) => void;
}) {
  if (ownMeasure === undefined) {
    return label;
  }
  return (
    <UnstyledButton className={classes.sort} onClick={() => onSort(ownMeasure)}>
      {label}
      {ownMeasure === measure && <IconArrowDown size={14} aria-hidden />}
    </UnstyledButton>
  );
}

function Numbers({
  numbers,
  minutes,
}: {
  numbers: Api["StatsNumbers"];
  /** Length of the time range; `null` if not all of it was counted. */
  minutes: number | null;
}) {
  const { spans, errors, p50_nanos, p95_nanos, p99_nanos } = numbers;
  const duration = (nanos: number | undefined) => (nanos === undefined ? "–" : formatDuration(nanos));
  const hasErrors = errors !== undefined && errors > 0;
  const cells = [
    { name: "spans", text: spans.toLocaleString("en") },
    { name: "rate", text: minutes === null ? "–" : formatRate(spans / minutes) },
    { name: "errors", text: errors?.toLocaleString("en") ?? "–", hasErrors },
    { name: "share", text: errors === undefined ? "–" : formatShare(errors / spans), hasErrors },
    { name: "p50", text: duration(p50_nanos) },
    { name: "p95", text: duration(p95_nanos) },
    { name: "p99", text: duration(p99_nanos) },
  ];
  return cells.map(({ name, text, hasErrors }) => (
    <Table.Td key={name} ta="right">
      {hasErrors === true ? (
        <Text span inherit c="var(--tw-error)">
          {text}
        </Text>
      ) : (
        text
      )}
    </Table.Td>
  ));
}

/** A number with three significant digits. */
function formatRate(rate: number): string {
  return rate.toLocaleString("en", { maximumSignificantDigits: 3 });
}

/** A part of a whole as a percentage. Only none is 0 %, and only all is 100 %. */
export function formatShare(part: number): string {
  const percent = part * 100;
  if (percent > 0 && percent < 0.1) {
    return "< 0.1 %";
  }
  if (percent < 100 && percent > 99.9) {
    return "> 99.9 %";
  }
  return `${percent.toLocaleString("en", { maximumFractionDigits: 1 })} %`;
}
