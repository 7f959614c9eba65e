import { describe, expect, it } from "vitest";
import { type Api, ApiError } from "../../api/client";
import {
  byKey,
  type Changes,
  candidatesOf,
  changed,
  changedSince,
  differences,
  fieldKey,
  type Mark,
  marksToSend,
  quoted,
  refOf,
  whyNoPolicy,
} from "./fields";
import { memberErrors, refusalOf } from "./refusals";
import { usualMarks } from "./usual";

const mark = (over: Partial<Mark> = {}): Mark => ({
  type: "string",
  filterable: true,
  policy: true,
  column: null,
  ...over,
});

function field(map: string, name: string, over: Partial<Api["MarkedField"]> = {}): Api["MarkedField"] {
  return {
    map,
    name,
    ref: refOf(map, name),
    type: "string",
    filterable: true,
    policy: true,
    source: map === "" ? "column" : "map_key",
    column_type: "String",
    ...over,
  };
}

const change = (map: string, name: string, over: Partial<Mark> = {}): Changes => ({
  [fieldKey(map, name)]: { map, name, mark: mark(over) },
});

const detail: Api["TableDetail"] = {
  sampled: true,
  unsuitable: null,
  columns: [
    {
      name: "ServiceName",
      type: "LowCardinality(String)",
      logical_types: ["string"],
      key_logical_types: [],
      members: [],
    },
    { name: "Duration", type: "UInt64", logical_types: ["number"], key_logical_types: [], members: [] },
    {
      name: "SpanAttributes",
      type: "Map(LowCardinality(String), String)",
      logical_types: [],
      key_logical_types: ["string", "number", "boolean", "string_array"],
      members: [],
    },
    {
      name: "Events",
      type: "Nested(Name String)",
      logical_types: [],
      key_logical_types: [],
      members: [{ map: "", name: "Events.Name", type: "Array(String)", logical_types: ["string_array"] }],
    },
  ],
  maps: [
    {
      map: "SpanAttributes",
      sampled_rows: 200,
      gave_up: false,
      keys: [
        {
          name: "http.status_code",
          rows: 100,
          types: ["String"],
          logical_types: ["string", "number"],
          examples: ["200"],
        },
        { name: "tenant.id", rows: 50, types: ["String"], logical_types: ["string"], examples: ["t1"] },
        { name: "odd", rows: 1, types: ["Object"], logical_types: [], examples: [] },
      ],
    },
  ],
};

describe("candidates", () => {
  it("are the columns, members and keys that can be fields", () => {
    const refs = candidatesOf(detail, [], {}).map(({ ref }) => ref);
    expect(refs).toEqual([
      "ServiceName",
      "Duration",
      "Events.Name",
      'SpanAttributes["http.status_code"]',
      'SpanAttributes["tenant.id"]',
    ]);
  });

  it("include marked and added fields that the sample lacks", () => {
    const all = candidatesOf(detail, [field("SpanAttributes", "rare")], change("SpanAttributes", "by.hand"));
    expect(all.slice(-2).map(({ name, rows, types }) => [name, rows, types.length])).toEqual([
      ["rare", null, 4],
      ["by.hand", null, 4],
    ]);
  });

  it("are the marked fields if the table was not sampled", () => {
    const [one] = candidatesOf(null, [field("", "Duration", { type: "number", column_type: "UInt64" })], {});
    expect(one).toMatchObject({ ref: "Duration", types: ["number"], storeTypes: ["UInt64"] });
  });
});

describe("references", () => {
  it("have the notation of the service", () => {
    expect(refOf("", "Events.Name")).toBe("Events.Name");
    expect(refOf("Doc", 'a"b\\c\n\u0001')).toBe('Doc["a\\"b\\\\c\\n\\u0001"]');
    expect(quoted("é💡")).toBe('"é💡"');
  });
});

describe("policies", () => {
  it("cannot use numbers, or columns with unsuitable names", () => {
    expect(whyNoPolicy("", "Duration", "number")).toMatch(/numbers/);
    expect(whyNoPolicy("", "in", "string")).toMatch(/cannot name/);
    expect(whyNoPolicy("user", "x", "string")).toMatch(/cannot name/);
    expect(whyNoPolicy("Span-Attributes", "x", "string")).toMatch(/cannot name/);
    expect(whyNoPolicy("SpanAttributes", "a b-c", "string")).toBeNull();
    expect(whyNoPolicy("", "Events.Name", "string_array")).toBeNull();
  });

  it("cannot use a field after its type becomes a number", () => {
    expect(changed("M", "k", mark(), { type: "number" })).toEqual(mark({ type: "number", policy: false }));
  });

  it("read no column of a field that is no longer marked", () => {
    expect(changed("M", "k", mark({ column: "c", policy: false }), { filterable: false }).column).toBeNull();
  });
});

