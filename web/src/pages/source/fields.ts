import type { Api } from "../../api/client";
import { TYPE_LABELS } from "../../lib/types";

export type LogicalType = Api["LogicalType"];
export type MarkedField = Api["MarkedField"];

/** A part of a span that is a field, or could be one. */
export type Candidate = {
  key: string;
  /** The map or JSON column; empty for a separate column. */
  map: string;
  name: string;
  /** Reference in policies. */
  ref: string;
  /** Types in ClickHouse; empty if unknown. */
  columnTypes: string[];
  /** Possible field types, the natural one first. */
  types: LogicalType[];
  /** Number of spans in the sample that have it; `null` for a column, which every span has, and if not sampled. */
  rows: number | null;
  sampledRows: number;
  examples: string[];
};

/** Settings of a field. A field that is neither filterable nor for policies is not stored. */
export type Mark = { type: LogicalType; filterable: boolean; policy: boolean; column: string | null };

/** The unsaved changes, by field. */
export type Changes = Readonly<Record<string, { map: string; name: string; mark: Mark }>>;

const ALL_TYPES: LogicalType[] = ["string", "number", "boolean", "string_array"];

export function fieldKey(map: string, name: string): string {
  return JSON.stringify([map, name]);
}

/** A text as a CEL string literal, in the service's notation. */
export function quoteCelString(text: string): string {
  const escapes: Record<string, string> = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
  };
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the expression finds the characters to escape
  const escaped = text.replace(/["\\\u0000-\u001f\u007f-\u009f]/g, (character) => {
    const code = character.charCodeAt(0).toString(16).padStart(4, "0");
    return escapes[character] ?? `\\u${code}`;
  });
  return `"${escaped}"`;
}

export function refOf(map: string, name: string): string {
  return map === "" ? name : `${map}[${quoteCelString(name)}]`;
}

// Reserved words of CEL, and the variable for the caller.
const RESERVED = new Set(
  "true false null in as break const continue else for function if import let loop package namespace return var void while".split(
    " ",
  ),
);

/** Why policies cannot use a field, or `null` if they can. */
export function policyExclusionReason(map: string, name: string, type: LogicalType): string | null {
  if (type === "number") {
    return "Policies cannot use numbers: they compare exact values, and numbers are for searches. Set the type to text to use it in policies.";
  }
  const segments = (map === "" ? name : map).split(".");
  const isNameable = segments.every(
    (segment) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(segment) && !RESERVED.has(segment),
  );
  return isNameable && segments[0] !== "user"
    ? null
    : "Policies cannot name this column: its name has other characters than letters, digits and underscores, or is reserved in policies.";
}

/** Possible types of a field without a sample: text under a map key can be parsed as any type. */
export function typesOfMarked(field: MarkedField): LogicalType[] {
  const isAnyType =
    (field.source !== "column" && field.source !== "json_path" && /String\W*$/.test(field.column_type)) ||
    (field.source === "json_path" && field.column_type === "Dynamic");
  return isAnyType ? [field.type, ...ALL_TYPES.filter((type) => type !== field.type)] : [field.type];
}

function newCandidate(map: string, name: string, type: string, types: LogicalType[]): Candidate {
  const [key, ref] = [fieldKey(map, name), refOf(map, name)];
  return {
    key,
    map,
    name,
    ref,
    columnTypes: type === "" ? [] : [type],
    types,
    rows: null,
    sampledRows: 0,
    examples: [],
  };
}

/** All possible fields without duplicates: columns, keys in the sample, stored fields, and added ones. */
export function candidatesOf(
  detail: Api["TableDetail"] | null,
  marked: MarkedField[],
  changes: Changes,
): Candidate[] {
  const candidates = new Map<string, Candidate>();
  for (const { name, type, logical_types, members } of detail?.columns ?? []) {
    for (const candidate of [
      newCandidate("", name, type, logical_types),
      ...members.map((member) => newCandidate(member.map, member.name, member.type, member.logical_types)),
    ]) {
      if (candidate.types.length > 0) {
        candidates.set(candidate.key, candidate);
      }
    }
  }
  for (const { map, keys, sampled_rows } of detail?.maps ?? []) {
    for (const { name, rows, types, logical_types, examples } of keys) {
      if (logical_types.length > 0) {
        const candidate = newCandidate(map, name, "", logical_types);
        candidates.set(candidate.key, {
          ...candidate,
          columnTypes: types,
          rows,
          sampledRows: sampled_rows,
          examples,
        });
      }
    }
  }
  for (const field of marked) {
    const candidate = newCandidate(field.map, field.name, field.column_type, typesOfMarked(field));
    if (!candidates.has(candidate.key)) {
      candidates.set(candidate.key, { ...candidate, ref: field.ref });
    }
  }
  for (const { map, name, mark } of Object.values(changes)) {
    const candidate = newCandidate(map, name, "", typesOfMap(detail, map) ?? [mark.type]);
    if (!candidates.has(candidate.key)) {
      candidates.set(candidate.key, candidate);
    }
  }
  return [...candidates.values()];
}

