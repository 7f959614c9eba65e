import { parseInstant } from "../../lib/time";
import { type Column, DEFAULT_COLUMNS, isColumn } from "./columns";
import { addressText } from "./conditions";
import type { Field } from "./fields";
import type { Read } from "./parse";
import { DEFAULT_RANGE, parseLength, type Range } from "./range";
import { isSort, type Sort } from "./sorting";

/** State of the search page in the URL. Defaults are omitted. */
export type SearchUrl = {
  /** Conditions joined by `and`, in the entry's syntax. They are checked when the fields are known. */
  where?: string;
  errors?: true;
  last?: string;
  from?: string;
  to?: string;
  sort?: Sort;
  columns?: string;
  chart?: "off";
};

/** Maximum length. Longer texts are not shared as links, and would slow the page down. */
const MOST = 20_000;

/** Text of a parameter; the router parses numbers as such. */
function text(value: unknown): string | undefined {
  const read = typeof value === "string" ? value : typeof value === "number" ? String(value) : "";
  return read.trim() === "" || read.length > MOST ? undefined : read.trim();
}

/** Parses a URL. Invalid parameters are ignored. */
export function searchOfUrl(search: Record<string, unknown>): SearchUrl {
  const found: SearchUrl = {};
  const where = text(search.where);
  if (where !== undefined) {
    found.where = where;
  }
  if (search.errors === true || search.errors === "true" || search.errors === 1) {
    found.errors = true;
  }
  const [from, to] = [time(search.from), time(search.to)];
  const last = text(search.last);
  if (from !== undefined && to !== undefined && Date.parse(from) < Date.parse(to)) {
    found.from = from;
    found.to = to;
  } else if (last !== undefined && parseLength(last) !== null && last !== DEFAULT_RANGE.text) {
    found.last = last;
  }
  const sort = text(search.sort);
  if (sort !== undefined && isSort(sort) && sort !== "newest") {
    found.sort = sort;
  }
  const columns =
    text(search.columns)
      ?.split(/[\s.,]+/)
      .filter(isColumn) ?? [];
  if (typeof search.columns === "string" && columns.join(".") !== DEFAULT_COLUMNS.join(".")) {
    found.columns = columns.join(".");
  }
  if (search.chart === "off") {
    found.chart = "off";
  }
  return found;
}

function time(value: unknown): string | undefined {
  const read = text(value);
  return read === undefined || parseInstant(read) === null ? undefined : read;
}

export function rangeOf({ from, to, last }: SearchUrl): Range {
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
export function withReads(
  { where: _, ...rest }: SearchUrl,
  reads: readonly Read[],
  fields: readonly Field[],
): SearchUrl {
  const read = reads.filter((one) => "condition" in one).map((one) => one.condition);
  // Invalid parts stay as written until the user removes them.
  const wrong = reads.filter((one) => "problem" in one).map((one) => one.text);
  const where = [addressText(read, fields), ...wrong].filter(Boolean).join(" and ");
  return where === "" ? rest : { ...rest, where };
}

export function columnsOf({ columns }: SearchUrl): readonly Column[] {
  return columns === undefined ? DEFAULT_COLUMNS : columns.split(".").filter(isColumn);
}
