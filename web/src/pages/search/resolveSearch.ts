import { toWire, type WireCondition } from "./conditions";
import { errorsOnly, type Field } from "./fields";
import { type Read, readConditions } from "./parse";
import type { SearchUrl } from "./url";

/** The search in the URL, resolved to the available fields. */
export type Asked = {
  readonly reads: readonly Read[];
  /** `null` while the fields are unknown, or if a part is invalid: omitting it would find other traces. */
  readonly conditions: readonly WireCondition[] | null;
  readonly problem: string | null;
};

export function askedOf(url: SearchUrl, fields: readonly Field[] | null, maxValues: number): Asked {
  if (url.where === undefined && url.errors === undefined) {
    return { reads: [], conditions: [], problem: null };
  }
  if (fields === null) {
    return { reads: [], conditions: null, problem: null };
  }
  const reads = readConditions(url.where ?? "", fields, maxValues);
  const conditions = reads.filter((read) => "condition" in read).map((read) => toWire(read.condition));
  const errors = url.errors === true ? errorsOnly(fields) : null;
  if (url.errors === true && errors === null) {
    const problem = "No field that you may search holds the status of spans. Switch “Errors only” off.";
    return { reads, conditions: null, problem };
  }
  return {
    reads,
    conditions:
      conditions.length < reads.length ? null : errors === null ? conditions : [...conditions, errors],
    problem: null,
  };
}
