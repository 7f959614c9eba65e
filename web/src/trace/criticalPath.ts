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
  const [spans, froms, tos]: [number[], number[], number[]] = [[], [], []];
  const endOf = (span: number) => (start[span] ?? 0) + (duration[span] ?? 0);
  // Spans to visit, each with the time up to which it may be on the path.
  const open: number[] = [];
  const until: number[] = [];

  const walk = (span: number, from: number, to: number) => {
    let time = to;
    const children: number[] = [];
    const [begin, end] = span < 0 ? [0, count] : [span + 1, tree.end[span] ?? 0];
    for (let child = begin; child < end; child = tree.end[child] ?? end) {
      if ((start[child] ?? 0) < to && endOf(child) > from) {
        children.push(child);
      }
    }
    if (children.length > 1) {
      const clipped = (child: number) => Math.min(endOf(child), to);
      children.sort((one, other) => clipped(other) - clipped(one) || (start[one] ?? 0) - (start[other] ?? 0));
    }
    for (const child of children) {
      const childEnd = Math.min(endOf(child), to);
      if (childEnd <= time && time > from) {
        if (span >= 0 && time > childEnd) {
          spans.push(span);
          froms.push(childEnd);
          tos.push(time);
        }
        open.push(child);
        until.push(childEnd);
        time = Math.max(start[child] ?? 0, from);
      }
    }
    if (span >= 0 && time > from) {
      spans.push(span);
      froms.push(from);
      tos.push(time);
    }
  };

  let last = 0;
  for (let root = 0; root < count; root = tree.end[root] ?? count) {
    const end = endOf(root);
    last = end > last ? end : last;
  }
  walk(-1, Number.NEGATIVE_INFINITY, last);
  for (let span = open.pop(); span !== undefined; span = open.pop()) {
    const parent = tree.parent[span] ?? -1;
    const earliest = parent < 0 ? Number.NEGATIVE_INFINITY : (start[parent] ?? 0);
    walk(span, Math.max(start[span] ?? 0, earliest), until.pop() ?? 0);
  }

  // Counting sort by span.
  const first = new Int32Array(count + 1);
  for (const span of spans) {
    first[span + 1] = (first[span + 1] ?? 0) + 1;
  }
  for (let span = 0; span < count; span += 1) {
    first[span + 1] = (first[span + 1] ?? 0) + (first[span] ?? 0);
  }
  const place = Int32Array.from(first);
  const [from, to] = [new Float64Array(spans.length), new Float64Array(spans.length)];
  spans.forEach((span, at) => {
    const into = place[span] ?? 0;
    place[span] = into + 1;
    from[into] = froms[at] ?? 0;
    to[into] = tos[at] ?? 0;
  });
  return { first, from, to };
}
