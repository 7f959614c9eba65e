import { expect, it } from "vitest";
import { faultTexts } from "./Notices";

const noFaults = {
  missingParents: 0,
  beforeParent: 0,
  afterParent: 5,
  maxSkew: 0,
  cycles: 0,
  duplicates: 0,
  invalidTimes: 0,
  invalidDurations: 0,
};

it("a complete trace has no notices, also if spans outlive their parents", () => {
  expect(faultTexts(noFaults)).toEqual([]);
});

it("missing parents and clock skew are reported with count and maximum", () => {
  const texts = faultTexts({ ...noFaults, missingParents: 1, beforeParent: 2_000, maxSkew: 3e6 });
  expect(texts[0]).toMatch(/^1 span has a parent that is not in this trace/);
  expect(texts[1]).toMatch(/^2,000 spans begin before the parent, by up to 3 ms/);
});

it("negative durations are reported to count as 0", () => {
  expect(faultTexts({ ...noFaults, invalidDurations: 1 })).toEqual([
    "1 span has a negative duration, which counts as 0: by its own clock, it ended before it started.",
  ]);
});
