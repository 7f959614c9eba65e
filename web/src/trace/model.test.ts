import { describe, expect, it } from "vitest";
import { LosslessNumber } from "../lib/json";
import type { RawSpan, TraceSchema } from "./columns";
import { Flag } from "./flags";
import { groupsOf } from "./groups";
import { nameOf, serviceNameOf, servicesBySelf, type Trace, traceOf } from "./model";
import { SCHEMA, span } from "./sample";

const model = (...spans: RawSpan[]) => traceOf("t", SCHEMA, spans);
const flagged = (trace: Trace, flag: number) =>
  trace.ids.filter((_, at) => ((trace.flags[at] ?? 0) & flag) !== 0);
const at = (trace: Trace, id: string) => trace.byId.get(id) ?? -1;
/** Parts of a span on the critical path, in microseconds. */
const partsOf = (trace: Trace, id: string) => {
  const index = at(trace, id);
  const { first, from, to } = trace.critical;
  const found: [number, number][] = [];
  for (let place = first[index] ?? 0; place < (first[index + 1] ?? 0); place += 1) {
    found.push([(from[place] ?? 0) / 1_000, (to[place] ?? 0) / 1_000]);
  }
  return found.sort((one, other) => one[0] - other[0]);
};

describe("the tree", () => {
  it("is depth-first, children by start, for any order of the response", () => {
    const trace = model(
      span("late", "root", 50, 60),
      span("leaf", "early", 12, 15),
      span("root", "", 0, 100),
      span("early", "root", 10, 20),
    );
    expect(trace.ids).toEqual(["root", "early", "leaf", "late"]);
    expect([...trace.depth]).toEqual([0, 1, 2, 1]);
    expect([...trace.end]).toEqual([4, 3, 3, 4]);
    expect([...trace.children]).toEqual([2, 1, 0, 0]);
    expect(trace.maxDepth).toBe(2);
  });

  it("may have several roots, of which the earliest without a missing parent represents the trace", () => {
    const trace = model(span("orphan", "gone", 0, 500), span("first", "", 1, 2), span("long", "", 3, 9));
    expect([...trace.parent]).toEqual([-1, -1, -1]);
    expect(trace.ids[trace.root]).toBe("first");
  });

  it.each([
    ["the lowest id of roots with the same start", [span("b", "", 1, 9), span("a", "", 1, 2)], "a"],
    ["the earliest span if all have parents", [span("o", "gone", 5, 9), span("in", "o", 4, 6)], "in"],
    ["a root, even if children start before it", [span("r", "", 5, 9), span("c", "r", 1, 2)], "r"],
    [
      "a root with a start rather than one without",
      [span("x", "", 0, 1, { Timestamp: "?" }), span("y", "", 5, 9)],
      "y",
    ],
  ])("is represented by %s", (_, spans, root) => {
    const trace = model(...spans);
    expect(trace.ids[trace.root]).toBe(root);
  });

  it("flags missing parents", () => {
    const trace = model(span("root", "", 0, 10), span("orphan", "gone", 2, 3));
    expect(flagged(trace, Flag.MissingParent)).toEqual(["orphan"]);
    expect(trace.faults.missingParents).toBe(1);
  });

  it("treats an id of zeros as no parent", () => {
    expect(model(span("root", "0000000000000000", 0, 10)).faults.missingParents).toBe(0);
  });

  it("cuts cycles at their earliest span, and keeps all spans below them", () => {
    const trace = model(
      span("hanging", "b", 1, 2),
      span("a", "b", 5, 10),
      span("b", "c", 4, 10),
      span("c", "a", 6, 10),
      span("self", "self", 20, 30),
    );
    expect(flagged(trace, Flag.Cycle).sort()).toEqual(["b", "self"]);
    expect(trace.count).toBe(5);
    expect([...new Set(trace.ids)].length).toBe(5);
  });

  it("keeps spans with the same id, with children below the earliest", () => {
    const trace = model(
      span("twice", "", 0, 10, { SpanName: "first" }),
      span("twice", "", 5, 10, { SpanName: "second" }),
      span("child", "twice", 6, 7),
    );
    expect(nameOf(trace, trace.parent[at(trace, "child")] ?? -1)).toBe("first");
    expect(flagged(trace, Flag.Duplicate)).toEqual(["twice"]);
    expect(nameOf(trace, at(trace, "twice"))).toBe("first");
  });

  it("can be a chain of 100,000 spans", () => {
    const spans = Array.from({ length: 100_000 }, (_, depth) =>
      span(`s${depth}`, depth === 0 ? "" : `s${depth - 1}`, depth, 200_000 - depth),
    );
    const trace = model(...spans.slice(0, 1), ...spans.slice(1).reverse());
    expect(trace.maxDepth).toBe(99_999);
    expect(trace.end[0]).toBe(100_000);
    expect(trace.ids[99_999]).toBe("s99999");
  });

  it("is empty without spans", () => {
    expect(model().count).toBe(0);
  });
});

