import { parseDuration } from "../../lib/duration";
import { LosslessNumber } from "../../lib/json";
import type { Condition, Value } from "./conditions";
import { operatorsOf } from "./conditions";
import { type Field, fieldsLike, isDuration, spellings } from "./fields";
import { OPERATORS, type Operator } from "./operators";

/** Parsing state at the end of a text: `start` is the offset of the last condition, `typed` is its incomplete part. */
export type Stage =
  | { readonly at: "field"; readonly start: number; readonly typed: string }
  | { readonly at: "operator"; readonly start: number; readonly field: Field; readonly typed: string }
  | {
      readonly at: "value";
      readonly start: number;
      readonly field: Field;
      readonly operator: Operator;
      readonly values: readonly string[];
      readonly typed: string;
    };

/** A condition of a text, or the error in that part of the text. */
export type Read =
  | { readonly condition: Condition; readonly text: string }
  | { readonly problem: string; readonly text: string };

const KINDS = {
  string: "text",
  string_array: "a list of text",
  boolean: "true or false",
  number: "a number",
};

/** A text with a read position. */
class Reader {
  at = 0;
  constructor(readonly text: string) {}

  get rest(): string {
    return this.text.slice(this.at);
  }

  get done(): boolean {
    return this.at >= this.text.length;
  }

  space(): boolean {
    const [space] = /^\s*/.exec(this.rest) ?? [""];
    this.at += space.length;
    return space.length > 0;
  }

  take(pattern: RegExp): string | null {
    const [found] = pattern.exec(this.rest) ?? [];
    if (found === undefined) {
      return null;
    }
    this.at += found.length;
    return found;
  }
}

/** Reads a field: the longest spelling that ends at the end of a name. */
function readField(reader: Reader, names: Map<string, Field>): Field | null {
  const rest = reader.rest;
  const lower = rest.toLowerCase();
  let best: [number, Field] | null = null;
  for (const [spelling, field] of names) {
    const after = rest.charAt(spelling.length);
    if (
      (rest.startsWith(spelling) || lower.startsWith(spelling)) &&
      /^[\s=!<>≠≥≤^]?$/.test(after) &&
      spelling.length > (best?.[0] ?? 0)
    ) {
      best = [spelling.length, field];
    }
  }
  if (best === null) {
    return null;
  }
  reader.at += best[0];
  return best[1];
}

