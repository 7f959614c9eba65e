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
export function buildTree(ids: readonly string[], parents: readonly string[], starts: Float64Array): Tree {
  const count = ids.length;
  const byStart = Int32Array.from({ length: count }, (_, index) => index);
  if (starts.some((start, index) => index > 0 && !((starts[index - 1] ?? 0) <= start))) {
    const startOf = (index: number) => starts[index] || 0;
    byStart.sort((a, b) => startOf(a) - startOf(b) || a - b);
  }
  const inputFlags = new Uint8Array(count);
  const byId = new Map<string, number>();
  for (const index of byStart) {
    const id = ids[index] ?? "";
    if (id !== "" && byId.has(id)) {
      inputFlags[index] = Flag.Duplicate;
    } else if (id !== "") {
      byId.set(id, index);
    }
  }
  const parentOf = new Int32Array(count).fill(-1);
  for (let index = 0; index < count; index += 1) {
    const parent = parents[index] ?? "";
    if (parent !== "") {
      const parentIndex = byId.get(parent) ?? -1;
      parentOf[index] = parentIndex;
      if (parentIndex === -1) {
        inputFlags[index] = (inputFlags[index] ?? 0) | Flag.MissingParent;
      }
    }
  }
  cutCycles(parentOf, byStart, inputFlags);

  // Linked lists of children. Iterating backwards by start leaves each list ordered by start.
  const firstChild = new Int32Array(count).fill(-1);
  const nextSibling = new Int32Array(count).fill(-1);
  let firstRoot = -1;
  for (let i = count - 1; i >= 0; i -= 1) {
    const index = byStart[i] ?? 0;
    const parent = parentOf[index] ?? -1;
    if (parent < 0) {
      nextSibling[index] = firstRoot;
      firstRoot = index;
    } else {
      nextSibling[index] = firstChild[parent] ?? -1;
      firstChild[parent] = index;
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
  const ancestors = new Int32Array(count);
  let level = 0;
  let index = firstRoot;
  while (index !== -1) {
    tree.order[number] = index;
    tree.flags[number] = inputFlags[index] ?? 0;
    tree.depth[number] = level;
    if (level > 0) {
      const parent = ancestors[level - 1] ?? 0;
      tree.parent[number] = parent;
      tree.children[parent] = (tree.children[parent] ?? 0) + 1;
    }
    ancestors[level] = number;
    number += 1;
    const child = firstChild[index] ?? -1;
    if (child !== -1) {
      level += 1;
      index = child;
      continue;
    }
    // Moves up to the next ancestor with a sibling.
    for (;;) {
      const finished = ancestors[level] ?? 0;
      tree.end[finished] = number;
      index = nextSibling[tree.order[finished] ?? 0] ?? -1;
      if (index !== -1 || level === 0) {
        break;
      }
      level -= 1;
    }
  }
  return tree;
}

/** Removes the parent of the earliest span of each cycle. */
function cutCycles(parentOf: Int32Array, byStart: Int32Array, inputFlags: Uint8Array): void {
  // 0 if not visited; otherwise one more than the index of the span from which it was reached.
  const visitedFrom = new Int32Array(parentOf.length);
  // Rank by start. The walk that finds a cycle may start outside of it, so that the earliest span of the cycle is searched
  // separately.
  const rank = new Int32Array(parentOf.length);
  byStart.forEach((index, i) => {
    rank[index] = i;
  });
  for (const start of byStart) {
    let index = start;
    while (index !== -1 && visitedFrom[index] === 0) {
      visitedFrom[index] = start + 1;
      index = parentOf[index] ?? -1;
    }
    if (index !== -1 && visitedFrom[index] === start + 1) {
      let earliest = index;
      for (let i = parentOf[index] ?? -1; i !== index && i !== -1; i = parentOf[i] ?? -1) {
        if ((rank[i] ?? 0) < (rank[earliest] ?? 0)) {
          earliest = i;
        }
      }
      parentOf[earliest] = -1;
      inputFlags[earliest] = (inputFlags[earliest] ?? 0) | Flag.Cycle;
    }
  }
}
