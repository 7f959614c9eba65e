import type { Trace } from "./model";

type Shape = Pick<Trace, "count" | "end" | "depth" | "parent" | "children">;

/** Spans that are not inside a collapsed subtree. */
export function visibleRows(trace: Shape, collapsed: Uint8Array): Int32Array {
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

export function toggled(collapsed: Uint8Array, span: number, to: boolean): Uint8Array {
  const changed = Uint8Array.from(collapsed);
  changed[span] = to ? 1 : 0;
  return changed;
}

/** Expands all ancestors, so that the span is visible. Returns the same array if it already is. */
export function revealed(trace: Shape, collapsed: Uint8Array, span: number): Uint8Array {
  let changed = collapsed;
  for (let above = trace.parent[span] ?? -1; above >= 0; above = trace.parent[above] ?? -1) {
    if (changed[above] === 1) {
      changed = changed === collapsed ? Uint8Array.from(collapsed) : changed;
      changed[above] = 0;
    }
  }
  return changed;
}

/** Collapses the deepest visible level. */
export function oneLevelLess(trace: Shape, collapsed: Uint8Array): Uint8Array {
  let deepest = 0;
  for (const span of visibleRows(trace, collapsed)) {
    deepest = Math.max(deepest, trace.depth[span] ?? 0);
  }
  return deepest === 0 ? collapsed : collapsedAt(trace, collapsed, (depth) => depth === deepest - 1, 1);
}

/** Expands the topmost collapsed level. */
export function oneLevelMore(trace: Shape, collapsed: Uint8Array): Uint8Array {
  let least = Number.POSITIVE_INFINITY;
  for (const span of visibleRows(trace, collapsed)) {
    if (collapsed[span] === 1) {
      least = Math.min(least, trace.depth[span] ?? 0);
    }
  }
  return least === Number.POSITIVE_INFINITY
    ? collapsed
    : collapsedAt(trace, collapsed, (depth) => depth === least, 0);
}

function collapsedAt(
  trace: Shape,
  collapsed: Uint8Array,
  at: (depth: number) => boolean,
  to: 0 | 1,
): Uint8Array {
  return collapsed.map((now, span) =>
    at(trace.depth[span] ?? 0) && (trace.children[span] ?? 0) > 0 ? to : now,
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
  const place = forward ? low % sorted.length : (low - 1 + sorted.length) % sorted.length;
  return sorted[place] ?? -1;
}
