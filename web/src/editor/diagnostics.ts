import type { Api } from "../api/client";
import type { Fix } from "./fixes";
import type { Place } from "./place";

/** A diagnostic for a part of an expression. Errors prevent saving, warnings do not. */
export type Remark = Place & {
  readonly severity: "error" | "warning";
  readonly message: string;
  readonly hint?: string | undefined;
  readonly fixes: readonly Fix[];
};

/** Converts a validation result to diagnostics, errors first, with their fixes in the same order. */
export function remarksOf(
  { errors, warnings }: Pick<Api["CheckResult"], "errors" | "warnings">,
  fixes: readonly (readonly Fix[])[] = [],
): Remark[] {
  const severe = [
    ...errors.map((remark) => ({ remark, severity: "error" as const })),
    ...warnings.map((remark) => ({ remark, severity: "warning" as const })),
  ];
  return severe.map(({ remark: { line, column, length, message, hint }, severity }, index) => ({
    line,
    column,
    length,
    message,
    hint,
    severity,
    fixes: fixes[index] ?? [],
  }));
}

/** Errors in a rejected body that refer to one expression, such as `/policies/0/expression`. */
export function refusals(error: Api["ProblemDetails"] | undefined, pointer: string): Api["Diagnostic"][] {
  return (error?.errors ?? [])
    .filter((member) => member.pointer === pointer)
    .map(({ line, column, length, code, detail, hint }) => ({
      line: line ?? 1,
      column: column ?? 1,
      length: length ?? 0,
      code,
      message: detail,
      ...(hint === undefined ? {} : { hint }),
    }));
}

/** `Valid`, `1 error at 2:13`, `2 errors, 1 warning`. */
export function summary(remarks: readonly Remark[]): string {
  const counted = (severity: Remark["severity"]) => {
    const found = remarks.filter((remark) => remark.severity === severity);
    const places = found.map(({ line, column }) => `${line}:${column}`).join(", ");
    return found.length === 0
      ? []
      : [`${found.length} ${severity}${found.length === 1 ? "" : "s"} at ${places}`];
  };
  const errors = counted("error");
  return [...(errors.length === 0 ? ["Valid"] : errors), ...counted("warning")].join(", ");
}
