import type { Api } from "../api/client";
import { LosslessNumber } from "../lib/json";
import { type Instant, parseInstant } from "../lib/time";

/** A span in a response of the service: a row of the bound table. */
export type RawSpan = Readonly<Record<string, unknown>>;

/** Columns of a binding that pages show. */
export type DisplayedColumn = "name" | "service" | "duration" | "end" | "status" | "kind";

/** Columns of the bound table, as the service reports them. */
export type TraceSchema = Pick<
  Api["SchemaBinding"],
  "trace_id" | "span_id" | "timestamp" | "parent_span_id"
> &
  Partial<Pick<Api["SchemaBinding"], "display">>;

/** Columns of a span's parts. An absent part has no column. */
export type Columns = {
  readonly traceId: string;
  readonly spanId: string;
  readonly timestamp: string;
  readonly parentId: string;
  readonly name?: string;
  readonly service?: string;
  readonly duration?: string;
  /** Nanoseconds per unit of the duration column. */
  readonly durationUnit: number;
  readonly end?: string;
  readonly status?: string;
  /** Values of the status that mean an error, if the binding names them. */
  readonly errorValues?: readonly string[];
  readonly statusMessage?: string;
  readonly kind?: string;
  readonly traceState?: string;
  readonly scopeName?: string;
  readonly scopeVersion?: string;
  readonly attributes: readonly string[];
  readonly resource: readonly string[];
  /** Nested columns: `Events.Name` and so on, or `Events` with objects. */
  readonly events?: string;
  readonly links?: string;
};

// Names in the table of the OpenTelemetry Collector's exporter come first, then names in other tables.
const COMMON_NAMES = {
  name: ["spanname", "name", "operationname", "operation"],
  service: ["servicename", "service", "resourcestringservicename"],
  duration: [
    "duration",
    "durationns",
    "durationnano",
    "durationnanos",
    "durationus",
    "durationmicros",
    "durationms",
    "durationmillis",
  ],
  end: ["endtimestamp", "endtime", "endtimeunixnano", "timestampend"],
  status: ["statuscode", "statuscodestring", "status"],
  statusMessage: ["statusmessage", "statusdescription"],
  kind: ["spankind", "kindstring", "kind"],
  traceState: ["tracestate"],
  scopeName: ["scopename", "instrumentationscopename"],
  scopeVersion: ["scopeversion", "instrumentationscopeversion"],
} as const;
const ATTRIBUTE_COLUMNS = [
  "spanattributes",
  "attributes",
  "attributesstring",
  "attributesnumber",
  "attributesbool",
  "tags",
];
const RESOURCE_COLUMNS = ["resourceattributes", "resource", "resourcesstring"];

const normalizeName = (column: string) => column.toLowerCase().replace(/[_ ]/g, "");

/** Determines the columns of a span's parts: those of the binding, as in searches, otherwise by common column names. All spans of
 * a response have the same columns. */
export function columnsOf(span: RawSpan | undefined, schema: TraceSchema): Columns {
  const structural = [schema.trace_id, schema.span_id, schema.timestamp, schema.parent_span_id];
  const byNormalizedName = new Map<string, string>();
  for (const column of Object.keys(span ?? {})) {
    if (!structural.includes(column) && !byNormalizedName.has(normalizeName(column))) {
      byNormalizedName.set(normalizeName(column), column);
    }
  }
  const firstColumn = (names: readonly string[]) =>
    names.map((name) => byNormalizedName.get(name)).find((column) => column !== undefined);
  const mapColumns = (names: readonly string[]) =>
    names.flatMap((name) => {
      const column = byNormalizedName.get(name);
      return column === undefined || typeof span?.[column] !== "object" ? [] : [column];
    });
  const nestedColumn = (name: string) => {
    const column = [...byNormalizedName.values()].find(
      (candidate) => normalizeName(candidate) === name || normalizeName(candidate).startsWith(`${name}.`),
    );
    return column === undefined ? undefined : (column.split(".")[0] ?? column);
  };
  const maps = pairedMaps(Object.keys(span ?? {}));
  const result: Record<string, string> = {};
  for (const [part, names] of Object.entries(COMMON_NAMES)) {
    const selectedColumn = schema.display?.[part as DisplayedColumn] ?? undefined;
    const column =
      selectedColumn !== undefined && span !== undefined && selectedColumn in span
        ? selectedColumn
        : firstColumn(names);
    if (column !== undefined) {
      result[part] = column;
    }
  }
  const [events, links] = [nestedColumn("events"), nestedColumn("links")];
  const isBound = result.duration === schema.display?.duration;
  const unit = isBound ? (schema.display?.duration_unit ?? "ns") : normalizeName(result.duration ?? "");
  const { error_values } = schema.display ?? {};
  return {
    traceId: schema.trace_id,
    spanId: schema.span_id,
    timestamp: schema.timestamp,
    parentId: schema.parent_span_id,
    ...result,
    durationUnit: nanosOfUnit(unit),
    ...(error_values === undefined || error_values.length === 0 ? {} : { errorValues: error_values }),
    attributes: [...mapColumns(ATTRIBUTE_COLUMNS), ...maps.filter((map) => !/^(resource|scope)/.test(map))],
    resource: [...mapColumns(RESOURCE_COLUMNS), ...maps.filter((map) => map.startsWith("resource"))],
    ...(events === undefined ? {} : { events }),
    ...(links === undefined ? {} : { links }),
  };
}

