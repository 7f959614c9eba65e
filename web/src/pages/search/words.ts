import type { Field } from "./fields";
import { spellings } from "./fields";
import type { Stage } from "./parse";

const TRACE_IDS = [
  // Hexadecimal, with or without the dashes of a UUID; 16 digits are an id of 64 bits.
  /^([0-9a-f]{32}|[0-9a-f]{16}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i,
  // For tables that store ids in Base64.
  /^([A-Za-z0-9+/]{22}==)$/,
  /^(?:traceparent:\s*)?[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/i,
  /^https?:\/\/\S+\/trace\/([^/?#\s]+)/,
];

/** The trace id in a pasted text: 16 or 32 hexadecimal digits, a UUID or Base64; also in a `traceparent` or in a link to a trace. */
export function pastedTraceId(text: string): string | null {
  for (const pattern of TRACE_IDS) {
    const [, id] = pattern.exec(text.trim()) ?? [];
    if (id !== undefined) {
      try {
        return decodeURIComponent(id);
      } catch {
        return null;
      }
    }
  }
  return null;
}

/** The word that is typed instead of a condition, or `null` if there is none. */
export function typedWord({ kind, partial }: Stage): string | null {
  const word = partial.trim();
  return kind === "field" && /^[^=!<>≠≥≤^"'()[\]]{2,100}$/.test(word) && pastedTraceId(word) === null
    ? word
    : null;
}

const isText = (field: Field | undefined): field is Field =>
  field?.type === "string" && field.operators.includes("eq");

/** The fields in which a word is looked up first: those of service, operation and status, if they can be searched. */
export function wordFields(fields: readonly Field[]): Field[] {
  const names = spellings(fields);
  return ["service", "operation", "status"].map((name) => names.get(name)).filter(isText);
}

/** Field names that identify the caller, most useful first. */
const CALLER_NAMES = [
  /tenant/i,
  /customer/i,
  /organi[sz]ation|(^|[._-])org([._-]|$)/i,
  /(^|[._-])user(?!_agent)([._-]|$)/i,
  /(^|[._-])team([._-]|$)/i,
];
/** Each is another query. */
const MAX_CALLER_FIELDS = 3;

/** The fields in which a word is looked up if no value of {@link wordFields} equals it. */
export function callerFields(fields: readonly Field[]): Field[] {
  const first = wordFields(fields);
  const rank = (field: Field) => CALLER_NAMES.findIndex((name) => name.test(field.name));
  return fields
    .filter((field) => isText(field) && rank(field) >= 0 && !first.includes(field))
    .sort((a, b) => rank(a) - rank(b))
    .slice(0, MAX_CALLER_FIELDS);
}
