import type { Api } from "../../api/client";

export type LogicalType = Api["LogicalType"];
export type MarkedField = Api["MarkedField"];

/** A part of a span that is marked, or could be. */
export type Candidate = {
  key: string;
  /** The map or JSON column; empty for a column of its own. */
  map: string;
  name: string;
  /** How policies name it. */
  ref: string;
  /** Types in the trace store; empty where they are not known. */
  storeTypes: string[];
  /** What it can be marked as, the natural one first. */
  types: LogicalType[];
  /** Spans of the sample that have it; `null` for a column, which every span has, and for what was not sampled. */
  rows: number | null;
  sampledRows: number;
  examples: string[];
};

/** How a field is, or shall be, marked. With neither tick it is not. */
export type Mark = { type: LogicalType; filterable: boolean; policy: boolean; column: string | null };

/** The changes that are not saved yet, by field. */
export type Changes = Readonly<Record<string, { map: string; name: string; mark: Mark }>>;

const ALL_TYPES: LogicalType[] = ["string", "number", "boolean", "string_array"];

export const TYPE_LABELS: Record<LogicalType, string> = {
  string: "text",
  number: "number",
  boolean: "true or false",
  string_array: "list of texts",
};

export function fieldKey(map: string, name: string): string {
  return JSON.stringify([map, name]);
}

/** A text as a CEL string literal, as the service writes it. */
export function quoted(text: string): string {
  const escapes: Record<string, string> = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
  };
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is escaped
  const escaped = text.replace(/["\\\u0000-\u001f\u007f-\u009f]/g, (character) => {
    const code = character.charCodeAt(0).toString(16).padStart(4, "0");
    return escapes[character] ?? `\\u${code}`;
  });
  return `"${escaped}"`;
}

export function refOf(map: string, name: string): string {
  return map === "" ? name : `${map}[${quoted(name)}]`;
}

// The words that CEL keeps for itself, and the caller's.
const RESERVED = new Set(
  "true false null in as break const continue else for function if import let loop package namespace return var void while".split(
    " ",
  ),
);

/** Why policies cannot use a field; `null` when they can. */
export function whyNoPolicy(map: string, name: string, type: LogicalType): string | null {
  if (type === "number") {
    return "Policies cannot use numbers: they compare exactly what a span says, and numbers are for searching. Mark it as text to use it in policies.";
  }
  const segments = (map === "" ? name : map).split(".");
  const named = segments.every(
    (segment) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(segment) && !RESERVED.has(segment),
  );
  return named && segments[0] !== "user"
    ? null
    : "Policies cannot name this column: its name is not made of letters, digits and underscores only, or means something else in a policy.";
}

/** What a mark can be without looking at the table: a text under a key can be read as any type. */
export function typesOfMarked(field: MarkedField): LogicalType[] {
  const free =
    (field.source === "map_key" && /String\W*$/.test(field.column_type)) ||
    (field.source === "json_path" && field.column_type === "Dynamic");
  return free ? [field.type, ...ALL_TYPES.filter((type) => type !== field.type)] : [field.type];
}

function column(map: string, name: string, type: string, types: LogicalType[]): Candidate {
  const [key, ref] = [fieldKey(map, name), refOf(map, name)];
  return {
    key,
    map,
    name,
    ref,
    storeTypes: type === "" ? [] : [type],
    types,
    rows: null,
    sampledRows: 0,
    examples: [],
  };
}

/** Everything that can be marked, once each: columns, what the sample found, what is marked, what was added by hand. */
export function candidatesOf(
  detail: Api["TableDetail"] | null,
  marked: MarkedField[],
  changes: Changes,
): Candidate[] {
  const found = new Map<string, Candidate>();
  for (const { name, type, logical_types, members } of detail?.columns ?? []) {
    for (const one of [
      column("", name, type, logical_types),
      ...members.map((member) => column(member.map, member.name, member.type, member.logical_types)),
    ]) {
      if (one.types.length > 0) {
        found.set(one.key, one);
      }
    }
  }
  for (const { map, keys, sampled_rows } of detail?.maps ?? []) {
    for (const { name, rows, types, logical_types, examples } of keys) {
      if (logical_types.length > 0) {
        const one = column(map, name, "", logical_types);
        found.set(one.key, { ...one, storeTypes: types, rows, sampledRows: sampled_rows, examples });
      }
    }
  }
  for (const field of marked) {
    const one = column(field.map, field.name, field.column_type, typesOfMarked(field));
    if (!found.has(one.key)) {
      found.set(one.key, { ...one, ref: field.ref });
    }
  }
  for (const { map, name, mark } of Object.values(changes)) {
    const one = column(map, name, "", typesOfMap(detail, map) ?? [mark.type]);
    if (!found.has(one.key)) {
      found.set(one.key, one);
    }
  }
  return [...found.values()];
}

