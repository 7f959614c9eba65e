import { sortIntoBuckets } from "./buckets";
import type { Trace } from "./model";

/** Positions of spans in a flame graph: each in a lane below its parent's, without overlaps. */
export type FlameLayout = {
  readonly lanes: number;
  /** Lane of each span. */
  readonly lane: Int32Array;
  /** Spans by lane, each ordered by start. Those of a lane are from its element in `first` to the next one. */
  readonly first: Int32Array;
  readonly spans: Int32Array;
};

/** Lays out spans by start. Each takes the first free lane below its parent's. */
export function flameLayout(trace: Pick<Trace, "count" | "start" | "duration" | "parent">): FlameLayout {
  const { count, start, duration, parent } = trace;
  // A child that starts before its parent is still laid out after it, because the parent's lane must be known.
  const key = new Float64Array(count);
  for (let span = 0; span < count; span += 1) {
    const parentSpan = parent[span] ?? -1;
    key[span] = Math.max(start[span] ?? 0, parentSpan < 0 ? 0 : (key[parentSpan] ?? 0));
  }
  const order = Int32Array.from({ length: count }, (_, span) => span);
  order.sort((a, b) => (key[a] ?? 0) - (key[b] ?? 0) || a - b);

  const lane = new Int32Array(count);
  const freeLanes = new FreeLanes(count);
  let lanes = 0;
  for (const span of order) {
    const parentSpan = parent[span] ?? -1;
    const freeLane = freeLanes.occupy(
      parentSpan < 0 ? 0 : (lane[parentSpan] ?? 0) + 1,
      start[span] ?? 0,
      (start[span] ?? 0) + (duration[span] ?? 0),
    );
    lane[span] = freeLane;
    lanes = Math.max(lanes, freeLane + 1);
  }
  // Spans of a lane do not overlap, so that the order by key is the order by start.
  const { first, numbers } = sortIntoBuckets(
    order.map((span) => lane[span] ?? 0),
    lanes,
  );
  return { lanes, lane, first, spans: numbers.map((index) => order[index] ?? 0) };
}

/** The end of the last span in each lane, in a segment tree of minima: a hundred thousand concurrent spans need as many lanes. */
class FreeLanes {
  readonly #size: number;
  readonly #minEnd: Float64Array;

  constructor(count: number) {
    this.#size = 2 ** Math.ceil(Math.log2(Math.max(count, 1)));
    this.#minEnd = new Float64Array(2 * this.#size).fill(Number.NEGATIVE_INFINITY);
  }

  /** Returns the first lane from `from` on that is free at `start`, and occupies it until `end`. */
  occupy(from: number, start: number, end: number): number {
    let node = this.#size + Math.min(from, this.#size - 1);
    // Moves up while the subtree has no free lane, then right, then down to the leftmost free lane.
    while (node > 1 && (this.#minEnd[node] ?? 0) > start) {
      while (node % 2 === 1 && node > 1) {
        node >>= 1;
      }
      node = node > 1 ? node + 1 : 1;
    }
    while (node < this.#size) {
      node = (this.#minEnd[2 * node] ?? 0) <= start ? 2 * node : 2 * node + 1;
    }
    const lane = node - this.#size;
    for (this.#minEnd[node] = end; node > 1; ) {
      node >>= 1;
      this.#minEnd[node] = Math.min(this.#minEnd[2 * node] ?? 0, this.#minEnd[2 * node + 1] ?? 0);
    }
    return lane;
  }
}
