import { parseDuration } from "../../lib/duration";
import { LosslessNumber } from "../../lib/json";
import { truncate } from "../../lib/sanitize";
import { type Condition, type FilterTerm, operatorsOf, type Value } from "./conditions";
import { type Field, isDuration, matchingFields, spellings } from "./fields";
import { OPERATORS, type Operator } from "./operators";

/** Parsing state at the end of a text: `start` is the offset of the last condition, `partial` is its incomplete part.
 * `isInGroup`: the condition is inside an open bracket. `isClosed`: the text ends with the closing bracket. */
export type Stage = {
  readonly start: number;
  readonly partial: string;
  readonly isInGroup: boolean;
  readonly isClosed?: boolean;
} & (
  | { readonly kind: "field" }
  | { readonly kind: "operator"; readonly field: Field }
  | {
      readonly kind: "value";
      readonly field: Field;
      readonly operator: Operator;
      readonly values: readonly string[];
    }
);

/** A term of a text, or the error in it: `name = value`, `not name = value`, or `(a = 1 and b = 2)` for one span. */
export type ParsedTerm =
  | { readonly term: FilterTerm; readonly text: string }
  | { readonly error: string; readonly text: string };

const TYPE_NAMES = {
  string: "text",
  string_array: "a list of text",
  boolean: "true or false",
  number: "a number",
};

/** A text with a read position. */
class Scanner {
  offset = 0;
  constructor(readonly text: string) {}

  get rest(): string {
    return this.text.slice(this.offset);
  }

  get done(): boolean {
    return this.offset >= this.text.length;
  }

  skipSpace(): boolean {
    const [skipSpace] = /^\s*/.exec(this.rest) ?? [""];
    this.offset += skipSpace.length;
    return skipSpace.length > 0;
  }

  match(pattern: RegExp): string | null {
    const [matched] = pattern.exec(this.rest) ?? [];
    if (matched === undefined) {
      return null;
    }
    this.offset += matched.length;
    return matched;
  }
}

/** Reads a field: the longest spelling that ends at the end of a name. */
function scanField(scanner: Scanner, names: Map<string, Field>): Field | null {
  const rest = scanner.rest;
  const lower = rest.toLowerCase();
  let best: [number, Field] | null = null;
  for (const [spelling, field] of names) {
    const next = rest.charAt(spelling.length);
    if (
      (rest.startsWith(spelling) || lower.startsWith(spelling)) &&
      /^[\s=!<>≠≥≤^]?$/.test(next) &&
      spelling.length > (best?.[0] ?? 0)
    ) {
      best = [spelling.length, field];
    }
  }
  if (best === null) {
    return null;
  }
  scanner.offset += best[0];
  return best[1];
}

/** Reads the word before a condition that no span may satisfy. A field may begin with the same word. */
function scanExclusion(scanner: Scanner, names: Map<string, Field>): boolean {
  const ahead = new Scanner(scanner.rest);
  const field = scanField(ahead, names);
  ahead.skipSpace();
  const isField = field !== null && scanOperator(ahead) !== null;
  return !isField && scanner.match(/^not\s+/i) !== null;
}

