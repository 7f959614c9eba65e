import type { Api } from "../../api/client";

/** A field that conditions may use. */
export type Field = Api["FieldDescriptor"] & { operators: string[] };

/** The fields of the schema that conditions may use. For administrators, the schema contains others, too. */
export function searchableFields(schema: Api["FilterSchema"]): Field[] {
  return schema.fields.filter((field): field is Field => (field.operators?.length ?? 0) > 0);
}

/** Common names of fields that most tables of traces have, for tables without a field of that name. */
const COMMON_NAMES: Record<string, string[]> = {
  service: ["ServiceName", "service.name"],
  operation: ["SpanName"],
  name: ["SpanName"],
  span: ["SpanName"],
  status: ["StatusCode", "otel.status_code"],
  kind: ["SpanKind"],
  duration: ["Duration"],
  trace: ["TraceId"],
};

/** All unambiguous spellings of fields. Case-insensitive spellings are in lower case. */
export function spellings(fields: readonly Field[]): Map<string, Field> {
  const result = new Map<string, Field>();
  const ambiguous = new Set<string>();
  const add = (spelling: string, field: Field) => {
    const existing = result.get(spelling);
    if (existing === undefined) {
      result.set(spelling, field);
    } else if (existing.ref !== field.ref) {
      ambiguous.add(spelling);
    }
  };
  // Exact spellings take precedence over looser spellings of other fields.
  for (const field of fields) {
    result.set(field.ref, field);
    if (field.map !== "") {
      result.set(`${field.map}['${field.name}']`, field);
      result.set(`${field.map}[${field.name}]`, field);
    }
  }
  const exactSpellings = new Set(result.keys());
  for (const field of fields) {
    add(field.map === "" ? field.name : `${field.map}.${field.name}`, field);
    add(field.name, field);
    for (const spelling of [field.ref, `${field.map}.${field.name}`, field.name]) {
      add(spelling.toLowerCase(), field);
    }
  }
  for (const spelling of ambiguous) {
    if (!exactSpellings.has(spelling)) {
      result.delete(spelling);
    }
  }
  for (const [common, names] of Object.entries(COMMON_NAMES)) {
    const field = names.map((name) => result.get(name)).find((candidate) => candidate !== undefined);
    if (field !== undefined && !result.has(common)) {
      result.set(common, field);
    }
  }
  result.delete("");
  return result;
}

/** The name of a field for display: without its map if that is unambiguous. */
export function displayName(field: Field, fields: readonly Field[]): string {
  return spellings(fields).get(field.name)?.ref === field.ref ? field.name : shortName(field, fields);
}

/** The spelling of a field in the URL: without brackets and quotes if that is unambiguous. */
export function shortName(field: Field, fields: readonly Field[]): string {
  const short = field.map === "" ? field.name : `${field.map}.${field.name}`;
  return /^[\w.-]+$/.test(short) && spellings(fields).get(short)?.ref === field.ref ? short : field.ref;
}

/** Fields whose name contains every typed word; those that start with the first word come first. */
export function matchingFields(text: string, fields: readonly Field[]): Field[] {
  // The operator is ignored, so that the suggestions remain after it is typed behind an incomplete name.
  const words = text
    .toLowerCase()
    .replace(/[=!<>^].*$/, "")
    .split(/\s+/)
    .filter(Boolean);
  const firstWord = words[0] ?? "";
  const commonNames = COMMON_NAMES[text.trim().toLowerCase()] ?? [];
  const rank = (field: Field) => {
    const name = field.name.toLowerCase();
    return commonNames.includes(field.name) ? 0 : name === firstWord ? 1 : name.startsWith(firstWord) ? 2 : 3;
  };
  return fields
    .filter(
      (field) =>
        commonNames.includes(field.name) || words.every((word) => field.ref.toLowerCase().includes(word)),
    )
    .sort((a, b) => rank(a) - rank(b));
}

/** Whether the field is the duration column of the OpenTelemetry exporter, in nanoseconds. */
export function isDuration(field: Field): boolean {
  return field.type === "number" && field.map === "" && /^duration(_?nanos?|_?ns)?$/i.test(field.name);
}
