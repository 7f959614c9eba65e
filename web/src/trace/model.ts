import { nameOrNone } from "../lib/names";
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
import { type Tree, treeOf } from "./tree";

/** Statistics of a service in a trace. */
export type ServicePart = {
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
  readonly greatestSkew: number;
  readonly cycles: number;
  readonly duplicates: number;
  readonly untimed: number;
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
  readonly begin: Instant;
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
  readonly services: readonly ServicePart[];
  readonly flags: Uint16Array;
  /** Numbers of the spans that count as errors. */
  readonly troubled: Int32Array;
  /** Number of errors among all previous spans; has an additional last element. */
  readonly troubledBefore: Int32Array;
  /** The root span of the trace, the same as in a search. */
  readonly root: number;
  readonly critical: CriticalPath;
  readonly faults: Faults;
};

/** A child that starts this little before its parent does not indicate a wrong clock, because times are rounded. */
const ROUNDING = 1_000;

class Interned {
  readonly values: string[] = [];
  readonly #numbers = new Map<string, number>();

  number(value: string): number {
    let number = this.#numbers.get(value);
    if (number === undefined) {
      number = this.values.length;
      this.#numbers.set(value, number);
      this.values.push(value);
    }
    return number;
  }
}

/** Start times of the table's rows, relative to the earliest. Many spans share a second, whose text is parsed only once. */
function startsOf(spans: readonly RawSpan[], column: string): { begin: Instant; starts: Float64Array } {
  const seconds = new Float64Array(spans.length).fill(Number.NaN);
  const nanos = new Float64Array(spans.length);
  let begin: Instant | null = null;
  let known = "";
  let knownSeconds = 0;
  spans.forEach((span, index) => {
    const value = span[column];
    let instant: Instant | null;
    if (typeof value === "string" && value.length === 30 && known !== "" && value.startsWith(known)) {
      instant = { seconds: knownSeconds, nanos: Number(value.slice(20, 29)) };
    } else {
      instant = instantOfValue(value);
      if (typeof value === "string" && value.length === 30 && value.endsWith("Z") && instant !== null) {
        known = value.slice(0, 20);
        knownSeconds = instant.seconds;
      }
    }
    if (instant !== null && !Number.isNaN(instant.nanos)) {
      seconds[index] = instant.seconds;
      nanos[index] = instant.nanos;
      if (
        begin === null ||
        instant.seconds < begin.seconds ||
        (instant.seconds === begin.seconds && instant.nanos < begin.nanos)
      ) {
        begin = instant;
      }
    }
  });
  const from: Instant = begin ?? { seconds: 0, nanos: 0 };
  const starts = seconds.map((second, index) =>
    nanosBetween(from, { seconds: second, nanos: nanos[index] ?? 0 }),
  );
  return { begin: from, starts };
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
export function traceOf(asked: string, schema: TraceSchema, answer: readonly RawSpan[]): Trace {
  const columns = columnsOf(answer[0], schema);
  // The URL may contain the trace id in another notation than the spans.
  const id = textOf(answer[0]?.[columns.traceId]) || asked;
  const count = answer.length;
  const { begin, starts } = startsOf(answer, columns.timestamp);
  const tree = treeOf(
    answer.map((span) => idOf(span[columns.spanId])),
    answer.map((span) => idOf(span[columns.parentId])),
    starts,
  );
  const spans = Array.from(tree.order, (place) => answer[place] ?? {});
  const start = new Float64Array(count);
  const duration = new Float64Array(count);
  // The same with NaN for unknown values, which must not affect other spans.
  const [knownStart, knownDuration] = [new Float64Array(count), new Float64Array(count)];
  const flags = new Uint16Array(count);
  const name = new Int32Array(count);
  const service = new Int32Array(count);
  const [names, services] = [new Interned(), new Interned()];
  let length = 0;
  spans.forEach((span, index) => {
    const began = starts[tree.order[index] ?? 0] ?? Number.NaN;
    const took = durationOf(span, columns);
    start[index] = Number.isNaN(began) ? 0 : began;
    duration[index] = took > 0 ? took : 0;
    knownStart[index] = began;
    knownDuration[index] = Number.isNaN(took) ? took : (duration[index] ?? 0);
    length = Math.max(length, (start[index] ?? 0) + (duration[index] ?? 0));
    const failed = columns.status !== undefined && isErrorStatus(span[columns.status]);
    flags[index] =
      (tree.flags[index] ?? 0) |
      (failed ? Flag.Error : 0) |
      (hasException(span, columns) ? Flag.Exception : 0) |
      (took < 0 ? Flag.InvalidDuration : 0) |
      (Number.isNaN(began) || Number.isNaN(took) ? Flag.Untimed : 0);
    name[index] = names.number(columns.name === undefined ? "" : textOf(span[columns.name]));
    service[index] = services.number(serviceOf(span, columns));
  });
  const greatestSkew = markOutside(tree, knownStart, knownDuration, flags);
  const self = selfTimes(tree, knownStart, knownDuration);
  const counted = countFaults(flags);
  const { troubled, troubledBefore } = troubles(flags);
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
    begin,
    length,
    start,
    duration,
    self,
    parent: tree.parent,
    end: tree.end,
    depth: tree.depth,
    children: tree.children,
    maxDepth: count === 0 ? 0 : tree.depth.reduce((most, depth) => Math.max(most, depth), 0),
    ids,
    byId,
    name,
    names: names.values,
    service,
    services: servicesOf(services.values, service, self, flags),
    flags,
    troubled,
    troubledBefore,
    root: rootOf(tree, knownStart, ids, flags),
    critical: criticalPath(tree, knownStart, knownDuration),
    faults: { ...counted, greatestSkew },
  };
}

