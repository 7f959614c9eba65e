import type { Tree } from "./tree";

/** The parts of spans that decided how long the trace took, for each span those from `first` of its number to `first` of the next. */
export type CriticalPath = {
  readonly first: Int32Array;
  readonly from: Float64Array;
  readonly to: Float64Array;
};

/** Goes back from the end of the trace: a span is on the path where it waits for no child; from the end of the child that ended last,
 * the path is that child's, until it began. What lies outside the parent does not count. A span whose start or duration is not known
 * (NaN) is not on the path, nor is what is below it. */
export function criticalPath(
  tree: Pick<Tree, "parent" | "end">,
  start: Float64Array,
  duration: Float64Array,
): CriticalPath {
  const count = start.length;
  const [spans, froms, tos]: [number[], number[], number[]] = [[], [], []];
  const endOf = (span: number) => (start[span] ?? 0) + (duration[span] ?? 0);
  // Spans to be looked at, each with the time up to which it may be on the path.
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

  // Sorted by span: counted first, then put where the counts say.
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