function scanOperator(scanner: Scanner): Operator | null {
  const lower = scanner.rest.toLowerCase();
  let best: [number, Operator] | null = null;
  for (const operator of OPERATORS) {
    for (const word of operator.spellings) {
      const ends = /\w$/.test(word) ? /^[\s"'([)]?$/.test(lower.charAt(word.length)) : true;
      if (lower.startsWith(word) && ends && word.length > (best?.[0] ?? 0)) {
        best = [word.length, operator];
      }
    }
  }
  if (best === null) {
    return null;
  }
  scanner.offset += best[0];
  return best[1];
}

const ESCAPES: Record<string, string> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f" };

/** Reads quoted text; `closed` is whether its end was found. */
function scanQuoted(scanner: Scanner): { text: string; closed: boolean } {
  const quote = scanner.text.charAt(scanner.offset);
  let text = "";
  for (scanner.offset += 1; !scanner.done; scanner.offset += 1) {
    const character = scanner.text.charAt(scanner.offset);
    if (character === quote) {
      scanner.offset += 1;
      return { text, closed: true };
    }
    if (character !== "\\") {
      text += character;
      continue;
    }
    scanner.offset += 1;
    const escaped = scanner.text.charAt(scanner.offset);
    const [code] =
      escaped === "u" ? (/^[0-9a-f]{4}/i.exec(scanner.text.slice(scanner.offset + 1)) ?? []) : [];
    if (code === undefined) {
      text += ESCAPES[escaped] ?? escaped;
    } else {
      text += String.fromCharCode(Number.parseInt(code, 16));
      scanner.offset += 4;
    }
  }
  return { text, closed: false };
}

const CONJUNCTION = /^\s+(?:and|&&)\s+/i;

/** Values of a condition, and whether more may follow. */
type ScannedValues = {
  values: string[];
  partial: string;
  isOpen: boolean;
  /** Whether a closing quote is missing. */
  isUnclosed: boolean;
  /** Whether an unquoted value has a bracket without its counterpart, which may be one of a group. */
  isUnbalanced: boolean;
};

function scanValues(scanner: Scanner, operator: Operator, isInGroup: boolean): ScannedValues {
  const result: ScannedValues = {
    values: [],
    partial: "",
    isOpen: true,
    isUnclosed: false,
    isUnbalanced: false,
  };
  if (operator.arity === "none") {
    return { ...result, isOpen: false };
  }
  const takesMany = operator.arity !== "one";
  const bracket = takesMany ? scanner.match(/^\s*[([]\s*/) : null;
  const closingBrackets = bracket === null ? (isInGroup ? ")" : "") : ")\\]";
  for (;;) {
    scanner.skipSpace();
    const firstCharacter = scanner.rest.charAt(0);
    if (firstCharacter === '"' || firstCharacter === "'") {
      const { text, closed } = scanQuoted(scanner);
      if (!closed) {
        return { ...result, partial: text, isUnclosed: true };
      }
      result.values.push(text);
      result.isOpen = false;
    } else {
      // Unquoted text continues to the next separator, closing bracket or condition.
      const unquoted =
        scanner.match(
          new RegExp(
            `^(?:(?!\\s+(?:and|&&)\\s)(?:\\([^()]*\\)|[^${takesMany ? "," : ""}${closingBrackets}]))*`,
            "i",
          ),
        ) ?? "";
      const text = unquoted.trim();
      result.partial = text;
      result.isUnbalanced ||= text.split("(").length !== text.split(")").length;
      if (text !== "") {
        result.values.push(text);
        result.isOpen = scanner.done;
      } else if (result.values.length > 0) {
        result.isOpen = true;
      }
    }
    const expectsAnd = operator.arity === "two" && result.values.length === 1;
    if (takesMany && scanner.match(/^\s*,/) !== null) {
      result.isOpen = true;
      result.partial = "";
    } else if (expectsAnd && scanner.match(CONJUNCTION) !== null) {
      result.partial = "";
    } else {
      break;
    }
  }
  if (bracket !== null) {
    scanner.match(/^\s*[)\]]/);
  }
  return result;
}

/** Returns the parsing state at the end of the entry's text. Of several conditions, the last one counts. */
export function stageOf(text: string, fields: readonly Field[]): Stage {
  const names = spellings(fields);
  const scanner = new Scanner(text);
  let isInGroup = false;
  for (;;) {
    scanner.skipSpace();
    if (!isInGroup && !scanExclusion(scanner, names)) {
      isInGroup = scanner.match(/^\(\s*/) !== null;
    }
    const start = scanner.offset;
    const field = scanField(scanner, names);
    // A name is only complete when another character follows, because a longer name may be intended.
    if (field === null || scanner.done) {
      return { kind: "field", start, isInGroup, partial: text.slice(start) };
    }
    scanner.skipSpace();
    const afterField = scanner.offset;
    const operator = scanOperator(scanner);
    if (operator === null || (scanner.done && /\w$/.test(text))) {
      return { kind: "operator", start, isInGroup, field, partial: text.slice(afterField) };
    }
    const scanned = scanValues(scanner, operator, isInGroup);
    const isClosed: boolean = isInGroup && scanner.match(/^\s*\)/) !== null;
    isInGroup &&= !isClosed;
    if (scanner.match(CONJUNCTION) !== null) {
      continue;
    }
    const { values, partial, isOpen, isUnclosed } = scanned;
    const completeValues = isOpen && !isUnclosed && partial !== "" ? values.slice(0, -1) : values;
    return {
      kind: "value",
      start,
      isInGroup,
      isClosed,
      field,
      operator,
      values: completeValues,
      partial: isOpen ? partial : "",
    };
  }
}

/** Parses terms joined by `and`. Each error comes with the text that contains it. */
export function parseConditions(text: string, fields: readonly Field[], maxValues: number): ParsedTerm[] {
  const names = spellings(fields);
  const scanner = new Scanner(text);
  const result: ParsedTerm[] = [];
  scanner.skipSpace();
  while (!scanner.done) {
    const start = scanner.offset;
    const term = scanTerm(scanner, names, fields, maxValues);
    if (typeof term === "string") {
      // The start of the next condition is a guess, but no text is dropped silently.
      scanner.match(/^(?:(?!\s(?:and|&&)\s)[\s\S])*/i);
    } else if (!scanner.done && !CONJUNCTION.test(scanner.rest) && scanner.rest.trim() !== "") {
      const leftover = scanner.rest.trim();
      scanner.offset = text.length;
      result.push({
        error: `“${shorten(leftover)}” was not expected here. Put a value with spaces or quotes in quotes, and “and” between conditions.`,
        text: text.slice(start).trim(),
      });
      break;
    }
    const source = text.slice(start, scanner.offset).trim();
    result.push(typeof term === "string" ? { error: term, text: source } : { term, text: source });
    scanner.match(CONJUNCTION);
    scanner.skipSpace();
  }
  return result;
}

function scanTerm(
  scanner: Scanner,
  names: Map<string, Field>,
  fields: readonly Field[],
  maxValues: number,
): FilterTerm | string {
  const isExclusion = scanExclusion(scanner, names);
  if (scanner.match(/^\(\s*/) === null) {
    const condition = scanCondition(scanner, names, fields, maxValues, false);
    return typeof condition === "string" ? condition : { conditions: [condition], isExclusion };
  }
  const conditions: Condition[] = [];
  do {
    scanner.skipSpace();
    const condition = scanCondition(scanner, names, fields, maxValues, true);
    if (typeof condition === "string") {
      scanner.match(/^[^)]*\)?/);
      return condition;
    }
    conditions.push(condition);
  } while (scanner.match(CONJUNCTION) !== null);
  if (scanner.match(/^\s*\)/) === null) {
    scanner.match(/^[^)]*\)?/);
    return "The closing bracket is missing. Example: (service = a and status = Error) matches traces in which one span satisfies both.";
  }
  return isExclusion && conditions.length > 1
    ? "“not” takes one condition. Write “not” before each condition that no span may satisfy."
    : { conditions, isExclusion };
}

