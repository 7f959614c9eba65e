import { expect, it } from "vitest";
import { faultsAsText } from "./Notices";

const none = {
  missingParents: 0,
  beforeParent: 0,
  afterParent: 5,
  greatestSkew: 0,
  cycles: 0,
  duplicates: 0,
  untimed: 0,
  invalidDurations: 0,
};

it("a complete trace has no notices, also if spans outlive their parents", () => {
  expect(faultsAsText(none)).toEqual([]);
});

it("missing parents and clock skew are reported with count and maximum", () => {
  const said = faultsAsText({ ...none, missingParents: 1, beforeParent: 2_000, greatestSkew: 3e6 });
  expect(said[0]).toMatch(/^1 span has a parent that is not in this trace/);
  expect(said[1]).toMatch(/^2,000 spans begin before the parent, by up to 3 ms/);
});

it("negative durations are reported to count as 0", () => {
  expect(faultsAsText({ ...none, invalidDurations: 1 })).toEqual([
    "1 span has a negative duration, which counts as 0: by its own clock, it ended before it started.",
  ]);
});