function readOperator(reader: Reader): Operator | null {
  const lower = reader.rest.toLowerCase();
  let best: [number, Operator] | null = null;
  for (const operator of OPERATORS) {
    for (const word of operator.words) {
      const ends = /\w$/.test(word) ? /^[\s"'([]?$/.test(lower.charAt(word.length)) : true;
      if (lower.startsWith(word) && ends && word.length > (best?.[0] ?? 0)) {
        best = [word.length, operator];
      }
    }
  }
  if (best === null) {
    return null;
  }
  reader.at += best[0];
  return best[1];
}

const ESCAPES: Record<string, string> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f" };

/** Reads quoted text; `closed` is whether its end was found. */
function readQuoted(reader: Reader): { text: string; closed: boolean } {
  const quote = reader.text.charAt(reader.at);
  let text = "";
  for (reader.at += 1; !reader.done; reader.at += 1) {
    const character = reader.text.charAt(reader.at);
    if (character === quote) {
      reader.at += 1;
      return { text, closed: true };
    }
    if (character !== "\\") {
      text += character;
      continue;
    }
    reader.at += 1;
    const escaped = reader.text.charAt(reader.at);
    const [code] = escaped === "u" ? (/^[0-9a-f]{4}/i.exec(reader.text.slice(reader.at + 1)) ?? []) : [];
    if (code === undefined) {
      text += ESCAPES[escaped] ?? escaped;
    } else {
      text += String.fromCharCode(Number.parseInt(code, 16));
      reader.at += 4;
    }
  }
  return { text, closed: false };
}

const AND = /^\s+(?:and|&&)\s+/i;

/** Values of a condition, and whether more may follow. */
type Values = { values: string[]; typed: string; open: boolean; unclosed: boolean };

function readValues(reader: Reader, operator: Operator): Values {
  const found: Values = { values: [], typed: "", open: true, unclosed: false };
  if (operator.arity === "none") {
    return { ...found, open: false };
  }
  const many = operator.arity !== "one";
  const bracket = many ? reader.take(/^\s*[([]\s*/) : null;
  const stop = bracket === null ? "" : ")\\]";
  for (;;) {
    reader.space();
    const start = reader.rest.charAt(0);
    if (start === '"' || start === "'") {
      const { text, closed } = readQuoted(reader);
      if (!closed) {
        return { ...found, typed: text, unclosed: true };
      }
      found.values.push(text);
      found.open = false;
    } else {
      // Unquoted text continues to the next separator, closing bracket or condition.
      const bare =
        reader.take(new RegExp(`^(?:(?!\\s+(?:and|&&)\\s)[^${many ? "," : ""}${stop}])*`, "i")) ?? "";
      const text = bare.trim();
      found.typed = text;
      if (text !== "") {
        found.values.push(text);
        found.open = reader.done;
      } else if (found.values.length > 0) {
        found.open = true;
      }
    }
    const between = operator.arity === "two" && found.values.length === 1;
    if (many && reader.take(/^\s*,/) !== null) {
      found.open = true;
      found.typed = "";
    } else if (between && reader.take(AND) !== null) {
      found.typed = "";
    } else {
      break;
    }
  }
  if (bracket !== null) {
    reader.take(/^\s*[)\]]/);
  }
  return found;
}

/** Returns the parsing state at the end of the entry's text. Of several conditions, the last one counts. */
export function stageOf(text: string, fields: readonly Field[]): Stage {
  const names = spellings(fields);
  const reader = new Reader(text);
  for (;;) {
    reader.space();
    const start = reader.at;
    const field = readField(reader, names);
    // A name is only complete when another character follows, because a longer name may be intended.
    if (field === null || reader.done) {
      return { at: "field", start, typed: text.slice(start) };
    }
    reader.space();
    const afterField = reader.at;
    const operator = readOperator(reader);
    if (operator === null || (reader.done && /\w$/.test(text))) {
      return { at: "operator", start, field, typed: text.slice(afterField) };
    }
    const read = readValues(reader, operator);
    if (reader.take(AND) !== null) {
      continue;
    }
    const { values, typed, open, unclosed } = read;
    const settled = open && !unclosed && typed !== "" ? values.slice(0, -1) : values;
    return { at: "value", start, field, operator, values: settled, typed: open ? typed : "" };
  }
}

/** Parses conditions joined by `and`. Each error comes with the text that contains it. */
export function readConditions(text: string, fields: readonly Field[], maxValues: number): Read[] {
  const names = spellings(fields);
  const reader = new Reader(text);
  const found: Read[] = [];
  reader.space();
  while (!reader.done) {
    const start = reader.at;
    const read = readCondition(reader, names, fields, maxValues);
    if (typeof read === "string") {
      // The start of the next condition is a guess, but no text is dropped silently.
      reader.take(/^(?:(?!\s(?:and|&&)\s)[\s\S])*/i);
    } else if (!reader.done && !AND.test(reader.rest) && reader.rest.trim() !== "") {
      const over = reader.rest.trim();
      reader.at = text.length;
      found.push({
        problem: `“${cut(over)}” is left over. Put a value that has spaces or quotes in quotes, and “and” between conditions.`,
        text: text.slice(start).trim(),
      });
      break;
    }
    const own = text.slice(start, reader.at).trim();
    found.push(typeof read === "string" ? { problem: read, text: own } : { condition: read, text: own });
    reader.take(AND);
    reader.space();
  }
  return found;
}

const cut = (text: string) => (text.length > 60 ? `${text.slice(0, 60)}…` : text);

function readCondition(
  reader: Reader,
  names: Map<string, Field>,
  fields: readonly Field[],
  maxValues: number,
): Condition | string {
  const field = readField(reader, names);
  if (field === null) {
    const [typed = ""] = /^[^\s=!<>^≠≥≤]+/.exec(reader.rest) ?? [];
    const near = nearest(typed, fields);
    return typed === ""
      ? "Begin with the name of a field."
      : `“${cut(typed)}” is not a searchable field.${near.length === 0 ? " Choose one of the list." : ` Did you mean ${near.join(" or ")}?`}`;
  }
  reader.space();
  const choice = operatorsOf(field)
    .map((one) => one.label)
    .join(", ");
  const operator = readOperator(reader);
  if (operator === null) {
    const typed = reader.rest.trim();
    return typed === ""
      ? `Say how to compare ${field.ref}: ${choice}.`
      : `“${cut(typed)}” does not begin with an operator. ${field.ref} is ${KINDS[field.type]}: ${choice}.`;
  }
  if (!field.operators.includes(operator.name)) {
    return `“${operator.label}” does not fit ${field.ref}, which is ${KINDS[field.type]}. Use ${choice}.`;
  }
  const { values, unclosed } = readValues(reader, operator);
  if (unclosed) {
    return "The closing quote is missing.";
  }
  if (operator.arity === "two" && values.length !== 2) {
    return `“between” takes two numbers: ${field.ref} between 1, 10.`;
  }
  if (operator.arity !== "none" && values.length === 0) {
    return `Type a value after “${operator.label}”. Empty text is "".`;
  }
  if (values.length > maxValues) {
    return `${values.length} values are more than the ${maxValues} that a condition may have.`;
  }
  const typed: Value[] = [];
  for (const value of values) {
    const one = typedValue(value, field);
    if (one === null) {
      return field.type === "boolean"
        ? `${field.ref} is true or false, not “${cut(value)}”.`
        : `${field.ref} is a number, and “${cut(value)}” is none.`;
    }
    typed.push(one);
  }
  return { field, operator, values: typed };
}

/** Converts text to a value of a field, or returns `null` if it is invalid. */
export function typedValue(text: string, field: Field): Value | null {
  if (field.type === "boolean") {
    const lower = text.toLowerCase();
    return lower === "true" ? true : lower === "false" ? false : null;
  }
  if (field.type !== "number") {
    return text;
  }
  if (/^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(text)) {
    const value = Number(text);
    const digits = text.replace(/e.*$/i, "").replace(/\D/g, "").replace(/^0+/, "");
    // A double represents every number of 15 digits exactly, and somewhat larger integers.
    if (digits.length > 15 && !(/^[+-]?\d+$/.test(text) && Number.isSafeInteger(value))) {
      return new LosslessNumber(
        text
          .replace(/^\+/, "")
          .replace(/^(-?)0+(?=\d)/, "$1")
          .replace(/^(-?)\./, (_, sign: string) => `${sign}0.`)
          .replace(/\.(?=e|$)/i, ""),
      );
    }
    return Number.isFinite(value) ? value : null;
  }
  return isDuration(field) ? parseDuration(text) : null;
}

function nearest(typed: string, fields: readonly Field[]): string[] {
  const like = fieldsLike(typed, fields);
  const lower = typed.toLowerCase();
  const parts = lower.split(/[^a-z0-9]+/).filter((part) => part.length > 2);
  const near = fields.filter((field) => parts.some((part) => field.ref.toLowerCase().includes(part)));
  return (like.length > 0 ? like : near).slice(0, 3).map((field) => field.ref);
}
