import type { Api } from "../api/client";
import type { Fix } from "./fixes";
import type { SourcePosition } from "./position";

/** A diagnostic for a part of an expression. Errors prevent saving, warnings do not. */
export type Diagnostic = SourcePosition & {
  readonly code: string;
  readonly severity: "error" | "warning";
  readonly message: string;
  readonly hint?: string | undefined;
  readonly fixes: readonly Fix[];
};

/** Converts a validation result to diagnostics, errors first, with their fixes in the same order. */
export function toDiagnostics(
  { errors, warnings }: Pick<Api["CheckResult"], "errors" | "warnings">,
  fixes: readonly (readonly Fix[])[] = [],
): Diagnostic[] {
  const withSeverity = [
    ...errors.map((diagnostic) => ({ diagnostic, severity: "error" as const })),
    ...warnings.map((diagnostic) => ({ diagnostic, severity: "warning" as const })),
  ];
  return withSeverity.map(
    ({ diagnostic: { line, column, length, code, message, hint }, severity }, index) => ({
      line,
      column,
      length,
      code,
      message,
      hint,
      severity,
      fixes: fixes[index] ?? [],
    }),
  );
}

/** Errors in a rejected body that refer to one expression, such as `/policies/0/expression`. */
export function diagnosticsAt(
  error: Api["ProblemDetails"] | undefined,
  pointer: string,
): Api["Diagnostic"][] {
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
export function summary(diagnostics: readonly Diagnostic[]): string {
  const countText = (severity: Diagnostic["severity"]) => {
    const matches = diagnostics.filter((diagnostic) => diagnostic.severity === severity);
    const positions = matches.map(({ line, column }) => `${line}:${column}`).join(", ");
    return matches.length === 0
      ? []
      : [`${matches.length} ${severity}${matches.length === 1 ? "" : "s"} at ${positions}`];
  };
  const errors = countText("error");
  return [...(errors.length === 0 ? ["Valid"] : errors), ...countText("warning")].join(", ");
}
