import { sortIntoBuckets } from "./buckets";
import type { Tree } from "./tree";

/** Parts of spans that determine the duration of the trace. The parts of a span are those from its element in `first` to the next
 * one. */
export type CriticalPath = {
  readonly first: Int32Array;
  readonly from: Float64Array;
  readonly to: Float64Array;
};

/** Computes the critical path backwards from the end of the trace: a span is on the path while it waits for no child. From the
 * end of the child that ended last to its start, the child is on the path. Time outside of the parent does not count. A span
 * with unknown start or duration (NaN) is not on the path, nor are its descendants. */
export function criticalPath(
  tree: Pick<Tree, "parent" | "end">,
  start: Float64Array,
  duration: Float64Array,
): CriticalPath {
  const count = start.length;
  const [spans, partStarts, partEnds]: [number[], number[], number[]] = [[], [], []];
  const endOf = (span: number) => (start[span] ?? 0) + (duration[span] ?? 0);
  // Spans to visit, each with the time up to which it may be on the path.
  const pendingSpans: number[] = [];
  const pendingEnds: number[] = [];

  const visit = (span: number, from: number, to: number) => {
    let time = to;
    const children: number[] = [];
    const [firstChild, end] = span < 0 ? [0, count] : [span + 1, tree.end[span] ?? 0];
    for (let child = firstChild; child < end; child = tree.end[child] ?? end) {
      if ((start[child] ?? 0) < to && endOf(child) > from) {
        children.push(child);
      }
    }
    if (children.length > 1) {
      const clippedEnd = (child: number) => Math.min(endOf(child), to);
      children.sort((a, b) => clippedEnd(b) - clippedEnd(a) || (start[a] ?? 0) - (start[b] ?? 0));
    }
    for (const child of children) {
      const childEnd = Math.min(endOf(child), to);
      if (childEnd <= time && time > from) {
        if (span >= 0 && time > childEnd) {
          spans.push(span);
          partStarts.push(childEnd);
          partEnds.push(time);
        }
        pendingSpans.push(child);
        pendingEnds.push(childEnd);
        time = Math.max(start[child] ?? 0, from);
      }
    }
    if (span >= 0 && time > from) {
      spans.push(span);
      partStarts.push(from);
      partEnds.push(time);
    }
  };

  let traceEnd = 0;
  for (let root = 0; root < count; root = tree.end[root] ?? count) {
    const end = endOf(root);
    traceEnd = end > traceEnd ? end : traceEnd;
  }
  visit(-1, Number.NEGATIVE_INFINITY, traceEnd);
  for (let span = pendingSpans.pop(); span !== undefined; span = pendingSpans.pop()) {
    const parent = tree.parent[span] ?? -1;
    const earliest = parent < 0 ? Number.NEGATIVE_INFINITY : (start[parent] ?? 0);
    visit(span, Math.max(start[span] ?? 0, earliest), pendingEnds.pop() ?? 0);
  }

  const { first, numbers: order } = sortIntoBuckets(spans, count);
  return {
    first,
    from: Float64Array.from(order, (part) => partStarts[part] ?? 0),
    to: Float64Array.from(order, (part) => partEnds[part] ?? 0),
  };
}
