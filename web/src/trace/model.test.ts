import { describe, expect, it } from "vitest";
import { LosslessNumber } from "../lib/json";
import type { RawSpan, TraceSchema } from "./columns";
import { attributesOf } from "./details";
import { Flag, isError } from "./flags";
import { groupsOf } from "./groups";
import { buildTrace, nameOf, serviceNameOf, servicesBySelf, type Trace } from "./model";
import { TEST_SCHEMA, testSpan } from "./testSpans";

const modelOf = (...spans: RawSpan[]) => buildTrace("t", TEST_SCHEMA, spans);
const spansWithFlag = (trace: Trace, flag: number) =>
  trace.ids.filter((_, at) => ((trace.flags[at] ?? 0) & flag) !== 0);
const numberOf = (trace: Trace, id: string) => trace.byId.get(id) ?? -1;
/** Parts of a span on the critical path, in microseconds. */
const criticalPartsOf = (trace: Trace, id: string) => {
  const index = numberOf(trace, id);
  const { first, from, to } = trace.criticalPath;
  const result: [number, number][] = [];
  for (let position = first[index] ?? 0; position < (first[index + 1] ?? 0); position += 1) {
    result.push([(from[position] ?? 0) / 1_000, (to[position] ?? 0) / 1_000]);
  }
  return result.sort((one, other) => one[0] - other[0]);
};

describe("the tree", () => {
  it("is depth-first, children by start, for any order of the response", () => {
    const trace = modelOf(
      testSpan("late", "root", 50, 60),
      testSpan("leaf", "early", 12, 15),
      testSpan("root", "", 0, 100),
      testSpan("early", "root", 10, 20),
    );
    expect(trace.ids).toEqual(["root", "early", "leaf", "late"]);
    expect([...trace.depth]).toEqual([0, 1, 2, 1]);
    expect([...trace.end]).toEqual([4, 3, 3, 4]);
    expect([...trace.children]).toEqual([2, 1, 0, 0]);
    expect(trace.maxDepth).toBe(2);
  });

  it("may have several roots, of which the earliest without a missing parent represents the trace", () => {
    const trace = modelOf(
      testSpan("orphan", "gone", 0, 500),
      testSpan("first", "", 1, 2),
      testSpan("long", "", 3, 9),
    );
    expect([...trace.parent]).toEqual([-1, -1, -1]);
    expect(trace.ids[trace.root]).toBe("first");
  });

  it.each([
    ["the lowest id of roots with the same start", [testSpan("b", "", 1, 9), testSpan("a", "", 1, 2)], "a"],
    ["the earliest span if all have parents", [testSpan("o", "gone", 5, 9), testSpan("in", "o", 4, 6)], "in"],
    ["a root, even if children start before it", [testSpan("r", "", 5, 9), testSpan("c", "r", 1, 2)], "r"],
    [
      "a root with a start rather than one without",
      [testSpan("x", "", 0, 1, { Timestamp: "?" }), testSpan("y", "", 5, 9)],
      "y",
    ],
  ])("is represented by %s", (_, spans, root) => {
    const trace = modelOf(...spans);
    expect(trace.ids[trace.root]).toBe(root);
  });

  it("flags missing parents", () => {
    const trace = modelOf(testSpan("root", "", 0, 10), testSpan("orphan", "gone", 2, 3));
    expect(spansWithFlag(trace, Flag.MissingParent)).toEqual(["orphan"]);
    expect(trace.faults.missingParents).toBe(1);
  });

  it("treats an id of zeros as no parent", () => {
    expect(modelOf(testSpan("root", "0000000000000000", 0, 10)).faults.missingParents).toBe(0);
  });

  it("cuts cycles at their earliest span, and keeps all spans below them", () => {
    const trace = modelOf(
      testSpan("hanging", "b", 1, 2),
      testSpan("a", "b", 5, 10),
      testSpan("b", "c", 4, 10),
      testSpan("c", "a", 6, 10),
      testSpan("self", "self", 20, 30),
    );
    expect(spansWithFlag(trace, Flag.Cycle).sort()).toEqual(["b", "self"]);
    expect(trace.count).toBe(5);
    expect([...new Set(trace.ids)].length).toBe(5);
  });

  it("keeps spans with the same id, with children below the earliest", () => {
    const trace = modelOf(
      testSpan("twice", "", 0, 10, { SpanName: "first" }),
      testSpan("twice", "", 5, 10, { SpanName: "second" }),
      testSpan("child", "twice", 6, 7),
    );
    expect(nameOf(trace, trace.parent[numberOf(trace, "child")] ?? -1)).toBe("first");
    expect(spansWithFlag(trace, Flag.Duplicate)).toEqual(["twice"]);
    expect(nameOf(trace, numberOf(trace, "twice"))).toBe("first");
  });

  it("can be a chain of 100,000 spans", () => {
    const spans = Array.from({ length: 100_000 }, (_, depth) =>
      testSpan(`s${depth}`, depth === 0 ? "" : `s${depth - 1}`, depth, 200_000 - depth),
    );
    const trace = modelOf(...spans.slice(0, 1), ...spans.slice(1).reverse());
    expect(trace.maxDepth).toBe(99_999);
    expect(trace.end[0]).toBe(100_000);
    expect(trace.ids[99_999]).toBe("s99999");
  });

  it("is empty without spans", () => {
    expect(modelOf().count).toBe(0);
  });
});