describe("unsaved changes after a save", () => {
  const before = byKey([field("M", "old")]);
  const sent: Changes = {
    ...change("M", "new"),
    ...change("M", "old", { filterable: false, policy: false }),
  };

  it("are empty if nothing was changed during the save", () => {
    expect(changedSince(sent, sent, before)).toEqual({});
  });

  it("are the changes made during the save", () => {
    const later = { ...change("M", "new", { policy: false }), ...change("M", "other") };
    expect(changedSince(sent, { ...sent, ...later }, before)).toEqual(later);
  });

  it("revert changes that were undone during the save", () => {
    expect(changedSince(sent, {}, before)).toEqual({
      ...change("M", "new", { filterable: false, policy: false }),
      ...change("M", "old"),
    });
  });
});

describe("the changes of a save", () => {
  const stored = [field("", "ServiceName"), field("M", "old"), field("M", "kept", { column: "M_kept" })];
  const changes: Changes = {
    ...change("M", "new"),
    ...change("M", "old", { filterable: false, policy: false }),
    ...change("", "ServiceName", { policy: false }),
    // Selected and deselected again.
    ...change("M", "kept", { column: "M_kept" }),
    ...change("M", "never", { filterable: false, policy: false }),
  };

  it("are listed by field", () => {
    expect(differences(stored, changes).map(({ kind, ref }) => `${kind} ${ref}`)).toEqual([
      'marked M["new"]',
      'unmarked M["old"]',
      "changed ServiceName",
    ]);
  });

  it("are sent as the whole set of fields", () => {
    expect(marksToSend(stored, changes)).toEqual([
      { name: "ServiceName", type: "string", filterable: true, policy: false },
      { map: "M", name: "kept", type: "string", filterable: true, policy: true, column: "M_kept" },
      { map: "M", name: "new", type: "string", filterable: true, policy: true },
    ]);
  });
});

describe("recommended fields", () => {
  const binding: Api["Binding"] = {
    database: "d",
    table: "t",
    trace_id: "a",
    span_id: "b",
    parent_span_id: "c",
    timestamp: "e",
    display: { service: "ServiceName", duration: "Duration" },
  };
  const usual = (marked: Api["MarkedField"][]) =>
    usualMarks(candidatesOf(detail, marked, {}), binding, byKey(marked)).map(
      ({ candidate, mark }) => `${candidate.name} ${mark.type}${mark.policy ? " policy" : ""}`,
    );

  it("identify operation, environment and owner", () => {
    expect(usual([])).toEqual([
      "ServiceName string policy",
      "Duration number",
      "Events.Name string_array policy",
      "http.status_code number",
      "tenant.id string policy",
    ]);
  });

  it("exclude fields that are already marked", () => {
    expect(usual([field("SpanAttributes", "tenant.id", { policy: false })])).not.toContain(
      "tenant.id string policy",
    );
  });
});

describe("a rejected change", () => {
  const sent: Api["FieldMark"][] = [
    { name: "ServiceName", filterable: true, policy: true },
    { map: "M", name: "k", filterable: true, policy: false },
  ];
  const error = (...errors: Api["InvalidMember"][]) =>
    new ApiError(422, {
      type: "",
      title: "",
      detail: "",
      status: 422,
      code: "conflict",
      request_id: "",
      retry: "never" as const,
      errors,
    });

  it("is reported at the field that its pointer names", () => {
    const { byField, other } = refusalOf(
      error(
        { pointer: "/fields/1/column", code: "column_differs", detail: "3 rows differ" },
        { pointer: "/fields", code: "invalid_value", detail: "at most 1000 fields" },
      ),
      sent,
      [],
    );
    expect(byField.get(fieldKey("M", "k"))).toEqual(["3 rows differ"]);
    expect(other).toEqual(["at most 1000 fields"]);
  });

  it("lists the policies that it would break, and marks the fields that they need", () => {
    const touched = ["Name", "ServiceName"].map((name) => ({ key: fieldKey("", name), ref: name }));
    const { byField, broken } = refusalOf(
      error({
        pointer: "",
        code: "policy_invalid",
        detail: "role `on-call`, policy `Own: team`: `ServiceName` is not marked as a policy input",
      }),
      sent,
      touched,
    );
    expect(broken).toEqual([
      { role: "on-call", policy: "Own: team", reason: "`ServiceName` is not marked as a policy input" },
    ]);
    expect([...byField.keys()]).toEqual([fieldKey("", "ServiceName")]);
  });

  it("of a binding is reported by member", () => {
    const errors = memberErrors(
      error({ pointer: "/display/name", code: "invalid_value", detail: "no column `a\u202eb`" }),
    );
    expect(errors.get("/display/name")).toBe("no column a⟨U+202E⟩b");
    expect(memberErrors(new TypeError("network")).size).toBe(0);
  });
});
