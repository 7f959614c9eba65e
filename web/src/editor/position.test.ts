import { describe, expect, it } from "vitest";
import { positionAt, rangeOf, segments } from "./position";

const coveredText = (text: string, line: number, column: number, length: number) => {
  const { from, to } = rangeOf(text, { line, column, length });
  return text.slice(from, to);
};

describe("a position in code points", () => {
  it.each([
    ["the first line", 'Service = "a"', 1, 9, 1, "="],
    ["after a character of two UTF-16 units", 'x == "😀" && y', 1, 13, 1, "y"],
    ["across such a character", 'x == "😀"', 1, 6, 3, '"😀"'],
    ["with combining characters, which count separately", 'x == "e\u0301" && y', 1, 14, 1, "y"],
    ["another line", "a &&\nb", 2, 1, 1, "b"],
    ["after a carriage return, which belongs to its line", "a &&\r\nb", 2, 1, 1, "b"],
    ["across the end of a line with a carriage return", "a &&\r\nb", 1, 3, 5, "&&\r\nb"],
    ["after a single carriage return, which ends no line", "a\rb", 1, 3, 1, "b"],
    ["in the line after one with such characters", '"😀😀"\n== x', 2, 4, 1, "x"],
    ["at the end", "a &&", 1, 5, 1, ""],
    ["past the end", "a", 7, 9, 3, ""],
  ])("%s", (_name, text, line, column, length, expected) => {
    expect(coveredText(text, line, column, length)).toBe(expected);
  });

  it("is computed from its offset", () => {
    const text = 'x == "😀" &&\r\n  "😀" in y';
    const { from } = rangeOf(text, { line: 2, column: 7, length: 2 });
    expect(text.slice(from)).toBe("in y");
    expect(positionAt(text, from)).toEqual({ line: 2, column: 7 });
  });
});

describe("marks on a text", () => {
  it("split it, also if they are nested", () => {
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

  it("leave one piece if there are none, and no piece of an empty text", () => {
    expect(segments("a", [])).toEqual([{ text: "a", marks: [] }]);
    expect(segments("", [])).toEqual([]);
  });
});