describe("times", () => {
  it("are relative to the earliest start, in nanoseconds", () => {
    const trace = modelOf(
      testSpan("b", "a", 0, 1, { Timestamp: "2026-11-21T10:00:01.000000003Z", Duration: 5 }),
      testSpan("a", "", 0, 1, { Timestamp: "2026-11-21T09:59:59.999999999Z", Duration: 2_000_000_000 }),
    );
    expect([...trace.start]).toEqual([0, 1_000_000_004]);
    expect(trace.length).toBe(2_000_000_000);
  });

  it("of children outside their parents are flagged, and not changed", () => {
    const trace = modelOf(
      testSpan("parent", "", 100, 200),
      testSpan("early", "parent", 90, 150),
      testSpan("late", "parent", 150, 300),
      testSpan("rounded", "parent", 110, 200, { Duration: 90_500 }),
    );
    expect(spansWithFlag(trace, Flag.BeforeParent)).toEqual(["early"]);
    expect(spansWithFlag(trace, Flag.AfterParent)).toEqual(["late"]);
    expect(trace.faults.maxSkew).toBe(10_000);
    expect(trace.start[numberOf(trace, "early")]).toBe(0);
  });

  it("are flagged if they are invalid", () => {
    const trace = modelOf(
      testSpan("a", "", 0, 1, { Timestamp: "soon" }),
      testSpan("b", "", 0, 1, { Duration: null }),
    );
    expect(spansWithFlag(trace, Flag.InvalidTimes).sort()).toEqual(["a", "b"]);
  });

  it("do not affect other spans if they are invalid", () => {
    const withoutDuration = modelOf(testSpan("p", "", 0, 0, { Duration: null }), testSpan("c", "p", 10, 90));
    const withoutStart = modelOf(testSpan("q", "", 50, 60, { Timestamp: "?" }), testSpan("d", "q", 10, 90));
    const child = modelOf(testSpan("r", "", 0, 100), testSpan("e", "r", 0, 40, { Timestamp: "?" }));
    for (const trace of [withoutDuration, withoutStart, child]) {
      expect(spansWithFlag(trace, Flag.BeforeParent | Flag.AfterParent)).toEqual([]);
      expect(trace.faults.maxSkew).toBe(0);
    }
    expect(child.self[numberOf(child, "r")]).toBe(100_000);
    expect(withoutDuration.self[numberOf(withoutDuration, "p")]).toBe(0);
    expect(criticalPartsOf(child, "r")).toEqual([[0, 100]]);
    expect(criticalPartsOf(child, "e")).toEqual([]);
  });

  it("before the parent are flagged if only starts are known", () => {
    const trace = modelOf(
      testSpan("p", "", 50, 50, { Duration: null }),
      testSpan("c", "p", 10, 10, { Duration: null }),
    );
    expect(spansWithFlag(trace, Flag.BeforeParent)).toEqual(["c"]);
    expect(spansWithFlag(trace, Flag.AfterParent)).toEqual([]);
  });

  it("are found under other names, and computed from the end if there is no duration", () => {
    const { Duration, SpanName, ServiceName, ...rest } = testSpan("a", "", 0, 0);
    const trace = modelOf({
      ...rest,
      operation_name: "GET",
      EndTime: "2026-11-21T10:00:00.000005Z",
      ResourceAttributes: { "service.name": "cart" },
    });
    expect([trace.duration[0], nameOf(trace, 0), serviceNameOf(trace, 0)]).toEqual([5_000, "GET", "cart"]);
    expect(modelOf({ ...rest, duration_ms: 2 }).duration[0]).toBe(2_000_000);
    expect(nameOf(modelOf(rest), 0)).toBe("(no name)");
  });
});