describe("times", () => {
  it("are relative to the earliest start, in nanoseconds", () => {
    const trace = model(
      span("b", "a", 0, 1, { Timestamp: "2026-11-21T10:00:01.000000003Z", Duration: 5 }),
      span("a", "", 0, 1, { Timestamp: "2026-11-21T09:59:59.999999999Z", Duration: 2_000_000_000 }),
    );
    expect([...trace.start]).toEqual([0, 1_000_000_004]);
    expect(trace.length).toBe(2_000_000_000);
  });

  it("of children outside their parents are flagged, and not changed", () => {
    const trace = model(
      span("parent", "", 100, 200),
      span("early", "parent", 90, 150),
      span("late", "parent", 150, 300),
      span("rounded", "parent", 110, 200, { Duration: 90_500 }),
    );
    expect(flagged(trace, Flag.BeforeParent)).toEqual(["early"]);
    expect(flagged(trace, Flag.AfterParent)).toEqual(["late"]);
    expect(trace.faults.greatestSkew).toBe(10_000);
    expect(trace.start[at(trace, "early")]).toBe(0);
  });

  it("are flagged if they are invalid", () => {
    const trace = model(span("a", "", 0, 1, { Timestamp: "soon" }), span("b", "", 0, 1, { Duration: null }));
    expect(flagged(trace, Flag.Untimed).sort()).toEqual(["a", "b"]);
  });

  it("do not affect other spans if they are invalid", () => {
    const withoutDuration = model(span("p", "", 0, 0, { Duration: null }), span("c", "p", 10, 90));
    const withoutStart = model(span("q", "", 50, 60, { Timestamp: "?" }), span("d", "q", 10, 90));
    const child = model(span("r", "", 0, 100), span("e", "r", 0, 40, { Timestamp: "?" }));
    for (const trace of [withoutDuration, withoutStart, child]) {
      expect(flagged(trace, Flag.BeforeParent | Flag.AfterParent)).toEqual([]);
      expect(trace.faults.greatestSkew).toBe(0);
    }
    expect(child.self[at(child, "r")]).toBe(100_000);
    expect(withoutDuration.self[at(withoutDuration, "p")]).toBe(0);
    expect(partsOf(child, "r")).toEqual([[0, 100]]);
    expect(partsOf(child, "e")).toEqual([]);
  });

  it("before the parent are flagged if only starts are known", () => {
    const trace = model(
      span("p", "", 50, 50, { Duration: null }),
      span("c", "p", 10, 10, { Duration: null }),
    );
    expect(flagged(trace, Flag.BeforeParent)).toEqual(["c"]);
    expect(flagged(trace, Flag.AfterParent)).toEqual([]);
  });

  it("are found under other names, and computed from the end if there is no duration", () => {
    const { Duration, SpanName, ServiceName, ...rest } = span("a", "", 0, 0);
    const trace = model({
      ...rest,
      operation_name: "GET",
      EndTime: "2026-11-21T10:00:00.000005Z",
      ResourceAttributes: { "service.name": "cart" },
    });
    expect([trace.duration[0], nameOf(trace, 0), serviceNameOf(trace, 0)]).toEqual([5_000, "GET", "cart"]);
    expect(model({ ...rest, duration_ms: 2 }).duration[0]).toBe(2_000_000);
    expect(nameOf(model(rest), 0)).toBe("(no name)");
  });
});

