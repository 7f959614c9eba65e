import type { Api } from "../../api/client";
import type { WireCondition } from "./conditions";

/** A field that conditions may name. */
export type Field = Api["FieldDescriptor"] & { operators: string[] };

/** Those of the schema's fields that conditions may name; administrators are told of others, too. */
export function filterableFields(schema: Api["FilterSchema"]): Field[] {
  return schema.fields.filter((field): field is Field => (field.operators?.length ?? 0) > 0);
}

/** What people call the fields that nearly every table of traces has, where no field has that very name. */
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

/** Every way to write a field, each leading to one field only. Keys are in lower case where case does not matter. */
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
  // What is exact comes first and is never given up for a looser spelling of another field.
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

/** How the address writes a field: without brackets and quotes where that is still clear. */
export function shortName(field: Field, fields: readonly Field[]): string {
  const short = field.map === "" ? field.name : `${field.map}.${field.name}`;
  return /^[\w.-]+$/.test(short) && spellings(fields).get(short)?.ref === field.ref ? short : field.ref;
}

/** Fields whose name holds every word that was typed; those that begin with it first. */
export function fieldsLike(typed: string, fields: readonly Field[]): Field[] {
  // Who goes on to the operator after half a name still sees which fields may be meant.
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

/** The column of durations as the OpenTelemetry exporter writes it: nanoseconds. */
export function isDuration(field: Field): boolean {
  return field.type === "number" && field.map === "" && /^duration(_?nanos?|_?ns)?$/i.test(field.name);
}

/** Values of a span's status that count as errors, as the service's summaries do. */
const ERRORS = ["Error", "STATUS_CODE_ERROR", "ERROR"];

/** The condition of "errors only", where a field says what the status of a span is. */
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
  // The protocol's number of an error.
  return field.type === "number" && field.operators.includes("eq") ? { ...named, op: "eq", value: 2 } : null;
}