const shorten = (text: string) => truncate(text, 60);

function scanCondition(
  scanner: Scanner,
  names: Map<string, Field>,
  fields: readonly Field[],
  maxValues: number,
  isInGroup: boolean,
): Condition | string {
  const field = scanField(scanner, names);
  if (field === null) {
    const [parsedValues = ""] = /^[^\s=!<>^≠≥≤)]+/.exec(scanner.rest) ?? [];
    const suggestions = similarFields(parsedValues, fields);
    return parsedValues === ""
      ? "Start with the name of a field."
      : `“${shorten(parsedValues)}” is not a searchable field.${suggestions.length === 0 ? " Choose one from the list." : ` Did you mean ${suggestions.join(" or ")}?`}`;
  }
  scanner.skipSpace();
  const operatorNames = operatorsOf(field)
    .map((parsedValue) => parsedValue.label)
    .join(", ");
  const operator = scanOperator(scanner);
  if (operator === null) {
    const parsedValues = scanner.rest.trim();
    return parsedValues === ""
      ? `Add an operator after ${field.ref}: ${operatorNames}.`
      : `“${shorten(parsedValues)}” does not begin with an operator. ${field.ref} is ${TYPE_NAMES[field.type]}: ${operatorNames}.`;
  }
  if (!field.operators.includes(operator.name)) {
    return `“${operator.label}” does not fit ${field.ref}, which is ${TYPE_NAMES[field.type]}. Use ${operatorNames}.`;
  }
  const { values, isUnclosed, isUnbalanced } = scanValues(scanner, operator, isInGroup);
  if (isUnclosed) {
    return "The closing quote is missing.";
  }
  if (isUnbalanced) {
    return "Put a value with a single bracket in quotes.";
  }
  if (operator.arity === "two" && values.length !== 2) {
    return `“between” takes two numbers: ${field.ref} between 1, 10.`;
  }
  if (operator.arity !== "none" && values.length === 0) {
    return `Type a value after “${operator.label}”. Empty text is "".`;
  }
  if (values.length > maxValues) {
    return `${values.length} values: a condition may have at most ${maxValues}.`;
  }
  const parsedValues: Value[] = [];
  for (const value of values) {
    const parsedValue = parseValue(value, field);
    if (parsedValue === null) {
      return field.type === "boolean"
        ? `${field.ref} is true or false, not “${shorten(value)}”.`
        : `${field.ref} is a number, not “${shorten(value)}”.`;
    }
    parsedValues.push(parsedValue);
  }
  return { field, operator, values: parsedValues };
}

/** Converts text to a value of a field, or returns `null` if it is invalid. */
export function parseValue(text: string, field: Field): Value | null {
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

function similarFields(typed: string, fields: readonly Field[]): string[] {
  const matches = matchingFields(typed, fields);
  const lower = typed.toLowerCase();
  const terms = lower.split(/[^a-z0-9]+/).filter((term) => term.length > 2);
  const similar = fields.filter((field) => terms.some((term) => field.ref.toLowerCase().includes(term)));
  return (matches.length > 0 ? matches : similar).slice(0, 3).map((field) => field.ref);
}
