import { type Api, ApiError } from "../../api/client";
import { plainMessage } from "../../lib/messages";
import { visible } from "../../lib/visible";
import { fieldKey } from "./fields";

/** A stored policy that a change would break. */
export type Broken = { role: string; policy: string; reason: string };

/** Errors of a rejected change of fields, by field where possible. */
export type Refusal = {
  byField: ReadonlyMap<string, string[]>;
  broken: Broken[];
  /** Errors without a field. */
  other: string[];
};

const NOTHING: Refusal = { byField: new Map(), broken: [], other: [] };

/** Parses the errors of `PUT /schema/fields`. Their pointers refer to `sent`; `touched` are the changed fields. */
export function refusalOf(
  error: unknown,
  sent: Api["FieldMark"][],
  touched: { key: string; ref: string }[],
): Refusal {
  if (!(error instanceof ApiError)) {
    return NOTHING;
  }
  const byField = new Map<string, string[]>();
  const add = (key: string, text: string) => byField.set(key, [...(byField.get(key) ?? []), text]);
  const [broken, other]: [Broken[], string[]] = [[], []];
  for (const { pointer, detail, hint } of error.problem.errors ?? []) {
    const text = hint === undefined ? detail : `${detail} (${hint})`;
    const mark = sent[Number(/^\/fields\/(\d+)(?:\/|$)/.exec(pointer)?.[1] ?? Number.NaN)];
    const [, role, policy, reason] = /^role `([^`]*)`, policy `([\s\S]*?)`: ([\s\S]*)$/.exec(detail) ?? [];
    if (mark !== undefined) {
      add(fieldKey(mark.map ?? "", mark.name), text);
    } else if (role !== undefined && policy !== undefined && reason !== undefined) {
      broken.push({ role, policy, reason });
      // The reason names the field in policy syntax. If it names none, it belongs to the change as a whole.
      for (const { key, ref } of touched.filter(({ ref }) => mentions(reason, ref))) {
        add(key, `The policy “${policy}” of the role “${role}” needs ${ref} and would break.`);
      }
    } else {
      other.push(text);
    }
  }
  return { byField, broken, other };
}

/** Whether a text mentions a field by its whole name, not as part of a longer one. */
function mentions(text: string, ref: string): boolean {
  for (let at = text.indexOf(ref); at !== -1; at = text.indexOf(ref, at + 1)) {
    const [before = "", after = ""] = [text[at - 1], text[at + ref.length]];
    if (!/[\w.]/.test(before) && !/[\w[]/.test(after)) {
      return true;
    }
  }
  return false;
}

/** Errors of a rejected `PUT /schema/binding` by member, such as `/display/name`. */
export function memberErrors(error: unknown): ReadonlyMap<string, string> {
  const problems = error instanceof ApiError ? (error.problem.errors ?? []) : [];
  return new Map(problems.map(({ pointer, detail }) => [pointer, visible(plainMessage(detail))]));
}
