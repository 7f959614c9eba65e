import { describe, expect, it } from "vitest";
import { fixCandidates, isImprovement, underlinedName } from "./fixes";

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

  it("gives no fix for an unmarked field if it only lists other fields", () => {
    const unmarked = (hint: string) => ({ ...wireDiagnostic(hint, 1, 1), code: "unmarked_field" });
    const list = "policies can name `A`, `B` and 3 more; an administrator can mark it with `policy`";
    expect(fixCandidates("S", unmarked(list))).toEqual([]);
    expect(fixCandidates("S", unmarked("did you mean `T`?"))).toHaveLength(1);
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

it.each([
  ['SpanAttributes["region"] == "eu"', 24, "region"],
  ["Regoin == 1", 6, "Regoin"],
  ["", 0, null],
])("the underlined name of %s", (text, length, name) => {
  expect(underlinedName(text, wireDiagnostic("", 1, length))).toBe(name);
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
