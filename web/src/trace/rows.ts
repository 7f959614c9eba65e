import type { Trace } from "./model";

type TreeShape = Pick<Trace, "count" | "end" | "depth" | "parent" | "children">;

/** Spans that are not inside a collapsed subtree. */
export function visibleRows(trace: TreeShape, collapsed: Uint8Array): Int32Array {
  const rows = new Int32Array(trace.count);
  let length = 0;
  for (let span = 0; span < trace.count; ) {
    rows[length] = span;
    length += 1;
    span = collapsed[span] === 1 ? (trace.end[span] ?? trace.count) : span + 1;
  }
  return rows.subarray(0, length);
}

/** Row of the span or, inside a collapsed subtree, of its visible ancestor. */
export function rowOf(rows: Int32Array, span: number): number {
  let [low, high] = [0, rows.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((rows[middle] ?? 0) <= span) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

export function withCollapsed(collapsed: Uint8Array, span: number, isCollapsed: boolean): Uint8Array {
  const changed = Uint8Array.from(collapsed);
  changed[span] = isCollapsed ? 1 : 0;
  return changed;
}

/** Expands all ancestors, so that the span is visible. Returns the same array if it already is. */
export function expandAncestors(trace: TreeShape, collapsed: Uint8Array, span: number): Uint8Array {
  let changed = collapsed;
  for (let ancestor = trace.parent[span] ?? -1; ancestor >= 0; ancestor = trace.parent[ancestor] ?? -1) {
    if (changed[ancestor] === 1) {
      changed = changed === collapsed ? Uint8Array.from(collapsed) : changed;
      changed[ancestor] = 0;
    }
  }
  return changed;
}

/** Collapses the deepest visible level. */
export function collapseOneLevel(trace: TreeShape, collapsed: Uint8Array): Uint8Array {
  let deepest = 0;
  for (const span of visibleRows(trace, collapsed)) {
    deepest = Math.max(deepest, trace.depth[span] ?? 0);
  }
  return deepest === 0 ? collapsed : setLevel(trace, collapsed, (depth) => depth === deepest - 1, 1);
}

/** Expands the topmost collapsed level. */
export function expandOneLevel(trace: TreeShape, collapsed: Uint8Array): Uint8Array {
  let topmost = Number.POSITIVE_INFINITY;
  for (const span of visibleRows(trace, collapsed)) {
    if (collapsed[span] === 1) {
      topmost = Math.min(topmost, trace.depth[span] ?? 0);
    }
  }
  return topmost === Number.POSITIVE_INFINITY
    ? collapsed
    : setLevel(trace, collapsed, (depth) => depth === topmost, 0);
}

function setLevel(
  trace: TreeShape,
  collapsed: Uint8Array,
  isLevel: (depth: number) => boolean,
  value: 0 | 1,
): Uint8Array {
  return collapsed.map((current, span) =>
    isLevel(trace.depth[span] ?? 0) && (trace.children[span] ?? 0) > 0 ? value : current,
  );
}

/** In ascending numbers, the next or previous one, wrapping around the ends; −1 if there is none. */
export function neighbour(sorted: Int32Array, span: number, forward: boolean): number {
  if (sorted.length === 0) {
    return -1;
  }
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? 0) < span || (forward && sorted[middle] === span)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const index = forward ? low % sorted.length : (low - 1 + sorted.length) % sorted.length;
  return sorted[index] ?? -1;
}
