import { nameOrPlaceholder } from "../lib/names";
import type { Instant } from "../lib/time";
import { nanosBetween } from "../lib/time";
import {
  type Columns,
  columnsOf,
  idOf,
  instantOfValue,
  isErrorStatus,
  numberOf,
  type RawSpan,
  serviceOf,
  type TraceSchema,
  textOf,
} from "./columns";
import { type CriticalPath, criticalPath } from "./criticalPath";
import { hasException } from "./details";
import { Flag, isError } from "./flags";
import { buildTree, type Tree } from "./tree";

/** Statistics of a service in a trace. */
export type ServiceStats = {
  readonly name: string;
  readonly spans: number;
  readonly errors: number;
  /** Nanoseconds during which its spans did not wait for children. */
  readonly self: number;
};

/** Numbers of spans with problems that users must know. */
export type Faults = {
  readonly missingParents: number;
  readonly beforeParent: number;
  readonly afterParent: number;
  /** Maximum number of nanoseconds by which a child starts before its parent. */
  readonly maxSkew: number;
  readonly cycles: number;
  readonly duplicates: number;
  readonly invalidTimes: number;
  readonly invalidDurations: number;
};

/** Model of a trace for display. Spans are numbered depth-first, children by start, so that a subtree consists of the numbers
 * from its root's to `end`. Times are nanoseconds from the start of the trace. Arrays have an element per span. */
export type Trace = {
  readonly id: string;
  readonly schema: TraceSchema;
  readonly columns: Columns;
  readonly spans: readonly RawSpan[];
  readonly count: number;
  readonly startTime: Instant;
  readonly length: number;
  readonly start: Float64Array;
  readonly duration: Float64Array;
  readonly self: Float64Array;
  readonly parent: Int32Array;
  /** The number after the last one of the subtree. */
  readonly end: Int32Array;
  readonly depth: Int32Array;
  readonly children: Int32Array;
  readonly maxDepth: number;
  readonly ids: readonly string[];
  readonly byId: ReadonlyMap<string, number>;
  readonly name: Int32Array;
  readonly names: readonly string[];
  readonly service: Int32Array;
  readonly services: readonly ServiceStats[];
  readonly flags: Uint16Array;
  /** Numbers of the spans that count as errors. */
  readonly errorSpans: Int32Array;
  /** Number of errors among all previous spans; has an additional last element. */
  readonly errorsBefore: Int32Array;
  /** The root span of the trace, the same as in a search. */
  readonly root: number;
  readonly criticalPath: CriticalPath;
  readonly faults: Faults;
};

/** A child that starts this little before its parent does not indicate a wrong clock, because times are rounded. */
const ROUNDING_NANOS = 1_000;

class StringInterner {
  readonly values: string[] = [];
  readonly #numbers = new Map<string, number>();

  intern(value: string): number {
    let intern = this.#numbers.get(value);
    if (intern === undefined) {
      intern = this.values.length;
      this.#numbers.set(value, intern);
      this.values.push(value);
    }
    return intern;
  }
}

/** Start times of the table's rows, relative to the earliest. Many spans share a second, whose text is parsed only once. */
function startsOf(spans: readonly RawSpan[], column: string): { startTime: Instant; starts: Float64Array } {
  const seconds = new Float64Array(spans.length).fill(Number.NaN);
  const nanos = new Float64Array(spans.length);
  let earliest: Instant | null = null;
  let knownPrefix = "";
  let knownSeconds = 0;
  spans.forEach((span, index) => {
    const value = span[column];
    let instant: Instant | null;
    if (
      typeof value === "string" &&
      value.length === 30 &&
      knownPrefix !== "" &&
      value.startsWith(knownPrefix)
    ) {
      instant = { seconds: knownSeconds, nanos: Number(value.slice(20, 29)) };
    } else {
      instant = instantOfValue(value);
      if (typeof value === "string" && value.length === 30 && value.endsWith("Z") && instant !== null) {
        knownPrefix = value.slice(0, 20);
        knownSeconds = instant.seconds;
      }
    }
    if (instant !== null && !Number.isNaN(instant.nanos)) {
      seconds[index] = instant.seconds;
      nanos[index] = instant.nanos;
      if (
        earliest === null ||
        instant.seconds < earliest.seconds ||
        (instant.seconds === earliest.seconds && instant.nanos < earliest.nanos)
      ) {
        earliest = instant;
      }
    }
  });
  const from: Instant = earliest ?? { seconds: 0, nanos: 0 };
  const starts = seconds.map((second, index) =>
    nanosBetween(from, { seconds: second, nanos: nanos[index] ?? 0 }),
  );
  return { startTime: from, starts };
}