describe("the columns of the binding", () => {
  const named = { op: "GET /cart", svc: "cart", took_ns: 5_000, state: "Error", sort: "server" };
  const display = { name: "op", service: "svc", duration: "took_ns", status: "state", kind: "sort" };
  const only = (schema: TraceSchema, more: RawSpan) => {
    const { SpanName, ServiceName, Duration, StatusCode, ...rest } = span("a", "", 0, 1);
    const trace = traceOf("t", schema, [{ ...rest, ...more }]);
    return [nameOf(trace, 0), serviceNameOf(trace, 0), trace.duration[0], trace.troubled.length];
  };

  it("are shown", () => {
    expect(only({ ...SCHEMA, display }, named)).toEqual(["GET /cart", "cart", 5_000, 1]);
    expect(only(SCHEMA, named)).toEqual(["(no name)", "(no service)", 0, 0]);
  });

  it("take precedence over common names, and are in nanoseconds", () => {
    const both = { ...named, name: "other", service: "other", duration_ms: 7 };
    expect(only({ ...SCHEMA, display }, both)).toEqual(["GET /cart", "cart", 5_000, 1]);
    expect(only({ ...SCHEMA, display: { duration: "duration_ms" } }, both)[2]).toBe(7);
    expect(only(SCHEMA, both).slice(0, 3)).toEqual(["other", "other", 7_000_000]);
  });

  it("fall back to common names if they are missing or absent", () => {
    const usual = { name: "usual", service: "usual", duration_ms: 7, status: "Error" };
    const some = { name: null, service: "gone", duration: null };
    expect(only({ ...SCHEMA, display: some }, usual)).toEqual(["usual", "usual", 7_000_000, 1]);
  });
});

describe("self time", () => {
  it("excludes the time of children, concurrent children once, and ignores time outside of the span", () => {
    const trace = model(
      span("root", "", 0, 100),
      span("a", "root", 10, 40),
      span("b", "root", 30, 60),
      span("inside b's time", "root", 35, 50),
      span("outlives", "root", 90, 150),
    );
    expect(trace.self[0]).toBe((100 - 50 - 10) * 1_000);
  });

  it("is summed by service, greatest first", () => {
    const trace = model(
      span("root", "", 0, 100),
      span("db", "root", 10, 90, { ServiceName: "database", StatusCode: "Error" }),
    );
    expect(servicesBySelf(trace)).toEqual([
      { name: "database", spans: 1, errors: 1, self: 80_000 },
      { name: "shop", spans: 1, errors: 0, self: 20_000 },
    ]);
  });
});

describe("errors", () => {
  it("are statuses and exception events, and are counted before each span", () => {
    const trace = model(
      span("root", "", 0, 100),
      span("failed", "root", 10, 20, { StatusCode: "STATUS_CODE_ERROR" }),
      span("threw", "root", 30, 40, { "Events.Name": ["log", "exception"] }),
      span("fine", "root", 50, 60, { StatusCode: "Ok", "Events.Name": ["log"] }),
    );
    expect([...trace.troubled].map((one) => trace.ids[one])).toEqual(["failed", "threw"]);
    expect([...trace.troubledBefore]).toEqual([0, 0, 1, 2, 2]);
    expect(servicesBySelf(trace)[0]?.errors).toBe(2);
    expect(groupsOf(trace).reduce((sum, group) => sum + group.errors, 0)).toBe(2);
  });
});

