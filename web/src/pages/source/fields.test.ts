import { describe, expect, it } from "vitest";
import { type Api, ApiError } from "../../api/client";
import {
  applyChange,
  type Changes,
  candidatesOf,
  diffFields,
  fieldKey,
  fieldsByKey,
  type Mark,
  marksToSend,
  policyExclusionReason,
  quoteCelString,
  refOf,
  remainingChanges,
} from "./fields";
import { recommendedMarks } from "./recommendedFields";
import { memberErrors, parseRejection } from "./rejection";

const mark = (overrides: Partial<Mark> = {}): Mark => ({
  type: "string",
  filterable: true,
  policy: true,
  column: null,
  ...overrides,
});

function field(map: string, name: string, overrides: Partial<Api["MarkedField"]> = {}): Api["MarkedField"] {
  return {
    map,
    name,
    ref: refOf(map, name),
    type: "string",
    filterable: true,
    policy: true,
    source: map === "" ? "column" : "map_key",
    column_type: "String",
    ...overrides,
  };
}

const change = (map: string, name: string, overrides: Partial<Mark> = {}): Changes => ({
  [fieldKey(map, name)]: { map, name, mark: mark(overrides) },
});

const detail: Api["TableDetail"] = {
  sampled: true,
  unsuitable: null,
  paired_maps: [],
  proposal: null,
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
      stopped_early: false,
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
    const [candidate] = candidatesOf(
      null,
      [field("", "Duration", { type: "number", column_type: "UInt64" })],
      {},
    );
    expect(candidate).toMatchObject({ ref: "Duration", types: ["number"], columnTypes: ["UInt64"] });
  });
});

describe("references", () => {
  it("have the notation of the service", () => {
    expect(refOf("", "Events.Name")).toBe("Events.Name");
    expect(refOf("Doc", 'a"b\\c\n\u0001')).toBe('Doc["a\\"b\\\\c\\n\\u0001"]');
    expect(quoteCelString("é💡")).toBe('"é💡"');
  });
});

describe("policies", () => {
  it("cannot use numbers, or columns with unsuitable names", () => {
    expect(policyExclusionReason("", "Duration", "number")).toMatch(/numbers/);
    expect(policyExclusionReason("", "in", "string")).toMatch(/cannot name/);
    expect(policyExclusionReason("user", "x", "string")).toMatch(/cannot name/);
    expect(policyExclusionReason("Span-Attributes", "x", "string")).toMatch(/cannot name/);
    expect(policyExclusionReason("SpanAttributes", "a b-c", "string")).toBeNull();
    expect(policyExclusionReason("", "Events.Name", "string_array")).toBeNull();
  });

  it("cannot use a field after its type becomes a number", () => {
    expect(applyChange("M", "k", mark(), { type: "number" })).toEqual(
      mark({ type: "number", policy: false }),
    );
  });

  it("read no column of a field that is no longer marked", () => {
    expect(
      applyChange("M", "k", mark({ column: "c", policy: false }), { filterable: false }).column,
    ).toBeNull();
  });
});

describe("unsaved changes after a save", () => {
  const before = fieldsByKey([field("M", "old")]);
  const sentChanges: Changes = {
    ...change("M", "new"),
    ...change("M", "old", { filterable: false, policy: false }),
  };

  it("are empty if nothing was changed during the save", () => {
    expect(remainingChanges(sentChanges, sentChanges, before)).toEqual({});
  });

  it("are the changes made during the save", () => {
    const laterChanges = { ...change("M", "new", { policy: false }), ...change("M", "other") };
    expect(remainingChanges(sentChanges, { ...sentChanges, ...laterChanges }, before)).toEqual(laterChanges);
  });

  it("revert changes that were undone during the save", () => {
    expect(remainingChanges(sentChanges, {}, before)).toEqual({
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
    expect(diffFields(stored, changes).map(({ kind, ref }) => `${kind} ${ref}`)).toEqual([
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
  const recommended = (marked: Api["MarkedField"][]) =>
    recommendedMarks(candidatesOf(detail, marked, {}), binding, fieldsByKey(marked)).map(
      ({ candidate, mark }) => `${candidate.name} ${mark.type}${mark.policy ? " policy" : ""}`,
    );

  it("identify operation, environment and owner", () => {
    expect(recommended([])).toEqual([
      "ServiceName string policy",
      "Duration number",
      "Events.Name string_array policy",
      "http.status_code number",
      "tenant.id string policy",
    ]);
  });

  it("exclude fields that are already marked", () => {
    expect(recommended([field("SpanAttributes", "tenant.id", { policy: false })])).not.toContain(
      "tenant.id string policy",
    );
  });
});

describe("a rejected change", () => {
  const sentChanges: Api["FieldMark"][] = [
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
    const { byField, otherErrors } = parseRejection(
      error(
        { pointer: "/fields/1/column", code: "column_differs", detail: "3 rows differ" },
        { pointer: "/fields", code: "invalid_value", detail: "at most 1000 fields" },
      ),
      sentChanges,
      [],
    );
    expect(byField.get(fieldKey("M", "k"))).toEqual(["3 rows differ"]);
    expect(otherErrors).toEqual(["at most 1000 fields"]);
  });

  it("lists the policies that it would break, and marks the fields that they need", () => {
    const changedFields = ["Name", "ServiceName"].map((name) => ({ key: fieldKey("", name), ref: name }));
    const { byField, brokenPolicies } = parseRejection(
      error({
        pointer: "",
        code: "policy_invalid",
        detail: "role `on-call`, policy `Own: team`: `ServiceName` is not marked as a policy input",
      }),
      sentChanges,
      changedFields,
    );
    expect(brokenPolicies).toEqual([
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