/** Duration in nanoseconds: NaN if absent, negative if invalid. */
function durationOf(span: RawSpan, columns: Columns): number {
  if (columns.duration !== undefined) {
    const value = span[columns.duration];
    const number = numberOf(value);
    return hasWrapped(value, number) ? -1 : number * columns.durationUnit;
  }
  const from = columns.end === undefined ? null : instantOfValue(span[columns.timestamp]);
  const to = columns.end === undefined ? null : instantOfValue(span[columns.end]);
  return from === null || to === null ? Number.NaN : nanosBetween(from, to);
}

/** Whether a duration in an unsigned column wrapped around below zero. The service counts such a duration as 0, too. */
function hasWrapped(value: unknown, number: number): boolean {
  if (!(number >= 2 ** 63)) {
    return false;
  }
  const text = textOf(value);
  return !/^\d+$/.test(text) || BigInt(text) >= 2n ** 63n;
}

/** Builds the model of a trace from the service's spans, in any order. */
export function buildTrace(requestedId: string, schema: TraceSchema, rows: readonly RawSpan[]): Trace {
  const columns = columnsOf(rows[0], schema);
  // The URL may contain the trace id in another notation than the spans.
  const id = textOf(rows[0]?.[columns.traceId]) || requestedId;
  const count = rows.length;
  const { startTime, starts } = startsOf(rows, columns.timestamp);
  const tree = buildTree(
    rows.map((span) => idOf(span[columns.spanId])),
    rows.map((span) => idOf(span[columns.parentId])),
    starts,
  );
  const spans = Array.from(tree.order, (row) => rows[row] ?? {});
  const start = new Float64Array(count);
  const duration = new Float64Array(count);
  // The same with NaN for unknown values, which must not affect other spans.
  const [knownStart, knownDuration] = [new Float64Array(count), new Float64Array(count)];
  const flags = new Uint16Array(count);
  const name = new Int32Array(count);
  const service = new Int32Array(count);
  const [names, services] = [new StringInterner(), new StringInterner()];
  let length = 0;
  spans.forEach((span, index) => {
    const spanStart = starts[tree.order[index] ?? 0] ?? Number.NaN;
    const spanDuration = durationOf(span, columns);
    start[index] = Number.isNaN(spanStart) ? 0 : spanStart;
    duration[index] = spanDuration > 0 ? spanDuration : 0;
    knownStart[index] = spanStart;
    knownDuration[index] = Number.isNaN(spanDuration) ? spanDuration : (duration[index] ?? 0);
    length = Math.max(length, (start[index] ?? 0) + (duration[index] ?? 0));
    const hasErrorStatus = columns.status !== undefined && isErrorStatus(span[columns.status], columns);
    flags[index] =
      (tree.flags[index] ?? 0) |
      (hasErrorStatus ? Flag.Error : 0) |
      (hasException(span, columns) ? Flag.Exception : 0) |
      (spanDuration < 0 ? Flag.InvalidDuration : 0) |
      (Number.isNaN(spanStart) || Number.isNaN(spanDuration) ? Flag.InvalidTimes : 0);
    name[index] = names.intern(columns.name === undefined ? "" : textOf(span[columns.name]));
    service[index] = services.intern(serviceOf(span, columns));
  });
  const maxSkew = flagOutsideParent(tree, knownStart, knownDuration, flags);
  const self = selfTimes(tree, knownStart, knownDuration);
  const faultCounts = countFaults(flags);
  const { errorSpans, errorsBefore } = findErrors(flags);
  const ids = spans.map((span) => textOf(span[columns.spanId]));
  const byId = new Map<string, number>();
  ids.forEach((spanId, index) => {
    if (((flags[index] ?? 0) & Flag.Duplicate) === 0 || !byId.has(spanId)) {
      byId.set(spanId, index);
    }
  });
  return {
    id,
    schema,
    columns,
    spans,
    count,
    startTime,
    length,
    start,
    duration,
    self,
    parent: tree.parent,
    end: tree.end,
    depth: tree.depth,
    children: tree.children,
    maxDepth: count === 0 ? 0 : tree.depth.reduce((max, depth) => Math.max(max, depth), 0),
    ids,
    byId,
    name,
    names: names.values,
    service,
    services: servicesOf(services.values, service, self, flags),
    flags,
    errorSpans,
    errorsBefore,
    root: rootOf(tree, knownStart, ids, flags),
    criticalPath: criticalPath(tree, knownStart, knownDuration),
    faults: { ...faultCounts, maxSkew },
  };
}

function countFaults(flags: Uint16Array): Omit<Faults, "maxSkew"> {
  const count = (flag: number) =>
    flags.reduce((sum, spanFlags) => sum + ((spanFlags & flag) === 0 ? 0 : 1), 0);
  return {
    missingParents: count(Flag.MissingParent),
    beforeParent: count(Flag.BeforeParent),
    afterParent: count(Flag.AfterParent),
    cycles: count(Flag.Cycle),
    duplicates: count(Flag.Duplicate),
    invalidTimes: count(Flag.InvalidTimes),
    invalidDurations: count(Flag.InvalidDuration),
  };
}

