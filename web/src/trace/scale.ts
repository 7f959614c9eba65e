/** A range within a trace, in nanoseconds from its start. */
export type Range = { readonly from: number; readonly to: number };

/** Minimum length of a zoomed range. */
const LEAST = 100;

/** Round times for a scale over the range, about `about` of them. */
export function ticksOf(range: Range, about: number): number[] {
  const length = range.to - range.from;
  if (!(length > 0) || about < 1) {
    return [];
  }
  const rough = length / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power;
  const ticks: number[] = [];
  for (let at = Math.ceil(range.from / step); at * step <= range.to && ticks.length < 100; at += 1) {
    ticks.push(at * step);
  }
  return ticks;
}

/** A range scaled around a point, inside the trace. */
export function zoomed(range: Range, factor: number, length: number, around?: number): Range {
  const middle = around ?? (range.from + range.to) / 2;
  return within(
    { from: middle - (middle - range.from) * factor, to: middle + (range.to - middle) * factor },
    length,
  );
}

export function moved(range: Range, by: number, length: number): Range {
  const kept = Math.min(Math.max(by, -range.from), length - range.to);
  return { from: range.from + kept, to: range.to + kept };
}

/** Clamps a range to the trace and to the minimum length. */
export function within(range: Range, length: number): Range {
  const from = Math.max(0, Math.min(range.from, range.to));
  const to = Math.min(length, Math.max(range.from, range.to));
  if (to - from >= Math.min(LEAST, length)) {
    return { from, to };
  }
  const start = Math.max(0, Math.min((from + to - LEAST) / 2, length - LEAST));
  return { from: start, to: Math.min(length, start + LEAST) };
}

export function isWhole(range: Range, length: number): boolean {
  return range.from <= 0 && range.to >= length;
}
