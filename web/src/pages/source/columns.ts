import type { Api } from "../../api/client";
import type { DisplayedColumn } from "../../trace/columns";

export type { DisplayedColumn };

type Binding = Api["Binding"];
type Column = Api["TableColumn"];

export type StructuralColumn = "trace_id" | "span_id" | "parent_span_id" | "timestamp";
export type TimeUnit = Api["TimeUnit"];

type ColumnRole<Name> = {
  member: Name;
  label: string;
  /** Purpose of the column. */
  purpose: string;
  isSuitable: (column: Column) => boolean;
  /** Description of suitable columns. */
  requirement: string;
};

/** The type without `Nullable` and `LowCardinality`, which make no difference here. */
const baseType = (type: string): string =>
  type.replace(/^(?:(?:Nullable|LowCardinality)\()*/, "").replace(/\)+$/, "");

// Same rules as in the service, so that only accepted columns are offered. The service decides.
const isId = ({ type }: Column) => /^(String|FixedString|UUID|U?Int(32|64|128))(\(|$)/.test(baseType(type));
const isDate = ({ type }: Column) => /^DateTime(64)?(\(|$)/.test(type);
/** Whether the column holds times as integers, whose unit has to be chosen. */
export const isIntegerTime = ({ type }: Column) => /^U?Int(32|64)$/.test(type);
const isTime = (column: Column) => isDate(column) || isIntegerTime(column);
const isEnd = ({ type }: Column) => /^(DateTime(64)?(\(|$)|U?Int(32|64)$)/.test(baseType(type));
const isStatus = (column: Column) => isText(column) || /^(U?Int\d+|Bool)$/.test(baseType(column.type));
const isText = ({ logical_types }: Column) => logical_types.includes("string");
const isNumber = ({ type }: Column) => /^(LowCardinality\()?(U?Int(8|16|32|64)|Float(32|64))\)?$/.test(type);

export const STRUCTURAL_COLUMNS: ColumnRole<StructuralColumn>[] = [
  {
    member: "trace_id",
    label: "Trace id",
    purpose: "Identifies the trace of the span. All spans of a trace are shown or hidden together.",
    isSuitable: isId,
    requirement: "a column of strings, UUIDs or integers",
  },
  {
    member: "span_id",
    label: "Span id",
    purpose: "Identifies the span within its trace.",
    isSuitable: isId,
    requirement: "a column of strings, UUIDs or integers",
  },
  {
    member: "parent_span_id",
    label: "Parent span id",
    purpose: "Id of the calling span, empty on the root. Determines the tree of the trace.",
    isSuitable: isId,
    requirement: "a column of strings, UUIDs or integers",
  },
  {
    member: "timestamp",
    label: "Timestamp",
    purpose: "Start of the span. Searches cover a range of it.",
    isSuitable: isTime,
    requirement: "a column of times, or of integers, that is not nullable",
  },
];

export const DISPLAYED_COLUMNS: ColumnRole<DisplayedColumn>[] = [
  {
    member: "name",
    label: "Name",
    purpose: "The operation, such as GET /cart. The title of results and of the rows of a trace.",
    isSuitable: isText,
    requirement: "a text column",
  },
  {
    member: "service",
    label: "Service",
    purpose: "The service of the span. Determines its colour, and the number of services of a trace.",
    isSuitable: isText,
    requirement: "a text column",
  },
  {
    member: "duration",
    label: "Duration",
    purpose: "Duration of the span. Without duration and end, no bars and no durations are shown.",
    isSuitable: isNumber,
    requirement: "a number column that is not nullable",
  },
  {
    member: "end",
    label: "End",
    purpose: "End of the span, in a table without durations.",
    isSuitable: isEnd,
    requirement: "a column like the timestamp",
  },
  {
    member: "status",
    label: "Status",
    purpose: "Whether the span failed. Determines which spans count as errors.",
    isSuitable: isStatus,
    requirement: "a column of texts, integers or booleans",
  },
  {
    member: "kind",
    label: "Kind",
    purpose: "Server, client, producer, consumer or internal. Shown in the details of a span.",
    isSuitable: isText,
    requirement: "a text column",
  },
];

export const TIME_UNITS: { value: TimeUnit; label: string }[] = [
  { value: "s", label: "seconds" },
  { value: "ms", label: "milliseconds" },
  { value: "us", label: "microseconds" },
  { value: "ns", label: "nanoseconds" },
];

/** The wizard's draft of a binding; empty strings for unselected columns. */
export type BindingDraft = Record<StructuralColumn, string> &
  Record<`display_${DisplayedColumn}`, string> & {
    trace_index: string;
    timestamp_unit: TimeUnit | "";
    duration_unit: TimeUnit | "";
    read_as: Api["ReadAs"] | "";
    time_bucket: string;
    bucket_seconds: number;
    error_values: string[];
    only: Api["ColumnValue"][];
  };

/** Members of a draft that name one column or table. */
export type DraftColumn = StructuralColumn | `display_${DisplayedColumn}` | "trace_index" | "time_bucket";

export function draftOf(binding: Binding | null): BindingDraft {
  const display = binding?.display ?? {};
  return {
    trace_id: binding?.trace_id ?? "",
    span_id: binding?.span_id ?? "",
    parent_span_id: binding?.parent_span_id ?? "",
    timestamp: binding?.timestamp ?? "",
    trace_index: binding?.trace_index ?? "",
    display_name: display.name ?? "",
    display_service: display.service ?? "",
    display_duration: display.duration ?? "",
    display_end: display.end ?? "",
    display_status: display.status ?? "",
    display_kind: display.kind ?? "",
    timestamp_unit: binding?.timestamp_unit ?? "",
    duration_unit: display.duration_unit ?? "",
    read_as: binding?.read_as ?? "",
    time_bucket: binding?.time_bucket?.column ?? "",
    bucket_seconds: binding?.time_bucket?.seconds ?? 3600,
    error_values: display.error_values ?? [],
    only: binding?.only ?? [],
  };
}

/** The binding of a draft, or `null` while a structural column is missing. */
export function bindingOf(database: string, table: string, draft: BindingDraft): Binding | null {
  if (STRUCTURAL_COLUMNS.some(({ member }) => draft[member] === "")) {
    return null;
  }
  const { trace_id, span_id, parent_span_id, timestamp } = draft;
  const display = Object.fromEntries(
    [
      ...DISPLAYED_COLUMNS.map(({ member }) => [member, draft[`display_${member}`]] as const),
      ["duration_unit", draft.display_duration === "" ? "" : draft.duration_unit] as const,
      ["error_values", draft.display_status === "" ? [] : draft.error_values] as const,
    ].filter(([, value]) => value.length > 0),
  );
  return {
    database,
    table,
    trace_id,
    span_id,
    parent_span_id,
    timestamp,
    ...(draft.trace_index === "" ? {} : { trace_index: draft.trace_index }),
    ...(draft.timestamp_unit === "" ? {} : { timestamp_unit: draft.timestamp_unit }),
    ...(draft.read_as === "" ? {} : { read_as: draft.read_as }),
    ...(draft.only.length === 0 ? {} : { only: draft.only }),
    ...(draft.time_bucket === ""
      ? {}
      : { time_bucket: { column: draft.time_bucket, seconds: draft.bucket_seconds } }),
    display,
  };
}

export function sameDraft(a: BindingDraft, b: BindingDraft): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Whether the bindings of a table can find different traces: they differ in more than in what is displayed. */
export function readsOtherRows(a: Binding, b: Binding): boolean {
  const read = (binding: Binding) => draftOf({ ...binding, display: {} });
  return !sameDraft(read(a), read(b));
}

/** Whether merges of this engine replace, collapse or aggregate rows, so that the way of reading has to be chosen. */
export const replacesRows = (engine: string): boolean =>
  /(Replacing|Collapsing|Aggregating|Summing|Coalescing|Graphite)MergeTree$/.test(engine);

/** Structural columns that are selected more than once; each must be a separate column. */
export function duplicateColumns(draft: BindingDraft): StructuralColumn[] {
  return STRUCTURAL_COLUMNS.map(({ member }) => member).filter((member) =>
    STRUCTURAL_COLUMNS.some(
      (other) =>
        other.member !== member && draft[other.member] !== "" && draft[other.member] === draft[member],
    ),
  );
}

/** Why a table is not proposed: the service's reason, or a reason from its name. */
export function unsuitableReason(table: Api["Table"]): string {
  if (table.unsuitable !== null) {
    return `${table.unsuitable.charAt(0).toUpperCase()}${table.unsuitable.slice(1)}.`;
  }
  if (/_trace_id_ts(_local)?$/.test(table.name)) {
    return "Looks like a trace index: it holds the bounds of traces, and no spans.";
  }
  return "No columns with the usual names for trace id, span id, parent span id and time.";
}

/** Tables that may be the trace index of a table in `database`, the most likely first. */
export function indexCandidates(tables: Api["Table"][], database: string, table: string): string[] {
  const rank = (name: string) =>
    name === `${table}_trace_id_ts` ? 0 : /trace_id_ts|index/i.test(name) ? 1 : 2;
  return tables
    .filter(
      (candidate) =>
        candidate.database === database &&
        candidate.name !== table &&
        candidate.engine !== "MaterializedView",
    )
    .map(({ name }) => name)
    .sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}
