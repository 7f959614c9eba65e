import { formatInstant, type TimeZone } from "../../lib/time";

/** A trace as a point: start in milliseconds since the epoch, duration in nanoseconds. */
export type Point = {
  readonly id: string;
  readonly at: number;
  readonly nanos: number;
  readonly error: boolean;
};

export type Scale = { readonly min: number; readonly max: number };

/** Durations of the scale's lines in readable units: 1 and 10 minutes, not 100 s. */
const COARSE_MARKS = [
  ...[1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10],
  ...[60, 600, 3_600, 36_000, 86_400, 864_000, 8_640_000].map((seconds) => seconds * 1e9),
];
const FINE_MARKS = [
  ...COARSE_MARKS.filter((mark) => mark <= 1e10).flatMap((mark) => [mark, 2 * mark, 5 * mark]),
  ...[60, 120, 300, 600, 1_200, 3_600, 7_200, 18_000, 36_000].map((seconds) => seconds * 1e9),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((days) => days * 86_400e9),
].filter((mark) => mark !== 5e10 && mark !== 2e10);

/** The scale of durations: from one round duration to another. */
export function durationScale(points: readonly Point[]): Scale {
  let [shortest, longest] = [Number.POSITIVE_INFINITY, 0];
  for (const { nanos } of points) {
    shortest = Math.min(shortest, Math.max(1, nanos));
    longest = Math.max(longest, nanos, 1);
  }
  if (points.length === 0) {
    return { min: 1e6, max: 1e9 };
  }
  const min = FINE_MARKS.findLast((mark) => mark <= shortest) ?? 1;
  const max = FINE_MARKS.find((mark) => mark >= longest && mark > min) ?? longest;
  return { min, max };
}

/** The marks of a scale, at most `maxCount`. */
export function durationMarks({ min, max }: Scale, maxCount: number): number[] {
  const inScale = (marks: number[]) => marks.filter((mark) => mark >= min && mark <= max);
  const coarseMarks = inScale(COARSE_MARKS);
  const marks = coarseMarks.length < 3 ? inScale(FINE_MARKS) : coarseMarks;
  const step = Math.ceil(marks.length / Math.max(2, maxCount));
  return marks.filter((_, index) => index % step === 0);
}

/** Position of a duration on its scale, between 0 and 1. */
export function durationPosition(nanos: number, { min, max }: Scale): number {
  const position = Math.log(Math.max(nanos, 1) / min) / Math.log(max / min);
  return Math.min(1, Math.max(0, position));
}

/** The time range of the chart: the searched window, or the part with loaded results.
 *
 * If only the newest of many traces are loaded, they would all be at the edge of the whole window. */
export function timeScale(points: readonly Point[], window: Scale, isComplete: boolean): Scale {
  let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { at } of points) {
    first = Math.min(first, at);
    last = Math.max(last, at);
  }
  if (points.length === 0) {
    return window;
  }
  if (isComplete) {
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
const TIME_STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((count) => count * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * MINUTE),
  ...[1, 2, 3, 6, 12].map((count) => count * HOUR),
  ...[1, 2, 7, 14, 30, 90, 365].map((count) => count * DAY),
];

/** Round times along a scale in the time zone, with their labels. */
export function timeMarks(
  { min, max }: Scale,
  maxCount: number,
  zone: TimeZone,
): { time: number; label: string }[] {
  const step = TIME_STEPS.find((length) => (max - min) / length <= maxCount) ?? max - min;
  // Times are round in the displayed time zone.
  const offset = zone === "utc" ? 0 : new Date(min).getTimezoneOffset() * MINUTE;
  const marks: { time: number; label: string }[] = [];
  for (
    let time = Math.ceil((min - offset) / step) * step + offset;
    time <= max && marks.length < 50;
    time += step
  ) {
    const [seconds, rest] = [Math.floor(time / 1000), ((time % 1000) + 1000) % 1000];
    const text = formatInstant({ seconds, nanos: rest * 1e6 }, zone, step < SECOND ? 3 : 0);
    const midnight = text.endsWith("00:00:00");
    const label =
      step >= DAY || (midnight && step >= MINUTE)
        ? text.slice(5, 10)
        : step >= MINUTE
          ? text.slice(11, 16)
          : text.slice(11);
    marks.push({ time, label });
  }
  return marks;
}

/** The point nearest to a position, if it is within reach; all in pixels. */
export function nearestPoint<PlottedPoint extends { x: number; y: number }>(
  points: readonly PlottedPoint[],
  x: number,
  y: number,
  radius: number,
): PlottedPoint | null {
  let best: PlottedPoint | null = null;
  let leastDistance = radius * radius;
  for (const point of points) {
    const distance = (point.x - x) ** 2 + (point.y - y) ** 2;
    if (distance <= leastDistance) {
      leastDistance = distance;
      best = point;
    }
  }
  return best;
}
