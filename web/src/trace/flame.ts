import type { Trace } from "./model";

/** Positions of spans in a flame graph: each in a lane below its parent's, without overlaps. */
export type Flame = {
  readonly lanes: number;
  /** Lane of each span. */
  readonly lane: Int32Array;
  /** Spans by lane, each ordered by start. Those of a lane are from its element in `first` to the next one. */
  readonly first: Int32Array;
  readonly spans: Int32Array;
};

/** Lays out spans by start. Each takes the first free lane below its parent's. */
export function flameOf(trace: Pick<Trace, "count" | "start" | "duration" | "parent">): Flame {
  const { count, start, duration, parent } = trace;
  // A child that starts before its parent is still laid out after it, because the parent's lane must be known.
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
  // Spans of a lane do not overlap, so that the order by key is the order by start.
  for (const span of order) {
    const one = lane[span] ?? 0;
    const into = place[one] ?? 0;
    spans[into] = span;
    place[one] = into + 1;
  }
  return { lanes, lane, first, spans };
}

/** The end of the last span in each lane, in a segment tree of minima: a hundred thousand concurrent spans need as many lanes. */
class FreeLanes {
  readonly #size: number;
  readonly #least: Float64Array;

  constructor(count: number) {
    this.#size = 2 ** Math.ceil(Math.log2(Math.max(count, 1)));
    this.#least = new Float64Array(2 * this.#size).fill(Number.NEGATIVE_INFINITY);
  }

  /** Returns the first lane from `from` on that is free at `start`, and occupies it until `end`. */
  take(from: number, start: number, end: number): number {
    let node = this.#size + Math.min(from, this.#size - 1);
    // Moves up while the subtree has no free lane, then right, then down to the leftmost free lane.
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