/** What keys of a map can be marked as; `null` when the table's columns are not known, or it is none. */
export function typesOfMap(detail: Api["TableDetail"] | null, map: string): LogicalType[] | null {
  const types = detail?.columns.find(({ name }) => name === map)?.key_logical_types ?? [];
  return types.length === 0 ? null : types;
}

export function markOf(field: MarkedField): Mark {
  const { type, filterable, policy } = field;
  return { type, filterable, policy, column: field.column ?? null };
}

const isMarked = (mark: Mark) => mark.filterable || mark.policy;

/** The mark of a field as it would be after saving. */
export function markNow(
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

export function byKey(marked: MarkedField[]): Map<string, MarkedField> {
  return new Map(marked.map((field) => [fieldKey(field.map, field.name), field]));
}

/** A mark after one of its members was changed, such that the service can accept it. */
export function changed(map: string, name: string, mark: Mark, change: Partial<Mark>): Mark {
  const next = { ...mark, ...change };
  const policy = next.policy && whyNoPolicy(map, name, next.type) === null;
  // A column is adopted for what is marked; adopting it again compares it again.
  return { ...next, policy, column: next.filterable || policy ? next.column : null };
}

/** What is left to save once `sent` is stored over `before`: what was changed meanwhile. What was undone meanwhile is a
 * change back to what it was. */
export function changedSince(sent: Changes, now: Changes, before: ReadonlyMap<string, MarkedField>): Changes {
  const left: Record<string, Changes[string]> = {};
  for (const [key, change] of Object.entries(sent)) {
    if (now[key] === undefined) {
      const field = before.get(key);
      const mark =
        field === undefined
          ? { ...change.mark, filterable: false, policy: false, column: null }
          : markOf(field);
      left[key] = { ...change, mark };
    }
  }
  for (const [key, change] of Object.entries(now)) {
    const stored = sent[key];
    if (stored === undefined || !sameMark(stored.mark, change.mark)) {
      left[key] = change;
    }
  }
  return left;
}

export type Difference = {
  kind: "marked" | "changed" | "unmarked";
  key: string;
  ref: string;
  before: Mark | null;
  after: Mark | null;
};

/** What saving would change, in the order of names. */
export function differences(marked: MarkedField[], changes: Changes): Difference[] {
  const stored = byKey(marked);
  const found: Difference[] = [];
  for (const [key, { map, name, mark }] of Object.entries(changes)) {
    const field = stored.get(key);
    const before = field === undefined ? null : markOf(field);
    const after = isMarked(mark) ? mark : null;
    const one = { key, ref: refOf(map, name), before, after };
    if (before === null && after !== null) {
      found.push({ ...one, kind: "marked" });
    } else if (before !== null && after === null) {
      found.push({ ...one, kind: "unmarked" });
    } else if (before !== null && after !== null && !sameMark(before, after)) {
      found.push({ ...one, kind: "changed" });
    }
  }
  return found.sort((one, other) => one.ref.localeCompare(other.ref));
}

export function sameMark(one: Mark, other: Mark): boolean {
  return (
    one.type === other.type &&
    one.filterable === other.filterable &&
    one.policy === other.policy &&
    one.column === other.column
  );
}

/** What `PUT /schema/fields` is sent: all fields that are marked afterwards. */
export function marksToSend(marked: MarkedField[], changes: Changes): Api["FieldMark"][] {
  const all = new Map(
    marked.map((field) => [
      fieldKey(field.map, field.name),
      { map: field.map, name: field.name, mark: markOf(field) },
    ]),
  );
  for (const [key, change] of Object.entries(changes)) {
    all.set(key, change);
  }
  return [...all.values()]
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

/** How a mark reads: `number, search`. */
export function describeMark(mark: Mark): string {
  const uses = [mark.filterable ? "search" : "", mark.policy ? "policies" : ""].filter((use) => use !== "");
  return [TYPE_LABELS[mark.type], ...uses, ...(mark.column === null ? [] : [`column ${mark.column}`])].join(
    ", ",
  );
}

/** The columns that are in place for keys of maps, by field. Only such a column can be adopted. */
export function keyColumns(
  inPlace: Pick<Api["DdlInPlace"], "id" | "name">[],
  marked: MarkedField[],
): ReadonlyMap<string, string[]> {
  const found = new Map<string, string[]>();
  for (const { map, name, ref } of marked) {
    const columns = inPlace.filter(({ id }) => id === `key_column:${ref}`).map((one) => one.name);
    if (columns.length > 0) {
      found.set(fieldKey(map, name), columns);
    }
  }
  return found;
}