// Ends of the names of two array columns that hold a map: its keys, and its values in the same order.
const PAIR_SUFFIXES = [
  [".key", ".value"],
  [".keys", ".values"],
  [".names", ".values"],
  ["_keys", "_values"],
  ["_names", "_values"],
] as const;

/** Names of the maps that are stored as two array columns: what the names of both columns have in common. */
function pairedMaps(columns: string[]): string[] {
  const known = new Set(columns);
  const maps = columns.flatMap((column) =>
    PAIR_SUFFIXES.flatMap(([keys, values]) => {
      const map = column.slice(0, -keys.length);
      const isPair = column.endsWith(keys) && map !== "" && known.has(`${map}${values}`) && !known.has(map);
      return isPair ? [map] : [];
    }),
  );
  return [...new Set(maps)];
}

/** Entries of a map that is stored as two array columns. Of equal keys, the first counts. */
function entriesOfPair(span: RawSpan, map: string): [string, unknown][] {
  for (const [keySuffix, valueSuffix] of PAIR_SUFFIXES) {
    const [keys, values] = [span[`${map}${keySuffix}`], span[`${map}${valueSuffix}`]];
    if (Array.isArray(keys) && Array.isArray(values)) {
      const entries = new Map<string, unknown>();
      keys.slice(0, values.length).forEach((key, index) => {
        const name = textOf(key);
        if (!entries.has(name)) {
          entries.set(name, values[index]);
        }
      });
      return [...entries];
    }
  }
  return [];
}

/** Nanoseconds of the unit that a text ends with. */
function nanosOfUnit(text: string): number {
  if (/us$|micros$/.test(text)) {
    return 1e3;
  }
  if (/ms$|millis$/.test(text)) {
    return 1e6;
  }
  return text === "s" ? 1e9 : 1;
}

/** A value as text, or an empty text if it is absent. */
export function textOf(value: unknown): string {
  if (typeof value === "string") {
    return value;
  }
  return value === null || value === undefined
    ? ""
    : value instanceof LosslessNumber
      ? value.value
      : String(value);
}

/** A value as a number, or NaN. */
export function numberOf(value: unknown): number {
  if (typeof value === "number") {
    return value;
  }
  const text = value instanceof LosslessNumber ? value.value : value;
  return typeof text === "string" && text.trim() !== "" ? Number(text) : Number.NaN;
}

/** Parses a time in any format of a table: RFC 3339, or a number since the epoch, whose magnitude determines the unit. */
export function instantOfValue(value: unknown): Instant | null {
  if (typeof value === "string" && !/^\d+$/.test(value)) {
    return parseInstant(value);
  }
  const text = textOf(value);
  if (!/^\d+(\.\d+)?$/.test(text)) {
    return null;
  }
  const integer = BigInt(text.split(".")[0] ?? "0");
  const perSecond = [10n ** 9n, 10n ** 6n, 10n ** 3n].find((unit) => integer > unit * 10n ** 8n) ?? 1n;
  return {
    seconds: Number(integer / perSecond),
    nanos: Number((integer % perSecond) * (10n ** 9n / perSecond)),
  };
}

/** An id, or an empty text if there is none, as the parent id of a root span: zeros, a zero UUID, zeros in base64. */
export function idOf(value: unknown): string {
  const text = textOf(value);
  return /^(0*|0{8}(-0{4}){3}-0{12}|A{11}=)$/.test(text) ? "" : text;
}

/** Whether a status is an error: one of the binding's values, or else `Error`, `STATUS_CODE_ERROR`, or OTLP's number. */
export function isErrorStatus(value: unknown, columns: Columns): boolean {
  if (columns.errorValues !== undefined) {
    return columns.errorValues.includes(textOf(value));
  }
  if (typeof value === "number") {
    return value === 2;
  }
  return typeof value === "string" && /^(status_code_)?error$/i.test(value);
}

/** Returns key and value of all entries in map columns. */
export function* entriesOf(span: RawSpan, columns: readonly string[]): Generator<[string, unknown]> {
  for (const column of columns) {
    const map = span[column];
    if (typeof map === "object" && map !== null) {
      for (const entry of Object.entries(map)) {
        yield entry;
      }
    } else {
      yield* entriesOfPair(span, column);
    }
  }
}

/** The service, also if only the resource attributes contain it. */
export function serviceOf(span: RawSpan, columns: Columns): string {
  const service = columns.service === undefined ? "" : textOf(span[columns.service]);
  if (service !== "") {
    return service;
  }
  for (const [key, value] of entriesOf(span, columns.resource)) {
    if (key === "service.name") {
      return textOf(value);
    }
  }
  return "";
}
