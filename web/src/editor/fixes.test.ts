import { describe, expect, it } from "vitest";
import { fixCandidates, isImprovement } from "./fixes";

const wireDiagnostic = (hint: string, column: number, length: number) => ({
  line: 1,
  column,
  length,
  code: "syntax",
  message: "",
  hint,
});

describe("a hint", () => {
  it("replaces the underlined part", () => {
    expect(fixCandidates('S = "a"', wireDiagnostic("write `==` to compare", 3, 1))).toEqual([
      { label: "Replace with ==", text: 'S == "a"' },
    ]);
  });

  it("replaces the whole text after “together”", () => {
    const hint = 'write `==`; together: `S == "a" && b`';
    expect(fixCandidates('S = "a" and b', wireDiagnostic(hint, 3, 1)).map(({ text }) => text)).toEqual([
      'S == "a" and b',
      'S == "a" && b',
    ]);
  });

  it("gives no fix if it has a placeholder", () => {
    expect(fixCandidates("S", wireDiagnostic('compare it: `S == "…"`', 1, 1))).toEqual([]);
  });

  it("gives no fix without text in backticks", () => {
    expect(fixCandidates("S", wireDiagnostic("leave one of them out", 1, 1))).toEqual([]);
  });

  it("shows invisible characters by name in the label, and keeps them in the text", () => {
    expect(fixCandidates("S", wireDiagnostic("did you mean `T\u202e`?", 1, 1))).toEqual([
      { label: "Replace with T⟨U+202E⟩", text: "T\u202e" },
    ]);
  });

  it("is placed correctly after an emoji", () => {
    expect(fixCandidates('"😀" = S', wireDiagnostic("write `==` to compare", 5, 1))[0]?.text).toBe(
      '"😀" == S',
    );
  });
});

describe("a changed expression is better", () => {
  const checkResult = (errors: number, warnings: number) => ({
    valid: errors === 0,
    errors: Array.from({ length: errors }, () => wireDiagnostic("", 1, 1)),
    warnings: Array.from({ length: warnings }, () => wireDiagnostic("", 1, 1)),
    fields: [],
    predicate: null,
  });
  it("with fewer errors, or with as many errors and fewer warnings", () => {
    expect(isImprovement(checkResult(0, 2), checkResult(1, 0))).toBe(true);
    expect(isImprovement(checkResult(0, 0), checkResult(0, 1))).toBe(true);
    expect(isImprovement(checkResult(1, 0), checkResult(1, 0))).toBe(false);
    expect(isImprovement(checkResult(2, 0), checkResult(1, 3))).toBe(false);
  });
});
