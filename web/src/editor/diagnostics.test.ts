import { describe, expect, it } from "vitest";
import { refusals, remarksOf, summary } from "./remarks";

const remark = { line: 2, column: 3, length: 1, code: "syntax", message: "no" };

describe("diagnostics", () => {
  it("are counted with their positions", () => {
    expect(summary([])).toBe("Valid");
    expect(summary(remarksOf({ errors: [remark], warnings: [] }))).toBe("1 error at 2:3");
    expect(summary(remarksOf({ errors: [], warnings: [remark, remark] }))).toBe(
      "Valid, 2 warnings at 2:3, 2:3",
    );
  });

  it("have their fixes, errors first", () => {
    const fix = { label: "Replace", text: "x" };
    const found = remarksOf({ errors: [remark], warnings: [remark] }, [[], [fix]]);
    expect(found.map(({ severity, fixes }) => [severity, fixes.length])).toEqual([
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
    expect(refusals(problem, "/policies/0/expression")).toEqual([remark]);
    expect(refusals(undefined, "/policies/0/expression")).toEqual([]);
  });
});
