import { parseInstant } from "../../lib/time";
import { omitUndefined, textParam } from "../../lib/urlParams";
import { type Column, DEFAULT_COLUMNS, isColumn } from "./columns";
import { urlText } from "./conditions";
import type { Field } from "./fields";
import { isOrder, type Order } from "./order";
import type { ParsedTerm } from "./parse";
import { DEFAULT_RANGE, parseLength, type Range } from "./range";

/** State of the search page in the URL. Defaults are omitted. */
export type SearchUrl = {
  /** Conditions joined by `and`, in the entry's syntax. They are checked when the fields are known. */
  where?: string;
  errors?: true;
  last?: string;
  from?: string;
  to?: string;
  sort?: Order;
  columns?: string;
  chart?: "off";
  view?: "operations";
};

/** Maximum length. Longer texts are not shared as links, and would slow the page down. */
const MAX_LENGTH = 20_000;

/** Trimmed text of a parameter. */
function trimmedParam(value: unknown): string | undefined {
  const text = textParam(value)?.trim();
  return text === undefined || text.length > MAX_LENGTH ? undefined : text;
}

/** Parses a URL. Invalid parameters are ignored, except for an invalid time range, which is kept and reported: another range
 * would find other traces. */
export function parseSearchUrl(search: Record<string, unknown>): SearchUrl {
  const url: SearchUrl = {};
  const where = trimmedParam(search.where);
  if (where !== undefined) {
    url.where = where;
  }
  if (search.errors === true || search.errors === "true" || search.errors === 1) {
    url.errors = true;
  }
  const [from, to, last] = [search.from, search.to, search.last].map(trimmedParam);
  if (from !== undefined || to !== undefined) {
    Object.assign(url, omitUndefined({ from, to }));
  } else if (last !== undefined && last !== DEFAULT_RANGE.text) {
    url.last = last;
  }
  const sort = trimmedParam(search.sort);
  if (sort !== undefined && isOrder(sort) && sort !== "newest") {
    url.sort = sort;
  }
  const columns =
    trimmedParam(search.columns)
      ?.split(/[\s.,]+/)
      .filter(isColumn) ?? [];
  if (typeof search.columns === "string" && columns.join(".") !== DEFAULT_COLUMNS.join(".")) {
    url.columns = columns.join(".");
  }
  if (search.chart === "off") {
    url.chart = "off";
  }
  if (search.view === "operations") {
    url.view = "operations";
  }
  return url;
}

/** Returns the error of the time range, or `null`. */
export function rangeError({ from, to, last }: SearchUrl): string | null {
  if (from === undefined && to === undefined) {
    return last === undefined || parseLength(last) !== null
      ? null
      : `“${last}” in the link is not a length of time. Use 15m, 6h or 7d, at most 10 years.`;
  }
  if (from === undefined || to === undefined) {
    return `The link has a time range with only ${from === undefined ? "an end" : "a start"}: from and to are needed.`;
  }
  const invalid = [from, to].find((time) => parseInstant(time) === null);
  if (invalid !== undefined) {
    return `“${invalid}” in the link is not a time such as 2026-11-21T09:30:00Z.`;
  }
  return Date.parse(from) < Date.parse(to) ? null : "The time range in the link must end after it starts.";
}

/** The time range; the default if that of the URL is invalid. */
export function rangeOf(url: SearchUrl): Range {
  const { from, to, last } = url;
  if (rangeError(url) !== null) {
    return DEFAULT_RANGE;
  }
  if (from !== undefined && to !== undefined) {
    return { kind: "absolute", from, to };
  }
  return last === undefined ? DEFAULT_RANGE : { kind: "last", text: last };
}

/** The URL parameters with another range. */
export function withRange(
  { from: _from, to: _to, last: _last, ...rest }: SearchUrl,
  range: Range,
): SearchUrl {
  return range.kind === "absolute"
    ? { ...rest, from: range.from, to: range.to }
    : { ...rest, ...(range.text === DEFAULT_RANGE.text ? {} : { last: range.text }) };
}

/** The URL parameters with other conditions. */
export function withConditions(
  { where: _, ...rest }: SearchUrl,
  conditions: readonly ParsedTerm[],
  fields: readonly Field[],
): SearchUrl {
  const valid = conditions.filter((condition) => "term" in condition).map((condition) => condition.term);
  // Invalid parts stay as written until the user removes them.
  const invalidTexts = conditions
    .filter((condition) => "error" in condition)
    .map((condition) => condition.text);
  const where = [urlText(valid, fields), ...invalidTexts].filter(Boolean).join(" and ");
  return where === "" ? rest : { ...rest, where };
}

export function columnsOf({ columns }: SearchUrl): readonly Column[] {
  return columns === undefined ? DEFAULT_COLUMNS : columns.split(".").filter(isColumn);
}