/** Marks children outside of their parents. Returns the maximum time by which a child starts too early. Unknown times are NaN,
 * for which every comparison is false. */
function flagOutsideParent(
  tree: Tree,
  start: Float64Array,
  duration: Float64Array,
  flags: Uint16Array,
): number {
  let maxSkew = 0;
  tree.parent.forEach((parent, index) => {
    if (parent < 0) {
      return;
    }
    const [from, parentFrom] = [start[index] ?? 0, start[parent] ?? 0];
    const [to, parentTo] = [from + (duration[index] ?? 0), parentFrom + (duration[parent] ?? 0)];
    if (parentFrom - from > ROUNDING_NANOS) {
      flags[index] = (flags[index] ?? 0) | Flag.BeforeParent;
      maxSkew = Math.max(maxSkew, parentFrom - from);
    }
    if (to - parentTo > ROUNDING_NANOS) {
      flags[index] = (flags[index] ?? 0) | Flag.AfterParent;
    }
  });
  return maxSkew;
}

/** For each span, the time during which none of its children ran. Children and parents with unknown times (NaN) subtract
 * nothing. */
export function selfTimes(
  tree: Pick<Tree, "parent">,
  start: Float64Array,
  duration: Float64Array,
): Float64Array {
  const self = duration.map((time) => (Number.isNaN(time) ? 0 : time));
  // Time up to which the processed children cover their parent. One value suffices, because siblings are ordered by start.
  const covered = Float64Array.from(start);
  tree.parent.forEach((parent, index) => {
    if (parent < 0) {
      return;
    }
    const parentFrom = start[parent] ?? 0;
    const parentTo = parentFrom + (duration[parent] ?? 0);
    const from = Math.max(start[index] ?? 0, covered[parent] ?? 0);
    const to = Math.min((start[index] ?? 0) + (duration[index] ?? 0), parentTo);
    if (to > from) {
      self[parent] = (self[parent] ?? 0) - (to - from);
      covered[parent] = to;
    }
  });
  return self;
}

function findErrors(flags: Uint16Array): { errorSpans: Int32Array; errorsBefore: Int32Array } {
  const before = new Int32Array(flags.length + 1);
  const errors: number[] = [];
  flags.forEach((flag, index) => {
    const errorSpans = isError(flag);
    if (errorSpans) {
      errors.push(index);
    }
    before[index + 1] = (before[index] ?? 0) + (errorSpans ? 1 : 0);
  });
  return { errorSpans: Int32Array.from(errors), errorsBefore: before };
}

function servicesOf(
  names: readonly string[],
  service: Int32Array,
  self: Float64Array,
  flags: Uint16Array,
): ServiceStats[] {
  const parts = names.map((name) => ({ name, spans: 0, errors: 0, self: 0 }));
  service.forEach((number, index) => {
    const part = parts[number];
    if (part !== undefined) {
      part.spans += 1;
      part.self += self[index] ?? 0;
      part.errors += isError(flags[index]) ? 1 : 0;
    }
  });
  return parts;
}

/** The earliest root, or the earliest span if all have parents; if several start at the same time, the one with the lowest id.
 * Searches select it by the same rule, so that a trace has the same name everywhere. */
function rootOf(tree: Tree, start: Float64Array, ids: readonly string[], flags: Uint16Array): number {
  const isRoot = (index: number) =>
    (tree.parent[index] ?? -1) < 0 && ((flags[index] ?? 0) & (Flag.MissingParent | Flag.Cycle)) === 0;
  const startOf = (index: number) => {
    const spanStart = start[index] ?? Number.NaN;
    return Number.isNaN(spanStart) ? Number.POSITIVE_INFINITY : spanStart;
  };
  let best = 0;
  for (let index = 1; index < ids.length; index += 1) {
    const rootDifference = Number(isRoot(index)) - Number(isRoot(best));
    const [spanStart, bestStart] = [startOf(index), startOf(best)];
    const earlier =
      spanStart < bestStart || (spanStart === bestStart && (ids[index] ?? "") < (ids[best] ?? ""));
    if (rootDifference > 0 || (rootDifference === 0 && earlier)) {
      best = index;
    }
  }
  return best;
}

/** Name of a span, or a replacement if it has none. */
export function nameOf(trace: Trace, index: number): string {
  return nameOrPlaceholder(trace.names[trace.name[index] ?? 0]);
}

/** Service of a span; empty if it has none. */
export function serviceOfSpan(trace: Trace, index: number): string {
  return trace.services[trace.service[index] ?? 0]?.name ?? "";
}

/** Service of a span, or a replacement if it has none. */
export function serviceNameOf(trace: Trace, index: number): string {
  return serviceOfSpan(trace, index) || "(no service)";
}

/** Services by self time, greatest first. */
export function servicesBySelf(trace: Trace): ServiceStats[] {
  return [...trace.services].sort((a, b) => b.self - a.self || (a.name < b.name ? -1 : 1));
}
