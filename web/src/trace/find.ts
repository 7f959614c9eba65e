import { LosslessNumber } from "../lib/json";
import { entriesOf, textOf } from "./columns";
import type { Trace } from "./model";

/** Returns whether a span matches the search. */
export type Matcher = (span: number) => boolean;

function textPattern(text: string): RegExp {
  return new RegExp(text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "iu");
}

/** Whether a value contains the text, in arrays and maps at any depth. Each string is compared unescaped, unlike in JSON, which
 * escapes quotes and line feeds. The search is iterative, because values may be nested deeply. */
function containsMatch(pattern: RegExp, value: unknown): boolean {
  if (typeof value !== "object" || value === null || value instanceof LosslessNumber) {
    return pattern.test(textOf(value));
  }
  const pending: unknown[] = [value];
  while (pending.length > 0) {
    const current = pending.pop();
    if (typeof current !== "object" || current === null || current instanceof LosslessNumber) {
      if (pattern.test(textOf(current))) {
        return true;
      }
    } else if (Array.isArray(current)) {
      for (const element of current) {
        pending.push(element);
      }
    } else {
      for (const [key, entryValue] of Object.entries(current)) {
        if (pattern.test(key)) {
          return true;
        }
        pending.push(entryValue);
      }
    }
  }
  return false;
}

/** Searches names, services, ids, status messages, and keys and values of attributes, events and links, ignoring case.
 * `key=value` searches for this key with a value that contains the text. Returns `null` for an empty text. */
export function matcherOf(trace: Trace, text: string): Matcher | null {
  const query = text.trim();
  if (query === "") {
    return null;
  }
  const queryPattern = textPattern(query);
  const { columns } = trace;
  const matchingNames = trace.names.map((name) => queryPattern.test(name));
  const matchingServices = trace.services.map(({ name }) => queryPattern.test(name));
  const maps = [...columns.attributes, ...columns.resource];
  const message = columns.statusMessage;
  // There are few distinct keys, and the spans of a resource mostly have the same values.
  const keys = new Map<string, boolean>();
  const matchesKey = (key: string) => {
    let isMatch = keys.get(key);
    if (isMatch === undefined) {
      isMatch = queryPattern.test(key);
      keys.set(key, isMatch);
    }
    return isMatch;
  };
  const [, key = "", value = ""] = /^([^=\s]+)=(.*)$/su.exec(query) ?? [];
  const wantedKey = key.toLowerCase();
  const valuePattern = textPattern(value.trim());
  const nested = [columns.events, columns.links].filter((column) => column !== undefined);
  const nestedColumns = Object.keys(trace.spans[0] ?? {}).filter((column) =>
    nested.some((name) => column === name || column.startsWith(`${name}.`)),
  );

  return (index) => {
    if (
      matchingNames[trace.name[index] ?? 0] === true ||
      matchingServices[trace.service[index] ?? 0] === true
    ) {
      return true;
    }
    if (queryPattern.test(trace.ids[index] ?? "")) {
      return true;
    }
    const span = trace.spans[index] ?? {};
    if (message !== undefined && queryPattern.test(textOf(span[message]))) {
      return true;
    }
    for (const [entryKey, entryValue] of entriesOf(span, maps)) {
      if (matchesKey(entryKey) || containsMatch(queryPattern, entryValue)) {
        return true;
      }
      if (key !== "" && entryKey.toLowerCase() === wantedKey && containsMatch(valuePattern, entryValue)) {
        return true;
      }
    }
    for (const column of nestedColumns) {
      const entryValue = span[column];
      if (Array.isArray(entryValue) && entryValue.length > 0 && containsMatch(queryPattern, entryValue)) {
        return true;
      }
    }
    return false;
  };
}
