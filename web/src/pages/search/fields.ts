import type { Api } from "../../api/client";
import type { WireCondition } from "./conditions";

/** A field that conditions may use. */
export type Field = Api["FieldDescriptor"] & { operators: string[] };

/** The fields of the schema that conditions may use. For administrators, the schema contains others, too. */
export function filterableFields(schema: Api["FilterSchema"]): Field[] {
  return schema.fields.filter((field): field is Field => (field.operators?.length ?? 0) > 0);
}

/** Common names of fields that most tables of traces have, for tables without a field of that name. */
const COMMON: Record<string, string[]> = {
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
  const found = new Map<string, Field>();
  const ambiguous = new Set<string>();
  const add = (spelling: string, field: Field) => {
    const known = found.get(spelling);
    if (known === undefined) {
      found.set(spelling, field);
    } else if (known.ref !== field.ref) {
      ambiguous.add(spelling);
    }
  };
  // Exact spellings take precedence over looser spellings of other fields.
  for (const field of fields) {
    found.set(field.ref, field);
    if (field.map !== "") {
      found.set(`${field.map}['${field.name}']`, field);
      found.set(`${field.map}[${field.name}]`, field);
    }
  }
  const exact = new Set(found.keys());
  for (const field of fields) {
    add(field.map === "" ? field.name : `${field.map}.${field.name}`, field);
    add(field.name, field);
    for (const spelling of [field.ref, `${field.map}.${field.name}`, field.name]) {
      add(spelling.toLowerCase(), field);
    }
  }
  for (const spelling of ambiguous) {
    if (!exact.has(spelling)) {
      found.delete(spelling);
    }
  }
  for (const [common, names] of Object.entries(COMMON)) {
    const field = names.map((name) => found.get(name)).find((one) => one !== undefined);
    if (field !== undefined && !found.has(common)) {
      found.set(common, field);
    }
  }
  found.delete("");
  return found;
}

/** The spelling of a field in the URL: without brackets and quotes if that is unambiguous. */
export function shortName(field: Field, fields: readonly Field[]): string {
  const short = field.map === "" ? field.name : `${field.map}.${field.name}`;
  return /^[\w.-]+$/.test(short) && spellings(fields).get(short)?.ref === field.ref ? short : field.ref;
}

/** Fields whose name contains every typed word; those that start with the first word come first. */
export function fieldsLike(typed: string, fields: readonly Field[]): Field[] {
  // The operator is ignored, so that the suggestions remain after it is typed behind an incomplete name.
  const words = typed
    .toLowerCase()
    .replace(/[=!<>^].*$/, "")
    .split(/\s+/)
    .filter(Boolean);
  const first = words[0] ?? "";
  const common = COMMON[typed.trim().toLowerCase()] ?? [];
  const rank = (field: Field) => {
    const name = field.name.toLowerCase();
    return common.includes(field.name) ? 0 : name === first ? 1 : name.startsWith(first) ? 2 : 3;
  };
  return fields
    .filter(
      (field) => common.includes(field.name) || words.every((word) => field.ref.toLowerCase().includes(word)),
    )
    .sort((one, other) => rank(one) - rank(other));
}

/** Whether the field is the duration column of the OpenTelemetry exporter, in nanoseconds. */
export function isDuration(field: Field): boolean {
  return field.type === "number" && field.map === "" && /^duration(_?nanos?|_?ns)?$/i.test(field.name);
}

/** Status values that count as errors, as in the service's summaries. */
const ERRORS = ["Error", "STATUS_CODE_ERROR", "ERROR"];

/** The condition for "errors only", or `null` if no field contains the status. */
export function errorsOnly(fields: readonly Field[]): WireCondition | null {
  const field =
    fields.find((one) => one.map === "" && /^status_?code$/i.test(one.name)) ??
    fields.find((one) => /^(otel[._])?status([._]?code)?$/i.test(one.name));
  if (field === undefined) {
    return null;
  }
  const named = field.map === "" ? { name: field.name } : { map: field.map, name: field.name };
  if (field.type === "string" && field.operators.includes("in")) {
    return { ...named, op: "in", values: ERRORS };
  }
  // OTLP's number for an error.
  return field.type === "number" && field.operators.includes("eq") ? { ...named, op: "eq", value: 2 } : null;
}
