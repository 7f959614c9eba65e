/** A range within a trace, in nanoseconds from its start. */
export type Range = { readonly from: number; readonly to: number };

/** Minimum length of a zoomed range. */
const MIN_LENGTH = 100;

/** Round times for a scale over the range, about `targetCount` of them. */
export function ticksOf(range: Range, targetCount: number): number[] {
  const length = range.to - range.from;
  if (!(length > 0) || targetCount < 1) {
    return [];
  }
  const rough = length / targetCount;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power;
  const ticks: number[] = [];
  for (let i = Math.ceil(range.from / step); i * step <= range.to && ticks.length < 100; i += 1) {
    ticks.push(i * step);
  }
  return ticks;
}

/** A range scaled around a point, inside the trace. */
export function zoomRange(range: Range, factor: number, length: number, around?: number): Range {
  const middle = around ?? (range.from + range.to) / 2;
  return clampRange(
    { from: middle - (middle - range.from) * factor, to: middle + (range.to - middle) * factor },
    length,
  );
}

export function panRange(range: Range, by: number, length: number): Range {
  const clampedBy = Math.min(Math.max(by, -range.from), length - range.to);
  return { from: range.from + clampedBy, to: range.to + clampedBy };
}

/** Clamps a range to the trace and to the minimum length. */
export function clampRange(range: Range, length: number): Range {
  const from = Math.max(0, Math.min(range.from, range.to));
  const to = Math.min(length, Math.max(range.from, range.to));
  if (to - from >= Math.min(MIN_LENGTH, length)) {
    return { from, to };
  }
  const start = Math.max(0, Math.min((from + to - MIN_LENGTH) / 2, length - MIN_LENGTH));
  return { from: start, to: Math.min(length, start + MIN_LENGTH) };
}

export function isWholeRange(range: Range, length: number): boolean {
  return range.from <= 0 && range.to >= length;
}
