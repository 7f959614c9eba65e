import { describe, expect, it } from "vitest";
import { placeOf, rangeOf, segments } from "./place";

const covered = (text: string, line: number, column: number, length: number) => {
  const { from, to } = rangeOf(text, { line, column, length });
  return text.slice(from, to);
};

describe("a place in code points", () => {
  it.each([
    ["the first line", 'Service = "a"', 1, 9, 1, "="],
    ["after a character of two UTF-16 units", 'x == "😀" && y', 1, 13, 1, "y"],
    ["over such a character", 'x == "😀"', 1, 6, 3, '"😀"'],
    ["combining characters count each", 'x == "e\u0301" && y', 1, 14, 1, "y"],
    ["another line", "a &&\nb", 2, 1, 1, "b"],
    ["a carriage return belongs to its line", "a &&\r\nb", 2, 1, 1, "b"],
    ["over the end of a line with one", "a &&\r\nb", 1, 3, 5, "&&\r\nb"],
    ["a carriage return alone ends no line", "a\rb", 1, 3, 1, "b"],
    ["in a line after one with such characters", '"😀😀"\n== x', 2, 4, 1, "x"],
    ["at the end", "a &&", 1, 5, 1, ""],
    ["past the end", "a", 7, 9, 3, ""],
  ])("%s", (_name, text, line, column, length, expected) => {
    expect(covered(text, line, column, length)).toBe(expected);
  });

  it("is found again from its offset", () => {
    const text = 'x == "😀" &&\r\n  "😀" in y';
    const { from } = rangeOf(text, { line: 2, column: 7, length: 2 });
    expect(text.slice(from)).toBe("in y");
    expect(placeOf(text, from)).toEqual({ line: 2, column: 7 });
  });
});

describe("marks on a text", () => {
  it("cut it, also where they lie within each other", () => {
    const outer = { line: 1, column: 1, length: 6, name: "outer" };
    const inner = { line: 1, column: 6, length: 1, name: "inner" };
    expect(
      segments("a || b && c", [outer, inner]).map(({ text, marks }) => [text, marks.map(({ name }) => name)]),
    ).toEqual([
      ["a || ", ["outer"]],
      ["b", ["outer", "inner"]],
      [" && c", []],
    ]);
  });

  it("that are none leave one piece, of which an empty text has none", () => {
    expect(segments("a", [])).toEqual([{ text: "a", marks: [] }]);
    expect(segments("", [])).toEqual([]);
  });
});
