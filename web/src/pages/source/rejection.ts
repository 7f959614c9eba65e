import { type Api, ApiError } from "../../api/client";
import { plainMessage } from "../../lib/messages";
import { fieldKey } from "./fields";

/** A stored policy that a change would break. */
export type BrokenPolicy = { role: string; policy: string; reason: string };

/** Errors of a rejected change of fields, by field where possible. */
export type Rejection = {
  byField: ReadonlyMap<string, string[]>;
  brokenPolicies: BrokenPolicy[];
  /** Errors without a field. */
  otherErrors: string[];
};

const NO_ERRORS: Rejection = { byField: new Map(), brokenPolicies: [], otherErrors: [] };

/** Parses the errors of `PUT /schema/fields`. Their pointers refer to `sentMarks`. */
export function parseRejection(
  error: unknown,
  sentMarks: Api["FieldMark"][],
  changedFields: { key: string; ref: string }[],
): Rejection {
  if (!(error instanceof ApiError)) {
    return NO_ERRORS;
  }
  const byField = new Map<string, string[]>();
  const add = (key: string, text: string) => byField.set(key, [...(byField.get(key) ?? []), text]);
  const [brokenPolicies, otherErrors]: [BrokenPolicy[], string[]] = [[], []];
  for (const { pointer, detail, hint } of error.problem.errors ?? []) {
    const text = hint === undefined ? detail : `${detail} (${hint})`;
    const mark = sentMarks[Number(/^\/fields\/(\d+)(?:\/|$)/.exec(pointer)?.[1] ?? Number.NaN)];
    const [, role, policy, reason] = /^role `([^`]*)`, policy `([\s\S]*?)`: ([\s\S]*)$/.exec(detail) ?? [];
    if (mark !== undefined) {
      add(fieldKey(mark.map ?? "", mark.name), text);
    } else if (role !== undefined && policy !== undefined && reason !== undefined) {
      brokenPolicies.push({ role, policy, reason });
      // The reason names the field in policy syntax. If it names none, it belongs to the change as a whole.
      for (const { key, ref } of changedFields.filter(({ ref }) => mentions(reason, ref))) {
        add(key, `The policy “${policy}” of the role “${role}” needs ${ref} and would break.`);
      }
    } else {
      otherErrors.push(text);
    }
  }
  return { byField, brokenPolicies, otherErrors };
}

/** Whether a text mentions a field by its whole name, not as part of a longer one. */
function mentions(text: string, ref: string): boolean {
  for (let index = text.indexOf(ref); index !== -1; index = text.indexOf(ref, index + 1)) {
    const [before = "", after = ""] = [text[index - 1], text[index + ref.length]];
    if (!/[\w.]/.test(before) && !/[\w[]/.test(after)) {
      return true;
    }
  }
  return false;
}

/** Errors of a rejected `PUT /schema/binding` by member, such as `/display/name`. */
export function memberErrors(error: unknown): ReadonlyMap<string, string> {
  const problems = error instanceof ApiError ? (error.problem.errors ?? []) : [];
  return new Map(problems.map(({ pointer, detail }) => [pointer, plainMessage(detail)]));
}
