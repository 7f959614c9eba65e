import { describe, expect, it } from "vitest";
import { diagnosticsAt, summary, toDiagnostics } from "./diagnostics";

const wireDiagnostic = { line: 2, column: 3, length: 1, code: "syntax", message: "no" };

describe("diagnostics", () => {
  it("are counted with their positions", () => {
    expect(summary([])).toBe("Valid");
    expect(summary(toDiagnostics({ errors: [wireDiagnostic], warnings: [] }))).toBe("1 error at 2:3");
    expect(summary(toDiagnostics({ errors: [], warnings: [wireDiagnostic, wireDiagnostic] }))).toBe(
      "Valid, 2 warnings at 2:3, 2:3",
    );
  });

  it("have their fixes, errors first", () => {
    const fix = { label: "Replace", text: "x" };
    const diagnostics = toDiagnostics({ errors: [wireDiagnostic], warnings: [wireDiagnostic] }, [[], [fix]]);
    expect(diagnostics.map(({ severity, fixes }) => [severity, fixes.length])).toEqual([
      ["error", 0],
      ["warning", 1],
    ]);
  });

  it("of a rejected save belong to one expression", () => {
    const errors = [
      { pointer: "/policies/0/expression", code: "syntax", detail: "no", line: 2, column: 3, length: 1 },
      { pointer: "/policies/1/expression", code: "syntax", detail: "other", line: 1, column: 1, length: 1 },
    ];
    const problem = {
      type: "",
      title: "",
      detail: "",
      status: 422,
      code: "policy_invalid",
      request_id: "",
      retry: "never" as const,
      errors,
    };
    expect(diagnosticsAt(problem, "/policies/0/expression")).toEqual([wireDiagnostic]);
    expect(diagnosticsAt(undefined, "/policies/0/expression")).toEqual([]);
  });
});