describe("the critical path", () => {
  it("follows the child that ended last, and the parent while it waits for no child", () => {
    const trace = model(
      span("root", "", 0, 100),
      span("a", "root", 10, 40),
      span("faster", "root", 10, 30),
      span("b", "root", 50, 90),
      span("deep", "b", 60, 80),
    );
    expect(partsOf(trace, "root")).toEqual([
      [0, 10],
      [40, 50],
      [90, 100],
    ]);
    expect(partsOf(trace, "a")).toEqual([[10, 40]]);
    expect(partsOf(trace, "deep")).toEqual([[60, 80]]);
    expect(partsOf(trace, "b")).toEqual([
      [50, 60],
      [80, 90],
    ]);
    expect(partsOf(trace, "faster")).toEqual([]);
  });

  it("stays within the parents", () => {
    const trace = model(
      span("root", "", 100, 200),
      span("late", "root", 150, 300),
      span("early", "root", 50, 120),
      span("afterwards", "root", 250, 260),
    );
    // The path ends with the last root, not with spans that outlive it.
    expect(partsOf(trace, "root")).toEqual([[70, 100]]);
    expect(partsOf(trace, "late")).toEqual([[100, 150]]);
    expect(partsOf(trace, "early")).toEqual([[50, 70]]);
    expect(partsOf(trace, "afterwards")).toEqual([]);
  });

  it("covers a trace with one root exactly once", () => {
    let seed = 7;
    const random = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % below;
    };
    const spans = [span("0", "", 0, 100_000)];
    for (let one = 1; one < 500; one += 1) {
      const from = random(99_000);
      spans.push(span(String(one), String(random(one)), from, from + random(1_000)));
    }
    const { critical } = model(...spans);
    const sum = critical.from.reduce((total, from, place) => total + (critical.to[place] ?? 0) - from, 0);
    expect(sum).toBe(100_000_000);
  });
});

describe("100,000 spans", () => {
  it("are modelled within the time limit", () => {
    const spans = Array.from({ length: 100_000 }, (_, at) =>
      span(`s${at}`, at === 0 ? "" : `s${Math.floor((at - 1) / 5)}`, at, at + 1_000),
    );
    const began = performance.now();
    expect(traceOf("t", SCHEMA, spans).count).toBe(100_000);
    // A generous limit, because the test machine may be busy.
    expect(performance.now() - began).toBeLessThan(5_000);
  });
});

describe("data of exporters", () => {
  it("with a negative duration counts as 0 and is flagged, in signed and unsigned columns", () => {
    const took = (Duration: unknown) => model(span("s", "", 0, 1, { Duration }));
    for (const value of [new LosslessNumber("18446744073709360311"), "18446744073709360311", -191305]) {
      const trace = took(value);
      expect([trace.duration[0], trace.length, trace.faults.invalidDurations]).toEqual([0, 0, 1]);
      expect(flagged(trace, Flag.InvalidDuration)).toEqual(["s"]);
    }
    const longest = took(new LosslessNumber("9223372036854775807"));
    expect([longest.duration[0], longest.faults.invalidDurations]).toEqual([2 ** 63, 0]);
    expect(took(new LosslessNumber("9223372036854775808")).faults.invalidDurations).toBe(1);
    expect(took(5).faults.invalidDurations).toBe(0);
  });

  it("without a name gets a replacement", () => {
    for (const SpanName of ["", "  ", null]) {
      expect(nameOf(model(span("s", "", 0, 1, { SpanName })), 0)).toBe("(no name)");
    }
  });

  it("has the id of its spans, in whatever notation the trace was requested", () => {
    const spans = [span("s", "", 0, 1, { TraceId: "0af7" })];
    expect(traceOf("0AF7", SCHEMA, spans).id).toBe("0af7");
    expect(traceOf("0AF7", SCHEMA, []).id).toBe("0AF7");
  });
});