describe("the columns of the binding", () => {
  const named = { op: "GET /cart", svc: "cart", took_ns: 5_000, state: "Error", sort: "server" };
  const display = { name: "op", service: "svc", duration: "took_ns", status: "state", kind: "sort" };
  const only = (schema: TraceSchema, more: RawSpan) => {
    const { SpanName, ServiceName, Duration, StatusCode, ...rest } = testSpan("a", "", 0, 1);
    const trace = buildTrace("t", schema, [{ ...rest, ...more }]);
    return [nameOf(trace, 0), serviceNameOf(trace, 0), trace.duration[0], trace.errorSpans.length];
  };

  it("are shown", () => {
    expect(only({ ...TEST_SCHEMA, display }, named)).toEqual(["GET /cart", "cart", 5_000, 1]);
    expect(only(TEST_SCHEMA, named)).toEqual(["(no name)", "(no service)", 0, 0]);
  });

  it("take precedence over common names, and are in nanoseconds", () => {
    const both = { ...named, name: "other", service: "other", duration_ms: 7 };
    expect(only({ ...TEST_SCHEMA, display }, both)).toEqual(["GET /cart", "cart", 5_000, 1]);
    expect(only({ ...TEST_SCHEMA, display: { duration: "duration_ms" } }, both)[2]).toBe(7);
    expect(only(TEST_SCHEMA, both).slice(0, 3)).toEqual(["other", "other", 7_000_000]);
  });

  it("fall back to common names if they are missing or absent", () => {
    const usual = { name: "usual", service: "usual", duration_ms: 7, status: "Error" };
    const some = { name: null, service: "gone", duration: null };
    expect(only({ ...TEST_SCHEMA, display: some }, usual)).toEqual(["usual", "usual", 7_000_000, 1]);
  });
});

describe("self time", () => {
  it("excludes the time of children, concurrent children once, and ignores time outside of the span", () => {
    const trace = modelOf(
      testSpan("root", "", 0, 100),
      testSpan("a", "root", 10, 40),
      testSpan("b", "root", 30, 60),
      testSpan("inside b's time", "root", 35, 50),
      testSpan("outlives", "root", 90, 150),
    );
    expect(trace.self[0]).toBe((100 - 50 - 10) * 1_000);
  });

  it("is summed by service, greatest first", () => {
    const trace = modelOf(
      testSpan("root", "", 0, 100),
      testSpan("db", "root", 10, 90, { ServiceName: "database", StatusCode: "Error" }),
    );
    expect(servicesBySelf(trace)).toEqual([
      { name: "database", spans: 1, errors: 1, self: 80_000 },
      { name: "shop", spans: 1, errors: 0, self: 20_000 },
    ]);
  });
});

describe("errors", () => {
  it("are statuses and exception events, and are counted before each span", () => {
    const trace = modelOf(
      testSpan("root", "", 0, 100),
      testSpan("failed", "root", 10, 20, { StatusCode: "STATUS_CODE_ERROR" }),
      testSpan("threw", "root", 30, 40, { "Events.Name": ["log", "exception"] }),
      testSpan("fine", "root", 50, 60, { StatusCode: "Ok", "Events.Name": ["log"] }),
    );
    expect([...trace.errorSpans].map((one) => trace.ids[one])).toEqual(["failed", "threw"]);
    expect([...trace.errorsBefore]).toEqual([0, 0, 1, 2, 2]);
    expect(servicesBySelf(trace)[0]?.errors).toBe(2);
    expect(groupsOf(trace).reduce((sum, group) => sum + group.errors, 0)).toBe(2);
  });
});

describe("the critical path", () => {
  it("follows the child that ended last, and the parent while it waits for no child", () => {
    const trace = modelOf(
      testSpan("root", "", 0, 100),
      testSpan("a", "root", 10, 40),
      testSpan("faster", "root", 10, 30),
      testSpan("b", "root", 50, 90),
      testSpan("deep", "b", 60, 80),
    );
    expect(criticalPartsOf(trace, "root")).toEqual([
      [0, 10],
      [40, 50],
      [90, 100],
    ]);
    expect(criticalPartsOf(trace, "a")).toEqual([[10, 40]]);
    expect(criticalPartsOf(trace, "deep")).toEqual([[60, 80]]);
    expect(criticalPartsOf(trace, "b")).toEqual([
      [50, 60],
      [80, 90],
    ]);
    expect(criticalPartsOf(trace, "faster")).toEqual([]);
  });

  it("stays within the parents", () => {
    const trace = modelOf(
      testSpan("root", "", 100, 200),
      testSpan("late", "root", 150, 300),
      testSpan("early", "root", 50, 120),
      testSpan("afterwards", "root", 250, 260),
    );
    // The path ends with the last root, not with spans that outlive it.
    expect(criticalPartsOf(trace, "root")).toEqual([[70, 100]]);
    expect(criticalPartsOf(trace, "late")).toEqual([[100, 150]]);
    expect(criticalPartsOf(trace, "early")).toEqual([[50, 70]]);
    expect(criticalPartsOf(trace, "afterwards")).toEqual([]);
  });

  it("covers a trace with one root exactly once", () => {
    let seed = 7;
    const random = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % below;
    };
    const spans = [testSpan("0", "", 0, 100_000)];
    for (let one = 1; one < 500; one += 1) {
      const from = random(99_000);
      spans.push(testSpan(String(one), String(random(one)), from, from + random(1_000)));
    }
    const { criticalPath } = modelOf(...spans);
    const sum = criticalPath.from.reduce(
      (total, from, index) => total + (criticalPath.to[index] ?? 0) - from,
      0,
    );
    expect(sum).toBe(100_000_000);
  });
});

