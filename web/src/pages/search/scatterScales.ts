import { formatInstant, type Zone } from "../../lib/time";

/** A trace as a point: start in milliseconds since the epoch, duration in nanoseconds. */
export type Point = {
  readonly id: string;
  readonly at: number;
  readonly nanos: number;
  readonly error: boolean;
};

export type Scale = { readonly min: number; readonly max: number };

/** Durations of the scale's lines in readable units: 1 and 10 minutes, not 100 s. */
const COARSE = [
  ...[1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10],
  ...[60, 600, 3_600, 36_000, 86_400, 864_000, 8_640_000].map((seconds) => seconds * 1e9),
];
const FINE = [
  ...COARSE.filter((mark) => mark <= 1e10).flatMap((mark) => [mark, 2 * mark, 5 * mark]),
  ...[60, 120, 300, 600, 1_200, 3_600, 7_200, 18_000, 36_000].map((seconds) => seconds * 1e9),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((days) => days * 86_400e9),
].filter((mark) => mark !== 5e10 && mark !== 2e10);

/** The scale of durations: from one round duration to another. */
export function durationScale(points: readonly Point[]): Scale {
  let [least, most] = [Number.POSITIVE_INFINITY, 0];
  for (const { nanos } of points) {
    least = Math.min(least, Math.max(1, nanos));
    most = Math.max(most, nanos, 1);
  }
  if (points.length === 0) {
    return { min: 1e6, max: 1e9 };
  }
  const min = FINE.findLast((mark) => mark <= least) ?? 1;
  const max = FINE.find((mark) => mark >= most && mark > min) ?? most;
  return { min, max };
}

/** The marks of a scale, at most `most`. */
export function durationMarks({ min, max }: Scale, most: number): number[] {
  const within = (marks: number[]) => marks.filter((mark) => mark >= min && mark <= max);
  const coarse = within(COARSE);
  const all = coarse.length < 3 ? within(FINE) : coarse;
  const step = Math.ceil(all.length / Math.max(2, most));
  return all.filter((_, place) => place % step === 0);
}

/** Position of a duration on its scale, between 0 and 1. */
export function durationShare(nanos: number, { min, max }: Scale): number {
  const share = Math.log(Math.max(nanos, 1) / min) / Math.log(max / min);
  return Math.min(1, Math.max(0, share));
}

/** The time range of the chart: the searched window, or the part with loaded results.
 *
 * If only the newest of many traces are loaded, they would all be at the edge of the whole window. */
export function timeScale(points: readonly Point[], window: Scale, complete: boolean): Scale {
  let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { at } of points) {
    first = Math.min(first, at);
    last = Math.max(last, at);
  }
  if (points.length === 0) {
    return window;
  }
  if (complete) {
    // A trace may start before the window that contains its later spans.
    return { min: Math.min(window.min, first), max: Math.max(window.max, last) };
  }
  const margin = Math.max((last - first) * 0.02, 500);
  return { min: first - margin, max: last + margin };
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((count) => count * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * MINUTE),
  ...[1, 2, 3, 6, 12].map((count) => count * HOUR),
  ...[1, 2, 7, 14, 30, 90, 365].map((count) => count * DAY),
];

/** Round times along a scale in the time zone, with their labels. */
export function timeMarks({ min, max }: Scale, most: number, zone: Zone): { at: number; label: string }[] {
  const step = STEPS.find((length) => (max - min) / length <= most) ?? max - min;
  // Times are round in the displayed time zone.
  const offset = zone === "utc" ? 0 : new Date(min).getTimezoneOffset() * MINUTE;
  const marks: { at: number; label: string }[] = [];
  for (
    let at = Math.ceil((min - offset) / step) * step + offset;
    at <= max && marks.length < 50;
    at += step
  ) {
    const [seconds, rest] = [Math.floor(at / 1000), ((at % 1000) + 1000) % 1000];
    const text = formatInstant({ seconds, nanos: rest * 1e6 }, zone, step < SECOND ? 3 : 0);
    const midnight = text.endsWith("00:00:00");
    const label =
      step >= DAY || (midnight && step >= MINUTE)
        ? text.slice(5, 10)
        : step >= MINUTE
          ? text.slice(11, 16)
          : text.slice(11);
    marks.push({ at, label });
  }
  return marks;
}

/** The point nearest to a position, if it is within reach; all in pixels. */
export function nearest<Place extends { x: number; y: number }>(
  places: readonly Place[],
  x: number,
  y: number,
  reach: number,
): Place | null {
  let best: Place | null = null;
  let least = reach * reach;
  for (const place of places) {
    const distance = (place.x - x) ** 2 + (place.y - y) ** 2;
    if (distance <= least) {
      least = distance;
      best = place;
    }
  }
  return best;
}
