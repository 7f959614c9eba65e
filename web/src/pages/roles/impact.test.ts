import { describe, expect, it } from "vitest";
import { headline, sampleText, sortByLoss, splitCollateral, tracesText } from "./impact";

const user = (username: string, gained: number, lost: number) => ({
  username,
  gained,
  lost,
  unchanged: 5,
  gained_ids: [],
  lost_ids: [],
});

describe("users whose access changes", () => {
  it("are sorted by losses, then by gains", () => {
    const users = [user("b", 9, 0), user("a", 0, 0), user("d", 0, 1), user("c", 7, 3), user("A", 9, 0)];
    expect(sortByLoss(users).map(({ username }) => username)).toEqual(["c", "d", "A", "b", "a"]);
  });
});

describe("the summary of changed access", () => {
  it.each([
    [[user("a", 0, 2), user("b", 1, 0)], 2, false, "1 user loses traces, 1 user gains some, of 2 compared."],
    [[user("a", 0, 2), user("b", 1, 4)], 2, false, "2 users lose traces, 1 user gains some, of 2 compared."],
    [[user("a", 1, 0), user("b", 0, 0)], 12, false, "1 user gains traces, of 12 compared."],
    [[user("a", 1, 0), user("b", 0, 0)], 12, true, "In the sample, 1 user gains traces, of 12 compared."],
    [[user("a", 0, 1), user("b", 0, 1)], 300, false, "At least 2 users lose traces, of 300 compared."],
    [[user("a", 0, 0)], 1, false, "No change for 1 compared user."],
    [[], 1_200, false, "No change for 1,200 compared users."],
    [[], 4, true, "In the sample, no change for 4 compared users."],
  ])("%#", (users, compared, sampled, text) => expect(headline(users, compared, sampled)).toBe(text));
});

describe("a number of traces", () => {
  it.each([
    [0, false, "0"],
    [9_120, false, "9,120"],
    [0, true, "none found"],
    [9_120, true, "about 9,120"],
  ])("%d, sampled %s", (count, sampled, text) => expect(tracesText(count, sampled)).toBe(text));
});

describe("a sample", () => {
  it("has its share, and is never said to be everything", () => {
    expect(sampleText(false, 1)).toBeNull();
    expect(sampleText(true, 0.999)).toContain(" 99 % ");
    expect(sampleText(true, 0.0349)).toContain(" 3.5 % ");
    expect(sampleText(true, 0.00001)).toContain("less than 0.1 %");
  });
});

describe("values that become visible", () => {
  it("are separated by whether a matching span has them", () => {
    const value = (value: string, only_shared: boolean) => ({
      value,
      traces: 3,
      matching_traces: only_shared ? 0 : 2,
      only_shared,
    });
    const { collateralOnly, onMatchingSpans } = splitCollateral([
      value("a", false),
      value("b", true),
      value("c", false),
    ]);
    expect([collateralOnly, onMatchingSpans].map((values) => values.map(({ value }) => value))).toEqual([
      ["b"],
      ["a", "c"],
    ]);
  });
});
