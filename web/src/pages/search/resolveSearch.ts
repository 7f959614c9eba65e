import { errorCondition, toWireFilter, type WireFilter } from "./conditions";
import type { Field } from "./fields";
import { type ParsedTerm, parseConditions } from "./parse";
import { rangeError, type SearchUrl } from "./url";

/** The search in the URL, resolved to the available fields. */
export type ResolvedSearch = {
  readonly parsedConditions: readonly ParsedTerm[];
  /** `null` while the fields are unknown, or if a part is invalid: omitting it would find other traces. */
  readonly filter: WireFilter | null;
  readonly error: string | null;
};

export function resolveSearch(
  url: SearchUrl,
  fields: readonly Field[] | null,
  maxValues: number,
): ResolvedSearch {
  const invalidRange = rangeError(url);
  if (url.where === undefined && url.errors === undefined) {
    return {
      parsedConditions: [],
      filter: invalidRange === null ? { conditions: [] } : null,
      error: invalidRange,
    };
  }
  if (fields === null) {
    return { parsedConditions: [], filter: null, error: null };
  }
  const parsedConditions = parseConditions(url.where ?? "", fields, maxValues);
  const terms = parsedConditions.filter((parsed) => "term" in parsed).map((parsed) => parsed.term);
  const statusCondition = url.errors === true ? errorCondition(fields) : null;
  if (url.errors === true && statusCondition === null) {
    const error = "No searchable field holds the span status. Turn off “Errors only”.";
    return { parsedConditions, filter: null, error };
  }
  return {
    parsedConditions,
    filter:
      terms.length < parsedConditions.length || invalidRange !== null
        ? null
        : toWireFilter(terms, statusCondition === null ? [] : [statusCondition]),
    error: invalidRange,
  };
}
