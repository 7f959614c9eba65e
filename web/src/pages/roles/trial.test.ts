import { describe, expect, it } from "vitest";
import {
  columnsOf,
  combineOutcomes,
  groupByTrace,
  MAX_SPANS,
  outcomeOf,
  spanOffsets,
  splitBatches,
} from "./trial";

const structure = { trace_id: "TraceId", span_id: "SpanId" };
const display = { name: "SpanName", service: "ServiceName" };
const span = (trace: string, id: string) => ({
  TraceId: trace,
  SpanId: id,
  SpanName: `name ${id}`,
  ServiceName: "shop",
  SpanAttributes: { a: "b" },
  Body: "long",
});

describe("spans for a test", () => {
  it("have only the columns that policies can use", () => {
    const columns = columnsOf([
      { map: "", name: "ServiceName" },
      { map: "SpanAttributes", name: "a" },
      { map: "SpanAttributes", name: "b" },
      { map: "", name: "Events.Name" },
    ]);
    expect(columns).toEqual(["ServiceName", "SpanAttributes", "Events.Name"]);
    const [trace] = groupByTrace([{ ...span("t", "s"), Events: [] }], structure, display, columns);
    expect(trace?.spans[0]).toEqual({
      id: "s",
      name: "name s",
      service: "shop",
      columns: { ServiceName: "shop", SpanAttributes: { a: "b" }, Events: [] },
    });
  });

  it("are limited, with the number of omitted ones", () => {
    const manySpans = Array.from({ length: MAX_SPANS + 3 }, (_, index) => span("t", String(index)));
    const [trace, ...smallSpans] = groupByTrace([...manySpans, span("u", "x")], structure, display, []);
    expect(trace?.spans).toHaveLength(MAX_SPANS);
    expect(trace?.omittedSpans).toBe(3);
    expect(smallSpans).toEqual([]);
  });

  it("are sent in batches of limited size", () => {
    const spans = Array.from({ length: 5 }, () => ({ a: "x".repeat(90) }));
    expect(splitBatches(spans, 210).map((part) => part.length)).toEqual([2, 2, 1]);
    expect(splitBatches([{ a: "x".repeat(500) }, { a: "" }], 210)).toHaveLength(2);
    expect(splitBatches([])).toEqual([]);
  });
});

describe("the result of a test", () => {
  it("of a span is true if any policy matches; an error grants no access", () => {
    expect(combineOutcomes(["error", "true", "false"])).toBe("true");
    expect(combineOutcomes(["false", "error"])).toBe("error");
    expect(combineOutcomes([])).toBe("false");
  });

  it("of a trace is its first matching span, with the policy", () => {
    const traces = groupByTrace([span("t", "1"), span("u", "2"), span("u", "3")], structure, display, []);
    const results = (...outcomes: ("true" | "false" | "error")[]) =>
      outcomes.map((outcome) => ({ outcome, decided_by: [] }));
    const policy = (key: string, of: ReturnType<typeof results> | null) => ({
      key,
      title: key,
      expression: "",
      results: of,
      error: null,
    });
    const policies = [
      policy("a", results("false", "error", "false")),
      policy("b", results("false", "false", "true")),
      policy("not known", null),
    ];
    const [first, second] = traces;
    if (first === undefined || second === undefined) throw new Error("no traces");
    const [secondStart = 0, other = 0] = spanOffsets(traces);
    expect(outcomeOf(first, secondStart, policies)).toEqual({
      visible: false,
      grantedBy: null,
      outcomes: ["false"],
    });
    const found = outcomeOf(second, other, policies);
    expect(found.outcomes).toEqual(["error", "true"]);
    expect([found.grantedBy?.span.id, found.grantedBy?.policy.key]).toEqual(["3", "b"]);
  });
});
