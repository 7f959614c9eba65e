import { describe, expect, it } from "vitest";
import type { Api } from "../../api/client";
import {
  bindingOf,
  DISPLAYED_COLUMNS,
  draftOf,
  duplicateColumns,
  indexCandidates,
  isIntegerTime,
  readsOtherRows,
  STRUCTURAL_COLUMNS,
  sameDraft,
  unsuitableReason,
} from "./columns";

const binding: Api["Binding"] = {
  database: "otel",
  table: "otel_traces",
  trace_id: "TraceId",
  span_id: "SpanId",
  parent_span_id: "ParentSpanId",
  timestamp: "Timestamp",
  trace_index: "otel_traces_trace_id_ts",
  display: { name: "SpanName", service: "ServiceName" },
};

function column(type: string, ...logical_types: Api["LogicalType"][]): Api["TableColumn"] {
  return { name: "c", type, logical_types, key_logical_types: [], members: [] };
}

function table(name: string, engine = "MergeTree"): Api["Table"] {
  return {
    database: "otel",
    name,
    engine,
    rows: 1,
    bytes: 1,
    product: null,
    proposal: null,
    unsuitable: null,
  };
}

describe("a draft", () => {
  it("equals the binding that it was created from", () => {
    expect(bindingOf("otel", "otel_traces", draftOf(binding))).toEqual(binding);
  });

  it("keeps units, rows and values of errors", () => {
    const other: Api["Binding"] = {
      ...binding,
      timestamp_unit: "us",
      read_as: "final",
      only: [{ column: "project_id", value: "7" }],
      time_bucket: { column: "ts_bucket_start", seconds: 1800 },
      display: { duration: "took", duration_unit: "ms", status: "code", error_values: ["2"] },
    };
    expect(bindingOf("otel", "otel_traces", draftOf(other))).toEqual(other);
    expect(sameDraft(draftOf(other), draftOf({ ...other, only: [] }))).toBe(false);
  });

  it("reads other rows unless only displayed columns differ", () => {
    const displayed = { ...binding, display: { service: "Service", status: "Code", error_values: ["2"] } };
    expect(readsOtherRows(displayed, binding)).toBe(false);
    expect(readsOtherRows({ ...binding, trace_index: null }, binding)).toBe(true);
    const only = [{ column: "project_id", value: "7" }];
    expect(readsOtherRows({ ...binding, only }, binding)).toBe(true);
  });

  it("gives no binding while a structural column is missing", () => {
    expect(bindingOf("otel", "otel_traces", { ...draftOf(binding), span_id: "" })).toBeNull();
    expect(bindingOf("otel", "otel_traces", draftOf(null))).toBeNull();
  });

  it("omits optional columns that are not selected", () => {
    const noBinding = bindingOf("otel", "t", { ...draftOf(binding), trace_index: "", display_name: "" });
    expect(noBinding).not.toHaveProperty("trace_index");
    expect(noBinding?.display).toEqual({ service: "ServiceName" });
  });

  it("detects changes, and ids that share a column", () => {
    const changed = { ...draftOf(binding), span_id: "TraceId" };
    expect(sameDraft(draftOf(binding), draftOf(binding))).toBe(true);
    expect(sameDraft(draftOf(binding), changed)).toBe(false);
    expect(duplicateColumns(changed)).toEqual(["trace_id", "span_id"]);
    expect(duplicateColumns(draftOf(null))).toEqual([]);
  });
});

describe("suitable columns", () => {
  const fits = (member: string, isSuitableFor: Api["TableColumn"]) =>
    [...STRUCTURAL_COLUMNS, ...DISPLAYED_COLUMNS]
      .find((part) => part.member === member)
      ?.isSuitable(isSuitableFor);

  it("for ids are strings, UUIDs and integers, also nullable or of low cardinality", () => {
    for (const type of ["LowCardinality(Nullable(String))", "FixedString(16)", "UUID", "UInt64", "UInt128"]) {
      expect(fits("trace_id", column(type))).toBe(true);
    }
    for (const type of ["UInt8", "Float64", "Array(String)", "DateTime", "Enum8('a' = 1)"]) {
      expect(fits("span_id", column(type))).toBe(false);
    }
  });

  it("for the time may be integers, whose unit is chosen", () => {
    expect(fits("timestamp", column("UInt64", "number"))).toBe(true);
    expect(isIntegerTime(column("Int64"))).toBe(true);
    expect(isIntegerTime(column("DateTime64(9)"))).toBe(false);
  });

  it("for the time are not nullable", () => {
    expect(fits("timestamp", column("DateTime64(9, 'UTC')", "number"))).toBe(true);
    expect(fits("timestamp", column("Nullable(DateTime)", "number"))).toBe(false);
  });

  it("for the duration are numbers", () => {
    expect(fits("duration", column("UInt64", "number"))).toBe(true);
    expect(fits("duration", column("Nullable(UInt64)", "number"))).toBe(false);
    expect(fits("duration", column("DateTime", "number"))).toBe(false);
  });

  it("for the kind may be enumerations", () => {
    expect(fits("kind", column("Enum8('a' = 1)", "string"))).toBe(true);
  });
});

describe("tables", () => {
  it("have a reason if they are not proposed", () => {
    const tables = { ...table("landing", "Null"), unsuitable: "it never contains a row: bind `spans`" };
    expect(unsuitableReason(tables)).toBe("It never contains a row: bind `spans`.");
    expect(unsuitableReason(table("otel_traces_trace_id_ts"))).toMatch(/trace index/);
    expect(unsuitableReason(table("logs"))).toMatch(/usual names/);
  });

  it("that may be a trace index are listed with the likely one first", () => {
    const all = [table("a"), table("t"), table("t_trace_id_ts"), table("v", "MaterializedView")];
    expect(indexCandidates(all, "otel", "t")).toEqual(["t_trace_id_ts", "a"]);
    expect(indexCandidates(all, "other", "t")).toEqual([]);
  });
});
