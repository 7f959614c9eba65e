import type { Trace } from "./model";

/** Where spans stand in a flame: each in a lane below its parent's, none over another. */
export type Flame = {
  readonly lanes: number;
  /** For each span its lane. */
  readonly lane: Int32Array;
  /** The spans of a lane by start, from `first` of the lane to `first` of the next. */
  readonly first: Int32Array;
  readonly spans: Int32Array;
};

/** Lays out spans by start; each takes the first lane below its parent's that is free again. */
export function flameOf(trace: Pick<Trace, "count" | "start" | "duration" | "parent">): Flame {
  const { count, start, duration, parent } = trace;
  // A child with an early clock still comes after its parent, which must have its lane by then.
  const key = new Float64Array(count);
  for (let span = 0; span < count; span += 1) {
    const above = parent[span] ?? -1;
    key[span] = Math.max(start[span] ?? 0, above < 0 ? 0 : (key[above] ?? 0));
  }
  const order = Int32Array.from({ length: count }, (_, span) => span);
  order.sort((one, other) => (key[one] ?? 0) - (key[other] ?? 0) || one - other);

  const lane = new Int32Array(count);
  const free = new FreeLanes(count);
  let lanes = 0;
  for (const span of order) {
    const above = parent[span] ?? -1;
    const found = free.take(
      above < 0 ? 0 : (lane[above] ?? 0) + 1,
      start[span] ?? 0,
      (start[span] ?? 0) + (duration[span] ?? 0),
    );
    lane[span] = found;
    lanes = Math.max(lanes, found + 1);
  }
  const first = new Int32Array(lanes + 1);
  for (const one of lane) {
    first[one + 1] = (first[one + 1] ?? 0) + 1;
  }
  for (let one = 0; one < lanes; one += 1) {
    first[one + 1] = (first[one + 1] ?? 0) + (first[one] ?? 0);
  }
  const place = Int32Array.from(first);
  const spans = new Int32Array(count);
  // Within a lane nothing overlaps, so that the order by key is the order by start.
  for (const span of order) {
    const one = lane[span] ?? 0;
    const into = place[one] ?? 0;
    spans[into] = span;
    place[one] = into + 1;
  }
  return { lanes, lane, first, spans };
}

/** When each lane is free again, in a tree of minima: a hundred thousand spans at once need as many lanes. */
class FreeLanes {
  readonly #size: number;
  readonly #least: Float64Array;

  constructor(count: number) {
    this.#size = 2 ** Math.ceil(Math.log2(Math.max(count, 1)));
    this.#least = new Float64Array(2 * this.#size).fill(Number.NEGATIVE_INFINITY);
  }

  /** The first lane from the given one that is free at the start; taken until the end. */
  take(from: number, start: number, end: number): number {
    let node = this.#size + Math.min(from, this.#size - 1);
    // Up while the subtree holds none, then to the right; then down to the leftmost that is free.
    while (node > 1 && (this.#least[node] ?? 0) > start) {
      while (node % 2 === 1 && node > 1) {
        node >>= 1;
      }
      node = node > 1 ? node + 1 : 1;
    }
    while (node < this.#size) {
      node = (this.#least[2 * node] ?? 0) <= start ? 2 * node : 2 * node + 1;
    }
    const lane = node - this.#size;
    for (this.#least[node] = end; node > 1; ) {
      node >>= 1;
      this.#least[node] = Math.min(this.#least[2 * node] ?? 0, this.#least[2 * node + 1] ?? 0);
    }
    return lane;
  }
}