describe("100,000 spans", () => {
  it("are modelled within the time limit", () => {
    const spans = Array.from({ length: 100_000 }, (_, at) =>
      testSpan(`s${at}`, at === 0 ? "" : `s${Math.floor((at - 1) / 5)}`, at, at + 1_000),
    );
    const startedAt = performance.now();
    expect(buildTrace("t", TEST_SCHEMA, spans).count).toBe(100_000);
    // A generous limit, because the test machine may be busy.
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });
});

describe("data of exporters", () => {
  it("with a negative duration counts as 0 and is flagged, in signed and unsigned columns", () => {
    const elapsedMs = (Duration: unknown) => modelOf(testSpan("s", "", 0, 1, { Duration }));
    for (const value of [new LosslessNumber("18446744073709360311"), "18446744073709360311", -191305]) {
      const trace = elapsedMs(value);
      expect([trace.duration[0], trace.length, trace.faults.invalidDurations]).toEqual([0, 0, 1]);
      expect(spansWithFlag(trace, Flag.InvalidDuration)).toEqual(["s"]);
    }
    const longest = elapsedMs(new LosslessNumber("9223372036854775807"));
    expect([longest.duration[0], longest.faults.invalidDurations]).toEqual([2 ** 63, 0]);
    expect(elapsedMs(new LosslessNumber("9223372036854775808")).faults.invalidDurations).toBe(1);
    expect(elapsedMs(5).faults.invalidDurations).toBe(0);
  });

  it("without a name gets a replacement", () => {
    for (const SpanName of ["", "  ", null]) {
      expect(nameOf(modelOf(testSpan("s", "", 0, 1, { SpanName })), 0)).toBe("(no name)");
    }
  });

  it("has the id of its spans, in whatever notation the trace was requested", () => {
    const spans = [testSpan("s", "", 0, 1, { TraceId: "0af7" })];
    expect(buildTrace("0AF7", TEST_SCHEMA, spans).id).toBe("0af7");
    expect(buildTrace("0AF7", TEST_SCHEMA, []).id).toBe("0AF7");
  });
});

describe("a table with another layout", () => {
  const schema = {
    trace_id: "trace_id",
    span_id: "id",
    timestamp: "start_us",
    parent_span_id: "parent",
    display: { name: "op", end: "end_us", status: "code", error_values: ["2"] },
  };
  const spans = [
    {
      trace_id: "0af76519-16cd-43dd-8448-eb211c80319c",
      id: "18446744073709551615",
      parent: "00000000-0000-0000-0000-000000000000",
      start_us: 1_790_000_000_000_000,
      end_us: 1_790_000_000_250_000,
      op: "checkout",
      code: 2,
      "str_attributes.key": ["tenant.id", "lonely", "tenant.id"],
      "str_attributes.value": ["acme", "b", "second"],
      resource_names: ["service.name", "without a value"],
      resource_values: ["cart"],
    },
  ];

  it("has durations until the end, errors by the binding's values, and maps in two arrays", () => {
    const trace = buildTrace("x", schema, spans);
    expect(trace.duration[0]).toBe(250e6);
    expect(isError(trace.flags[0])).toBe(true);
    expect(trace.services.map(({ name }) => name)).toEqual(["cart"]);
    expect(trace.parent[0]).toBe(-1);
    expect(attributesOf(spans[0] ?? {}, trace.columns)).toEqual([
      { key: "lonely", value: "b" },
      { key: "tenant.id", value: "acme" },
    ]);
  });

  it("multiplies durations by the unit of the binding", () => {
    const display = { ...schema.display, end: null, duration: "took", duration_unit: "ms" as const };
    const trace = buildTrace("x", { ...schema, display }, [{ ...spans[0], took: 7 }]);
    expect(trace.duration[0]).toBe(7e6);
  });
});
