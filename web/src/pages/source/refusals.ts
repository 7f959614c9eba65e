import { type Api, ApiError } from "../../api/client";
import { visible } from "../../lib/visible";
import { fieldKey } from "./fields";

/** A stored policy that a change would break. */
export type Broken = { role: string; policy: string; reason: string };

/** What the service refused of a change of fields, by field where that can be told. */
export type Refusal = {
  byField: ReadonlyMap<string, string[]>;
  broken: Broken[];
  /** What belongs to no field. */
  other: string[];
};

const NOTHING: Refusal = { byField: new Map(), broken: [], other: [] };

/** Reads a refusal of `PUT /schema/fields`. `sent` are the marks that it points into, `touched` the fields that differ. */
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
      // The reason names the field as policies do; what is not named belongs to the change as a whole.
      for (const { key, ref } of touched.filter(({ ref }) => mentions(reason, ref))) {
        add(key, `The policy “${policy}” of the role “${role}” needs ${ref} and would break.`);
      }
    } else {
      other.push(text);
    }
  }
  return { byField, broken, other };
}

/** Whether a text is about a field: its name as a whole, not as a part of a longer one. */
function mentions(text: string, ref: string): boolean {
  for (let at = text.indexOf(ref); at !== -1; at = text.indexOf(ref, at + 1)) {
    const [before = "", after = ""] = [text[at - 1], text[at + ref.length]];
    if (!/[\w.]/.test(before) && !/[\w[]/.test(after)) {
      return true;
    }
  }
  return false;
}

/** What a refusal of `PUT /schema/binding` says of one member, such as `/display/name`. */
export function memberErrors(error: unknown): ReadonlyMap<string, string> {
  const problems = error instanceof ApiError ? (error.problem.errors ?? []) : [];
  return new Map(problems.map(({ pointer, detail }) => [pointer, visible(detail)]));
}
