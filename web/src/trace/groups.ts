import { isError } from "./flags";
import { nameOf, serviceNameOf, type Trace } from "./model";

/** The spans of a service's operation. */
export type Group = {
  readonly service: string;
  readonly operation: string;
  readonly count: number;
  readonly total: number;
  readonly self: number;
  readonly max: number;
  readonly errors: number;
  /** Number of spans that the text search finds. */
  readonly matches: number;
  /** Number of the longest span. */
  readonly longest: number;
};

export type GroupColumn = "service" | "operation" | "count" | "matches" | "total" | "self" | "max" | "errors";

/** Returns the groups. `marks` says for each span whether the text search finds it. */
export function groupsOf(trace: Trace, marks: Uint8Array | null = null): Group[] {
  type MutableGroup = { -readonly [Part in keyof Group]: Group[Part] };
  const groups = new Map<number, MutableGroup>();
  for (let span = 0; span < trace.count; span += 1) {
    const key = (trace.service[span] ?? 0) * trace.names.length + (trace.name[span] ?? 0);
    let group = groups.get(key);
    if (group === undefined) {
      group = {
        service: serviceNameOf(trace, span),
        operation: nameOf(trace, span),
        count: 0,
        total: 0,
        self: 0,
        max: -1,
        errors: 0,
        matches: 0,
        longest: span,
      };
      groups.set(key, group);
    }
    const duration = trace.duration[span] ?? 0;
    group.count += 1;
    group.total += duration;
    group.self += trace.self[span] ?? 0;
    group.matches += marks?.[span] === 1 ? 1 : 0;
    group.errors += isError(trace.flags[span]) ? 1 : 0;
    if (duration > group.max) {
      group.max = duration;
      group.longest = span;
    }
  }
  return [...groups.values()];
}

export function sortGroups(groups: readonly Group[], by: GroupColumn, descending: boolean): Group[] {
  const sign = descending ? -1 : 1;
  return [...groups].sort((a, b) => {
    const [left, right] = [a[by], b[by]];
    return left === right ? a.longest - b.longest : left < right ? -sign : sign;
  });
}
