import { errorCondition, toWire, type WireCondition } from "./conditions";
import type { Field } from "./fields";
import { type ParsedCondition, parseConditions } from "./parse";
import { rangeError, type SearchUrl } from "./url";

/** The search in the URL, resolved to the available fields. */
export type ResolvedSearch = {
  readonly parsedConditions: readonly ParsedCondition[];
  /** `null` while the fields are unknown, or if a part is invalid: omitting it would find other traces. */
  readonly conditions: readonly WireCondition[] | null;
  readonly error: string | null;
};

export function resolveSearch(
  url: SearchUrl,
  fields: readonly Field[] | null,
  maxValues: number,
): ResolvedSearch {
  const invalidRange = rangeError(url);
  if (url.where === undefined && url.errors === undefined) {
    return { parsedConditions: [], conditions: invalidRange === null ? [] : null, error: invalidRange };
  }
  if (fields === null) {
    return { parsedConditions: [], conditions: null, error: null };
  }
  const parsedConditions = parseConditions(url.where ?? "", fields, maxValues);
  const conditions = parsedConditions
    .filter((parsed) => "condition" in parsed)
    .map((parsed) => toWire(parsed.condition));
  const statusCondition = url.errors === true ? errorCondition(fields) : null;
  if (url.errors === true && statusCondition === null) {
    const error = "No searchable field holds the span status. Turn off “Errors only”.";
    return { parsedConditions, conditions: null, error };
  }
  return {
    parsedConditions,
    conditions:
      conditions.length < parsedConditions.length || invalidRange !== null
        ? null
        : statusCondition === null
          ? conditions
          : [...conditions, statusCondition],
    error: invalidRange,
  };
}
