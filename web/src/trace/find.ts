import { LosslessNumber } from "../lib/json";
import { entriesOf, textOf } from "./columns";
import type { Trace } from "./model";

/** Returns whether a span matches the search. */
export type Matcher = (span: number) => boolean;

function pattern(text: string): RegExp {
  return new RegExp(text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "iu");
}

/** Whether a value contains the text, in arrays and maps at any depth. Each string is compared unescaped, unlike in JSON, which
 * escapes quotes and line feeds. The search is iterative, because values may be nested deeply. */
function holds(wanted: RegExp, value: unknown): boolean {
  if (typeof value !== "object" || value === null || value instanceof LosslessNumber) {
    return wanted.test(textOf(value));
  }
  const open: unknown[] = [value];
  while (open.length > 0) {
    const one = open.pop();
    if (typeof one !== "object" || one === null || one instanceof LosslessNumber) {
      if (wanted.test(textOf(one))) {
        return true;
      }
    } else if (Array.isArray(one)) {
      for (const element of one) {
        open.push(element);
      }
    } else {
      for (const [key, held] of Object.entries(one)) {
        if (wanted.test(key)) {
          return true;
        }
        open.push(held);
      }
    }
  }
  return false;
}

/** Searches names, services, ids, status messages, and keys and values of attributes, events and links, ignoring case.
 * `key=value` searches for this key with a value that contains the text. Returns `null` for an empty text. */
export function matcherOf(trace: Trace, text: string): Matcher | null {
  const asked = text.trim();
  if (asked === "") {
    return null;
  }
  const wanted = pattern(asked);
  const { columns } = trace;
  const names = trace.names.map((name) => wanted.test(name));
  const services = trace.services.map(({ name }) => wanted.test(name));
  const maps = [...columns.attributes, ...columns.resource];
  const message = columns.statusMessage;
  // There are few distinct keys, and the spans of a resource mostly have the same values.
  const keys = new Map<string, boolean>();
  const isKey = (key: string) => {
    let found = keys.get(key);
    if (found === undefined) {
      found = wanted.test(key);
      keys.set(key, found);
    }
    return found;
  };
  const [, key = "", value = ""] = /^([^=\s]+)=(.*)$/su.exec(asked) ?? [];
  const keyWanted = key.toLowerCase();
  const valueWanted = pattern(value.trim());
  const nested = [columns.events, columns.links].filter((column) => column !== undefined);
  const nestedColumns = Object.keys(trace.spans[0] ?? {}).filter((column) =>
    nested.some((one) => column === one || column.startsWith(`${one}.`)),
  );

  return (index) => {
    if (names[trace.name[index] ?? 0] === true || services[trace.service[index] ?? 0] === true) {
      return true;
    }
    if (wanted.test(trace.ids[index] ?? "")) {
      return true;
    }
    const span = trace.spans[index] ?? {};
    if (message !== undefined && wanted.test(textOf(span[message]))) {
      return true;
    }
    for (const [one, held] of entriesOf(span, maps)) {
      if (isKey(one) || holds(wanted, held)) {
        return true;
      }
      if (key !== "" && one.toLowerCase() === keyWanted && holds(valueWanted, held)) {
        return true;
      }
    }
    for (const column of nestedColumns) {
      const held = span[column];
      if (Array.isArray(held) && held.length > 0 && holds(wanted, held)) {
        return true;
      }
    }
    return false;
  };
}
