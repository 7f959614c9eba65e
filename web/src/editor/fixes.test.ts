import { describe, expect, it } from "vitest";
import { better, candidates } from "./fixes";

const remark = (hint: string, column: number, length: number) => ({
  line: 1,
  column,
  length,
  code: "syntax",
  message: "",
  hint,
});

describe("a hint", () => {
  it("replaces the underlined part", () => {
    expect(candidates('S = "a"', remark("write `==` to compare", 3, 1))).toEqual([
      { label: "Replace with ==", text: 'S == "a"' },
    ]);
  });

  it("replaces the whole text after “together”", () => {
    const hint = 'write `==`; together: `S == "a" && b`';
    expect(candidates('S = "a" and b', remark(hint, 3, 1)).map(({ text }) => text)).toEqual([
      'S == "a" and b',
      'S == "a" && b',
    ]);
  });

  it("gives no fix if it has a placeholder", () => {
    expect(candidates("S", remark('compare it: `S == "…"`', 1, 1))).toEqual([]);
  });

  it("gives no fix without text in backticks", () => {
    expect(candidates("S", remark("leave one of them out", 1, 1))).toEqual([]);
  });

  it("shows invisible characters by name in the label, and keeps them in the text", () => {
    expect(candidates("S", remark("did you mean `T\u202e`?", 1, 1))).toEqual([
      { label: "Replace with T⟨U+202E⟩", text: "T\u202e" },
    ]);
  });

  it("is placed correctly after an emoji", () => {
    expect(candidates('"😀" = S', remark("write `==` to compare", 5, 1))[0]?.text).toBe('"😀" == S');
  });
});

describe("a changed expression is better", () => {
  const of = (errors: number, warnings: number) => ({
    valid: errors === 0,
    errors: Array.from({ length: errors }, () => remark("", 1, 1)),
    warnings: Array.from({ length: warnings }, () => remark("", 1, 1)),
    fields: [],
    predicate: null,
  });
  it("with fewer errors, or with as many errors and fewer warnings", () => {
    expect(better(of(0, 2), of(1, 0))).toBe(true);
    expect(better(of(0, 0), of(0, 1))).toBe(true);
    expect(better(of(1, 0), of(1, 0))).toBe(false);
    expect(better(of(2, 0), of(1, 3))).toBe(false);
  });
});
