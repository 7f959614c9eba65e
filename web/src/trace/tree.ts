import { Flag } from "./flags";

/** Spans in depth-first order. */
export type Tree = {
  /** For each number, the index in the input. */
  readonly order: Int32Array;
  /** The parent's number, or −1 at the top level. */
  readonly parent: Int32Array;
  /** The number after the last one of the subtree. */
  readonly end: Int32Array;
  readonly depth: Int32Array;
  readonly children: Int32Array;
  readonly flags: Uint8Array;
};

/** Builds the tree from any ids: a span whose parent is missing is at the top level, of several spans with the same id the
 * earliest is the parent, and a cycle is cut at its earliest span. The algorithm is iterative, because a chain may be as long as
 * the trace. */
export function treeOf(ids: readonly string[], parents: readonly string[], starts: Float64Array): Tree {
  const count = ids.length;
  const byStart = Int32Array.from({ length: count }, (_, place) => place);
  if (starts.some((start, place) => place > 0 && !((starts[place - 1] ?? 0) <= start))) {
    const of = (place: number) => starts[place] || 0;
    byStart.sort((one, other) => of(one) - of(other) || one - other);
  }
  const flagged = new Uint8Array(count);
  const byId = new Map<string, number>();
  for (const place of byStart) {
    const id = ids[place] ?? "";
    if (id !== "" && byId.has(id)) {
      flagged[place] = Flag.Duplicate;
    } else if (id !== "") {
      byId.set(id, place);
    }
  }
  const above = new Int32Array(count).fill(-1);
  for (let place = 0; place < count; place += 1) {
    const parent = parents[place] ?? "";
    if (parent !== "") {
      const found = byId.get(parent) ?? -1;
      above[place] = found;
      if (found === -1) {
        flagged[place] = (flagged[place] ?? 0) | Flag.MissingParent;
      }
    }
  }
  cutCycles(above, byStart, flagged);

  // Linked lists of children. Iterating backwards by start leaves each list ordered by start.
  const first = new Int32Array(count).fill(-1);
  const next = new Int32Array(count).fill(-1);
  let top = -1;
  for (let at = count - 1; at >= 0; at -= 1) {
    const place = byStart[at] ?? 0;
    const parent = above[place] ?? -1;
    if (parent < 0) {
      next[place] = top;
      top = place;
    } else {
      next[place] = first[parent] ?? -1;
      first[parent] = place;
    }
  }

  const tree = {
    order: new Int32Array(count),
    parent: new Int32Array(count).fill(-1),
    end: new Int32Array(count),
    depth: new Int32Array(count),
    children: new Int32Array(count),
    flags: new Uint8Array(count),
  };
  let number = 0;
  // Numbers of the ancestors of the current span.
  const way = new Int32Array(count);
  let height = 0;
  let place = top;
  while (place !== -1) {
    tree.order[number] = place;
    tree.flags[number] = flagged[place] ?? 0;
    tree.depth[number] = height;
    if (height > 0) {
      const parent = way[height - 1] ?? 0;
      tree.parent[number] = parent;
      tree.children[parent] = (tree.children[parent] ?? 0) + 1;
    }
    way[height] = number;
    number += 1;
    const child = first[place] ?? -1;
    if (child !== -1) {
      height += 1;
      place = child;
      continue;
    }
    // Moves up to the next ancestor with a sibling.
    for (;;) {
      const done = way[height] ?? 0;
      tree.end[done] = number;
      place = next[tree.order[done] ?? 0] ?? -1;
      if (place !== -1 || height === 0) {
        break;
      }
      height -= 1;
    }
  }
  return tree;
}

/** Removes the parent of the earliest span of each cycle. */
function cutCycles(above: Int32Array, byStart: Int32Array, flagged: Uint8Array): void {
  // 0 if not visited; otherwise one more than the index of the span from which it was reached.
  const reached = new Int32Array(above.length);
  // Rank by start. The walk that finds a cycle may start outside of it, so that the earliest span of the cycle is searched
  // separately.
  const rank = new Int32Array(above.length);
  byStart.forEach((place, at) => {
    rank[place] = at;
  });
  for (const begin of byStart) {
    let place = begin;
    while (place !== -1 && reached[place] === 0) {
      reached[place] = begin + 1;
      place = above[place] ?? -1;
    }
    if (place !== -1 && reached[place] === begin + 1) {
      let earliest = place;
      for (let at = above[place] ?? -1; at !== place && at !== -1; at = above[at] ?? -1) {
        if ((rank[at] ?? 0) < (rank[earliest] ?? 0)) {
          earliest = at;
        }
      }
      above[earliest] = -1;
      flagged[earliest] = (flagged[earliest] ?? 0) | Flag.Cycle;
    }
  }
}
