import type { Api } from "../../api/client";
import { formatDuration } from "../../lib/duration";
import type { LosslessNumber } from "../../lib/json";
import { type Field, isDuration, shortName } from "./fields";
import { findOperator, type Operator } from "./operators";

/** A value of a condition. Large integers stay exact. */
export type Value = string | boolean | number | LosslessNumber;

/** A valid condition. */
export type Condition = {
  readonly field: Field;
  readonly operator: Operator;
  readonly values: readonly Value[];
};

/** A term of a filter: conditions that one span must satisfy together, or a condition that no span may satisfy. */
export type FilterTerm = { readonly conditions: readonly Condition[]; readonly isExclusion: boolean };

/** A condition in the API's format. Large integers are {@link LosslessNumber} and must be written with `writeJson`. */
export type WireCondition = Omit<Api["Condition"], "value" | "values"> & {
  value?: Value;
  values?: readonly Value[];
};

export function toWire({ field, operator, values }: Condition): WireCondition {
  const wire: WireCondition = {
    ...(field.map === "" ? {} : { map: field.map }),
    name: field.name,
    op: operator.name,
  };
  const [first] = values;
  if (operator.arity === "one" && first !== undefined) {
    wire.value = first;
  } else if (operator.arity !== "none") {
    wire.values = values;
  }
  return wire;
}

/** A filter in the API's format. Members without conditions are omitted, except for `conditions`. */
export type WireFilter = {
  readonly conditions: readonly WireCondition[];
  readonly same_span?: readonly (readonly WireCondition[])[];
  readonly none?: readonly WireCondition[];
};

export function toWireFilter(terms: readonly FilterTerm[], additional: readonly WireCondition[]): WireFilter {
  const wireConditions = (wanted: (term: FilterTerm) => boolean) =>
    terms.filter(wanted).map((term) => term.conditions.map(toWire));
  const conditions = wireConditions((term) => !term.isExclusion && term.conditions.length === 1).flat();
  const sameSpan = wireConditions((term) => !term.isExclusion && term.conditions.length > 1);
  const none = wireConditions((term) => term.isExclusion).flat();
  return {
    conditions: [...conditions, ...additional],
    ...(sameSpan.length === 0 ? {} : { same_span: sameSpan }),
    ...(none.length === 0 ? {} : { none }),
  };
}

export function conditionCount(terms: readonly FilterTerm[]): number {
  return terms.reduce((count, term) => count + term.conditions.length, 0);
}

const PLAIN = /^[\p{L}\p{N}_./:@+-]+$/u;
const CONJUNCTION = /^(and|&&)$/i;

/** A value as it can be typed, in quotes if necessary. */
export function quoteValue(value: Value): string {
  return typeof value === "string" && (!PLAIN.test(value) || CONJUNCTION.test(value))
    ? JSON.stringify(value)
    : String(value);
}

/** Text of a term, which parses to the same term. */
export function termText(
  { conditions, isExclusion }: FilterTerm,
  nameOf: (field: Field) => string,
  operatorOf: (operator: Operator) => string,
): string {
  const texts = conditions.map(({ field, operator, values }) =>
    [nameOf(field), operatorOf(operator), values.map(quoteValue).join(", ")].filter(Boolean).join(" "),
  );
  const text = texts.length === 1 ? texts.join("") : `(${texts.join(" and ")})`;
  return isExclusion ? `not ${text}` : text;
}

/** Text of a term for editing in the entry. */
export function editText(term: FilterTerm): string {
  return termText(
    term,
    (field) => field.ref,
    (operator) => operator.label,
  );
}

/** Text of terms for the URL. */
export function urlText(terms: readonly FilterTerm[], fields: readonly Field[]): string {
  return terms
    .map((term) =>
      termText(
        term,
        (field) => shortName(field, fields),
        (operator) => operator.name,
      ),
    )
    .join(" and ");
}

/** The values of a condition for display. */
export function displayValues({ field, values }: Condition): string[] {
  return values.map((value) =>
    isDuration(field) && typeof value === "number" ? formatDuration(value) : String(value),
  );
}

/** The operators of a field, in the field's order. */
export function operatorsOf(field: Field): Operator[] {
  return field.operators.map(findOperator).filter((operator) => operator !== undefined);
}

/** Status values that count as errors, as in the service's summaries. */
const ERROR_STATUSES = ["Error", "STATUS_CODE_ERROR", "ERROR"];

/** The condition for "errors only", or `null` if no field contains the status. */
export function errorCondition(fields: readonly Field[]): WireCondition | null {
  const field =
    fields.find((candidate) => candidate.map === "" && /^status_?code$/i.test(candidate.name)) ??
    fields.find((candidate) => /^(otel[._])?status([._]?code)?$/i.test(candidate.name));
  if (field === undefined) {
    return null;
  }
  const fieldName = field.map === "" ? { name: field.name } : { map: field.map, name: field.name };
  if (field.type === "string" && field.operators.includes("in")) {
    return { ...fieldName, op: "in", values: ERROR_STATUSES };
  }
  // OTLP's number for an error.
  return field.type === "number" && field.operators.includes("eq")
    ? { ...fieldName, op: "eq", value: 2 }
    : null;
}