function countFaults(flags: Uint16Array): Omit<Faults, "greatestSkew"> {
  const count = (flag: number) =>
    flags.reduce((sum, flagsOfOne) => sum + ((flagsOfOne & flag) === 0 ? 0 : 1), 0);
  return {
    missingParents: count(Flag.MissingParent),
    beforeParent: count(Flag.BeforeParent),
    afterParent: count(Flag.AfterParent),
    cycles: count(Flag.Cycle),
    duplicates: count(Flag.Duplicate),
    untimed: count(Flag.Untimed),
    invalidDurations: count(Flag.InvalidDuration),
  };
}

/** Marks children outside of their parents. Returns the maximum time by which a child starts too early. Unknown times are NaN,
 * for which every comparison is false. */
function markOutside(tree: Tree, start: Float64Array, duration: Float64Array, flags: Uint16Array): number {
  let greatest = 0;
  tree.parent.forEach((parent, index) => {
    if (parent < 0) {
      return;
    }
    const [from, parentFrom] = [start[index] ?? 0, start[parent] ?? 0];
    const [to, parentTo] = [from + (duration[index] ?? 0), parentFrom + (duration[parent] ?? 0)];
    if (parentFrom - from > ROUNDING) {
      flags[index] = (flags[index] ?? 0) | Flag.BeforeParent;
      greatest = Math.max(greatest, parentFrom - from);
    }
    if (to - parentTo > ROUNDING) {
      flags[index] = (flags[index] ?? 0) | Flag.AfterParent;
    }
  });
  return greatest;
}

/** For each span, the time during which none of its children ran. Children and parents with unknown times (NaN) subtract
 * nothing. */
export function selfTimes(
  tree: Pick<Tree, "parent">,
  start: Float64Array,
  duration: Float64Array,
): Float64Array {
  const self = duration.map((took) => (Number.isNaN(took) ? 0 : took));
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

function troubles(flags: Uint16Array): { troubled: Int32Array; troubledBefore: Int32Array } {
  const before = new Int32Array(flags.length + 1);
  const found: number[] = [];
  flags.forEach((flag, index) => {
    const troubled = isError(flag);
    if (troubled) {
      found.push(index);
    }
    before[index + 1] = (before[index] ?? 0) + (troubled ? 1 : 0);
  });
  return { troubled: Int32Array.from(found), troubledBefore: before };
}

function servicesOf(
  names: readonly string[],
  service: Int32Array,
  self: Float64Array,
  flags: Uint16Array,
): ServicePart[] {
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
    const at = start[index] ?? Number.NaN;
    return Number.isNaN(at) ? Number.POSITIVE_INFINITY : at;
  };
  let best = 0;
  for (let index = 1; index < ids.length; index += 1) {
    const more = Number(isRoot(index)) - Number(isRoot(best));
    const [at, bestAt] = [startOf(index), startOf(best)];
    const earlier = at < bestAt || (at === bestAt && (ids[index] ?? "") < (ids[best] ?? ""));
    if (more > 0 || (more === 0 && earlier)) {
      best = index;
    }
  }
  return best;
}

/** Name of a span, or a replacement if it has none. */
export function nameOf(trace: Trace, index: number): string {
  return nameOrNone(trace.names[trace.name[index] ?? 0]);
}

/** Service of a span, or a replacement if it has none. */
export function serviceNameOf(trace: Trace, index: number): string {
  return trace.services[trace.service[index] ?? 0]?.name || "(no service)";
}

/** Services by self time, greatest first. */
export function servicesBySelf(trace: Trace): ServicePart[] {
  return [...trace.services].sort((one, other) => other.self - one.self || (one.name < other.name ? -1 : 1));
}
