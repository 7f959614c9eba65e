import { describe, expect, it } from "vitest";
import {
  durationMarks,
  durationPosition,
  durationScale,
  nearestPoint,
  type Point,
  timeMarks,
  timeScale,
} from "./scatterScales";

const point = (at: number, nanos: number): Point => ({ id: `${at}`, at, nanos, error: false });
const T = Date.UTC(2026, 10, 21, 23, 0, 0);

describe("the duration scale", () => {
  it("ends at round durations", () => {
    expect(durationScale([point(0, 3e6), point(0, 2e9)])).toEqual({ min: 2e6, max: 2e9 });
    expect(durationScale([point(0, 90e9)])).toEqual({ min: 60e9, max: 120e9 });
  });

  it("is not empty for one duration, for none, and for zero", () => {
    for (const points of [[], [point(0, 0)], [point(0, 1e6)], [point(0, 1e20)]]) {
      const scale = durationScale(points);
      expect(scale.max).toBeGreaterThan(scale.min);
    }
  });

  it("is logarithmic, and clamps to its ends", () => {
    const scale = { min: 1e6, max: 1e10 };
    expect(durationPosition(1e8, scale)).toBeCloseTo(0.5);
    expect([durationPosition(0, scale), durationPosition(1e15, scale)]).toEqual([0, 1]);
  });

  it("has a limited number of marks", () => {
    expect(durationMarks({ min: 1, max: 1e10 }, 5).length).toBeLessThanOrEqual(6);
    expect(durationMarks({ min: 1e6, max: 1e9 }, 5)).toEqual([1e6, 1e7, 1e8, 1e9]);
    expect(durationMarks({ min: 1e8, max: 2e9 }, 5)).toEqual([1e8, 2e8, 5e8, 1e9, 2e9]);
  });
});

describe("the time scale", () => {
  const window = { min: T, max: T + 3_600_000 };

  it("is the window if all traces are loaded, otherwise the range of the loaded ones", () => {
    const points = [point(T + 3_500_000, 1), point(T + 3_590_000, 1)];
    expect(timeScale(points, window, true)).toEqual(window);
    expect(timeScale(points, window, false).min).toBeGreaterThan(T + 3_400_000);
    expect(timeScale([], window, false)).toEqual(window);
  });

  it("includes traces that start before the window", () => {
    expect(timeScale([point(T - 5_000, 1)], window, true).min).toBe(T - 5_000);
  });

  it("has marks at round times, and the date at midnight", () => {
    const labels = timeMarks({ min: T, max: T + 2 * 3_600_000 }, 6, "utc").map((mark) => mark.label);
    expect(labels).toEqual(["23:00", "23:30", "11-22", "00:30", "01:00"]);
    expect(timeMarks({ min: T, max: T + 4_000 }, 6, "utc").map((mark) => mark.label)).toContain("23:00:02");
    expect(timeMarks({ min: T, max: T + 40 * 86_400_000 }, 6, "utc").length).toBeLessThanOrEqual(7);
  });
});

it("the nearest point is `null` if none is within reach", () => {
  const plottedPoints = [
    { x: 0, y: 0 },
    { x: 10, y: 0 },
  ];
  expect(nearestPoint(plottedPoints, 8, 1, 5)).toBe(plottedPoints[1]);
  expect(nearestPoint(plottedPoints, 5, 20, 5)).toBeNull();
});
