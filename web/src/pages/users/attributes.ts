import type { Api } from "../../api/client";

export type Attributes = Api["Attributes"];
export type AttributeKind = "string" | "boolean" | "list";

/** An edited attribute. It keeps a value of each kind, so that switching the kind loses nothing. */
export type AttributeRow = {
  readonly id: number;
  readonly name: string;
  readonly kind: AttributeKind;
  readonly text: string;
  readonly flag: boolean;
  readonly list: readonly string[];
  /** Typed text that will become the next list value, and already counts as one. */
  readonly pendingText: string;
};

let lastId = 0;

export function newRow(): AttributeRow {
  lastId += 1;
  return { id: lastId, name: "", kind: "string", text: "", flag: false, list: [], pendingText: "" };
}

export function rowsOf(attributes: Attributes): AttributeRow[] {
  return Object.entries(attributes).map(([name, value]) => {
    const row = { ...newRow(), name };
    if (typeof value === "boolean") {
      return { ...row, kind: "boolean", flag: value };
    }
    return typeof value === "string"
      ? { ...row, kind: "string", text: value }
      : { ...row, kind: "list", list: value };
  });
}

export function attributesOf(rows: readonly AttributeRow[]): Attributes {
  // Not by assignment: a name such as `__proto__` would set the prototype.
  return Object.fromEntries(
    rows.map((row) => [
      row.name,
      row.kind === "boolean" ? row.flag : row.kind === "string" ? row.text : listOf(row),
    ]),
  );
}

function listOf({ list, pendingText }: AttributeRow): string[] {
  const pendingValue = pendingText.trim();
  return pendingValue === "" || list.includes(pendingValue) ? [...list] : [...list, pendingValue];
}

/** Errors in the names, by row. */
export function nameErrors(rows: readonly AttributeRow[]): Map<number, string> {
  const errors = new Map<number, string>();
  const usedNames = new Set<string>();
  for (const { id, name } of rows) {
    if (name.trim() === "") {
      errors.set(id, "Enter a name, or remove the attribute");
    } else if (usedNames.has(name)) {
      errors.set(id, "This name is already used");
    }
    usedNames.add(name);
  }
  return errors;
}

// A value with a comma must not look like two values.
const quoteListValue = (text: string) => (text === "" || text.includes(",") ? JSON.stringify(text) : text);

/** A value as one line of text. */
export function valueText(value: Api["Attribute"]): string {
  if (typeof value === "string") {
    return value === "" ? "(empty)" : value;
  }
  return typeof value === "boolean"
    ? String(value)
    : value.length === 0
      ? "(empty list)"
      : value.map(quoteListValue).join(", ");
}

/** All attributes as one line of text. */
export function attributesText(attributes: Attributes): string {
  return Object.entries(attributes)
    .map(([name, value]) => `${name}: ${valueText(value)}`)
    .join(" · ");
}
