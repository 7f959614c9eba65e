import { entriesOf, textOf } from "./columns";
import type { Trace } from "./model";

/** Tells whether a span matches what is looked for. */
export type Matcher = (span: number) => boolean;

function pattern(text: string): RegExp {
  return new RegExp(text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "iu");
}

function deep(value: unknown): string {
  return typeof value === "object" && value !== null ? JSON.stringify(value) : textOf(value);
}

/** Looks for a text in names, services, ids, status messages, and keys and values of attributes, events and links, whatever its case;
 * `key=value` looks for this key with a value that holds the text. `null` for no text. */
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
  // There are few different keys, and the spans of one resource mostly have the same values.
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
      if (isKey(one) || wanted.test(deep(held))) {
        return true;
      }
      if (key !== "" && one.toLowerCase() === keyWanted && valueWanted.test(deep(held))) {
        return true;
      }
    }
    for (const column of nestedColumns) {
      const held = span[column];
      if (Array.isArray(held) && held.length > 0 && wanted.test(JSON.stringify(held))) {
        return true;
      }
    }
    return false;
  };
}

/** All spans that match; for tests and small traces, since it looks at all in one go. */
export function findAll(trace: Trace, text: string): number[] {
  const matches = matcherOf(trace, text);
  const found: number[] = [];
  for (let span = 0; matches !== null && span < trace.count; span += 1) {
    if (matches(span)) {
      found.push(span);
    }
  }
  return found;
}