/** Possible types for keys of a map, or `null` if the column is unknown or not a map. */
export function typesOfMap(detail: Api["TableDetail"] | null, map: string): LogicalType[] | null {
  const types = detail?.columns.find(({ name }) => name === map)?.key_logical_types ?? [];
  return types.length === 0 ? null : types;
}

export function markOf(field: MarkedField): Mark {
  const { type, filterable, policy } = field;
  return { type, filterable, policy, column: field.column ?? null };
}

const isMarked = (mark: Mark) => mark.filterable || mark.policy;

/** The settings of a field including unsaved changes. */
export function currentMark(
  candidate: Candidate,
  marked: ReadonlyMap<string, MarkedField>,
  changes: Changes,
): Mark {
  const stored = marked.get(candidate.key);
  return (
    changes[candidate.key]?.mark ??
    (stored === undefined
      ? { type: candidate.types[0] ?? "string", filterable: false, policy: false, column: null }
      : markOf(stored))
  );
}

export function fieldsByKey(marked: MarkedField[]): Map<string, MarkedField> {
  return new Map(marked.map((field) => [fieldKey(field.map, field.name), field]));
}

/** Applies a change to the settings of a field, such that the service can accept the result. */
export function applyChange(map: string, name: string, mark: Mark, change: Partial<Mark>): Mark {
  const next = { ...mark, ...change };
  const policy = next.policy && policyExclusionReason(map, name, next.type) === null;
  // A column is adopted only for a stored field. Adopting it again verifies it again.
  return { ...next, policy, column: next.filterable || policy ? next.column : null };
}

/** The changes that remain to be saved after `sent` was stored over `before`: those made during the save. Changes that were
 * undone during the save become changes back to the previous state. */
export function remainingChanges(
  sent: Changes,
  current: Changes,
  before: ReadonlyMap<string, MarkedField>,
): Changes {
  const remaining: Record<string, Changes[string]> = {};
  for (const [key, change] of Object.entries(sent)) {
    if (current[key] === undefined) {
      const field = before.get(key);
      const mark =
        field === undefined
          ? { ...change.mark, filterable: false, policy: false, column: null }
          : markOf(field);
      remaining[key] = { ...change, mark };
    }
  }
  for (const [key, change] of Object.entries(current)) {
    const stored = sent[key];
    if (stored === undefined || !sameMark(stored.mark, change.mark)) {
      remaining[key] = change;
    }
  }
  return remaining;
}

export type FieldDifference = {
  kind: "marked" | "changed" | "unmarked";
  key: string;
  ref: string;
  before: Mark | null;
  after: Mark | null;
};

/** The differences that a save would make, ordered by name. */
export function diffFields(marked: MarkedField[], changes: Changes): FieldDifference[] {
  const stored = fieldsByKey(marked);
  const result: FieldDifference[] = [];
  for (const [key, { map, name, mark }] of Object.entries(changes)) {
    const field = stored.get(key);
    const before = field === undefined ? null : markOf(field);
    const after = isMarked(mark) ? mark : null;
    const a = { key, ref: refOf(map, name), before, after };
    if (before === null && after !== null) {
      result.push({ ...a, kind: "marked" });
    } else if (before !== null && after === null) {
      result.push({ ...a, kind: "unmarked" });
    } else if (before !== null && after !== null && !sameMark(before, after)) {
      result.push({ ...a, kind: "changed" });
    }
  }
  return result.sort((a, b) => a.ref.localeCompare(b.ref));
}

export function sameMark(a: Mark, b: Mark): boolean {
  return a.type === b.type && a.filterable === b.filterable && a.policy === b.policy && a.column === b.column;
}

/** The body of `PUT /schema/fields`: all fields after the change. */
export function marksToSend(marked: MarkedField[], changes: Changes): Api["FieldMark"][] {
  const fields = new Map(
    marked.map((field) => [
      fieldKey(field.map, field.name),
      { map: field.map, name: field.name, mark: markOf(field) },
    ]),
  );
  for (const [key, change] of Object.entries(changes)) {
    fields.set(key, change);
  }
  return [...fields.values()]
    .filter(({ mark }) => isMarked(mark))
    .map(({ map, name, mark: { type, filterable, policy, column } }) => ({
      ...(map === "" ? {} : { map }),
      name,
      type,
      filterable,
      policy,
      ...(column === null ? {} : { column }),
    }));
}

/** Describes settings: `number, search`. */
export function describeMark(mark: Mark | null): string {
  if (mark === null) {
    return "not marked";
  }
  const uses = [mark.filterable ? "search" : "", mark.policy ? "policies" : ""].filter((use) => use !== "");
  const column = mark.column === null ? [] : [`column ${mark.column}`];
  return [TYPE_LABELS[mark.type], ...uses, ...column].join(", ");
}

/** Existing key columns of the table, by field. Only these can be adopted. */
export function keyColumns(
  inPlace: Pick<Api["DdlInPlace"], "id" | "name">[],
  marked: MarkedField[],
): ReadonlyMap<string, string[]> {
  const result = new Map<string, string[]>();
  for (const { map, name, ref } of marked) {
    const columns = inPlace.filter(({ id }) => id === `key_column:${ref}`).map((column) => column.name);
    if (columns.length > 0) {
      result.set(fieldKey(map, name), columns);
    }
  }
  return result;
}
