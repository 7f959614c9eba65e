import { describe, expect, it } from "vitest";
import { countOf, formatBytes, formatCount, formatGain, formatRanges, formatShare } from "./numbers";

describe("counts", () => {
  it.each([
    [0, "0"],
    [9_120, "9,120"],
    [12_000, "12 k"],
    [1_230_000, "1.2 M"],
    [123_456_789, "123 M"],
    [999_999, "1 M"],
    [4_500_000_000, "4.5 B"],
  ])("%d", (count, text) => expect(formatCount(count)).toBe(text));
});

describe("sizes", () => {
  it.each([
    [0, "0 B"],
    [512, "512 B"],
    [3_400_000_000, "3.4 GB"],
    [999_900, "1 MB"],
    [2e15, "2 PB"],
  ])("%d", (bytes, text) => expect(formatBytes(bytes)).toBe(text));
});

describe("shares", () => {
  it.each([
    [20_000, 20_000, "100 %"],
    [19_999, 20_000, "99 %"],
    [1, 20_000, "< 0.1 %"],
    [60, 20_000, "0.3 %"],
    [0, 20_000, "0 %"],
    [1, 0, "–"],
  ])("%d of %d", (part, whole, text) => expect(formatShare(part, whole)).toBe(text));
});

it("formats counts with a noun", () => {
  expect([countOf(1, "field"), countOf(1_200, "field"), countOf(2, "key")]).toEqual([
    "1 field",
    "1,200 fields",
    "2 keys",
  ]);
});

it("formats factors of reduction", () => {
  expect([formatGain(1.44), formatGain(12.4), formatGain(1_300.2), formatGain(0.6)]).toEqual([
    "1.4×",
    "12×",
    "1,300×",
    "< 1×",
  ]);
});

it("combines consecutive numbers", () => {
  expect(formatRanges([2, 1, 3, 7, 9, 8, 12, 13])).toBe("1 to 3, 7 to 9, 12, 13");
  expect(formatRanges([])).toBe("");
});
