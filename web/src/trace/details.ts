import { type Columns, entriesOf, type RawSpan, textOf } from "./columns";

/** A key with its value in one of a span's maps. */
export type Entry = { readonly key: string; readonly value: unknown };

export type SpanEvent = {
  readonly at: unknown;
  readonly name: string;
  readonly attributes: readonly Entry[];
};

export type Exception = {
  readonly at: unknown;
  readonly type: string;
  readonly message: string;
  readonly stack: string;
};

export type SpanLink = {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceState: string;
  readonly attributes: readonly Entry[];
};

const KINDS = ["unspecified", "internal", "server", "client", "producer", "consumer"];
const STATUSES = ["unset", "ok", "error"];

function property(map: unknown, name: string): unknown {
  if (typeof map !== "object" || map === null) {
    return undefined;
  }
  const normalize = (text: string) => text.toLowerCase().replace(/_/g, "");
  const key = Object.keys(map).find((candidate) => normalize(candidate) === normalize(name));
  return key === undefined ? undefined : (map as Record<string, unknown>)[key];
}

function entriesOfMap(map: unknown): Entry[] {
  return typeof map === "object" && map !== null
    ? Object.entries(map).map(([key, value]) => ({ key, value }))
    : [];
}

/** Elements of a nested column: from parallel arrays (`Events.Name`, …), or from one array of objects. */
function nestedElements(span: RawSpan, column: string | undefined, parts: readonly string[]): unknown[][] {
  if (column === undefined) {
    return [];
  }
  const value = span[column];
  if (Array.isArray(value)) {
    return value.map((element) =>
      parts.map((part) => (Array.isArray(element) ? element[parts.indexOf(part)] : property(element, part))),
    );
  }
  const arrays = parts.map((part) => {
    const array = property(span, `${column}.${part}`);
    return Array.isArray(array) ? array : [];
  });
  const count = Math.max(...arrays.map((array) => array.length));
  return Array.from({ length: count }, (_, index) => arrays.map((array) => array[index]));
}

/** Span attributes, sorted by key. */
export function attributesOf(span: RawSpan, columns: Columns): Entry[] {
  return sortedEntries(span, columns.attributes);
}

/** Resource attributes, sorted by key. */
export function resourceOf(span: RawSpan, columns: Columns): Entry[] {
  return sortedEntries(span, columns.resource);
}

function sortedEntries(span: RawSpan, columns: readonly string[]): Entry[] {
  return Array.from(entriesOf(span, columns), ([key, value]) => ({ key, value })).sort((a, b) =>
    a.key < b.key ? -1 : a.key > b.key ? 1 : 0,
  );
}

export function eventsOf(span: RawSpan, columns: Columns): SpanEvent[] {
  return nestedElements(span, columns.events, ["Timestamp", "Name", "Attributes"]).map(
    ([at, name, attributes]) => ({
      at,
      name: textOf(name),
      attributes: entriesOfMap(attributes),
    }),
  );
}

/** Times and names of events, without their attributes. */
export function eventTimesOf(span: RawSpan, columns: Columns): Pick<SpanEvent, "at" | "name">[] {
  return nestedElements(span, columns.events, ["Timestamp", "Name"]).map(([at, name]) => ({
    at,
    name: textOf(name),
  }));
}

/** Whether a span has events, fast enough for a hundred thousand spans. */
export function hasEvents(span: RawSpan, { events }: Columns): boolean {
  const values = events === undefined ? undefined : (span[events] ?? span[`${events}.Name`]);
  return Array.isArray(values) && values.length > 0;
}

/** Events that are exceptions by OpenTelemetry's semantic conventions. */
export function exceptionsOf(span: RawSpan, columns: Columns): Exception[] {
  return eventsOf(span, columns)
    .filter((event) => event.name === "exception")
    .map(({ at, attributes }) => {
      const attribute = (key: string) => textOf(attributes.find((entry) => entry.key === key)?.value);
      return {
        at,
        type: attribute("exception.type"),
        message: attribute("exception.message"),
        stack: attribute("exception.stacktrace"),
      };
    });
}

/** Whether {@link exceptionsOf} returns any, but fast enough for a hundred thousand spans. */
export function hasException(span: RawSpan, columns: Columns): boolean {
  if (columns.events === undefined) {
    return false;
  }
  const names = span[`${columns.events}.Name`];
  if (Array.isArray(names)) {
    return names.length > 0 && names.includes("exception");
  }
  return eventsOf(span, columns).some((event) => event.name === "exception");
}

export function linksOf(span: RawSpan, columns: Columns): SpanLink[] {
  return nestedElements(span, columns.links, ["TraceId", "SpanId", "TraceState", "Attributes"]).map(
    ([traceId, spanId, traceState, attributes]) => ({
      traceId: textOf(traceId),
      spanId: textOf(spanId),
      traceState: textOf(traceState),
      attributes: entriesOfMap(attributes),
    }),
  );
}

/** `server`, `client` and so on, from any notation of the table; empty if absent. */
export function kindOf(span: RawSpan, columns: Columns): string {
  return columns.kind === undefined ? "" : enumName(span[columns.kind], KINDS, "span_kind_");
}

/** `ok`, `error` or `unset`; empty if absent. */
export function statusOf(span: RawSpan, columns: Columns): string {
  return columns.status === undefined ? "" : enumName(span[columns.status], STATUSES, "status_code_");
}

function enumName(value: unknown, names: readonly string[], prefix: string): string {
  const name = typeof value === "number" ? names[value] : undefined;
  return name ?? textOf(value).toLowerCase().replace(prefix, "");
}

/** Enum numbers in OTLP of {@link kindOf} and {@link statusOf}. */
export function kindNumber(span: RawSpan, columns: Columns): number {
  return Math.max(0, KINDS.indexOf(kindOf(span, columns)));
}

export function statusNumber(span: RawSpan, columns: Columns): number {
  return Math.max(0, STATUSES.indexOf(statusOf(span, columns)));
}
