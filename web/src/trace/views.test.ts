import { describe, expect, it } from "vitest";
import { LosslessNumber, parseJson } from "../lib/json";
import { attributesOf, eventsOf, exceptionsOf, kindOf, linksOf, statusOf } from "./details";
import { matcherOf } from "./find";
import { flameLayout } from "./flame";
import { groupsOf, sortGroups } from "./groups";
import { buildTrace, type Trace } from "./model";
import { jsonOf, otlpOf, otlpValue } from "./otlp";
import {
  collapseOneLevel,
  expandAncestors,
  expandOneLevel,
  neighbour,
  rowOf,
  visibleRows,
  withCollapsed,
} from "./rows";
import { clampRange, isWholeRange, panRange, ticksOf, zoomRange } from "./scale";
import { SpanReader } from "./spanReader";
import { TEST_SCHEMA, testSpan } from "./testSpans";

const spans = [
  testSpan("root", "", 0, 100, { SpanKind: "Server" }),
  testSpan("a", "root", 10, 40, { SpanAttributes: { "http.route": "/Cart/{id}", code: "200" } }),
  testSpan("a1", "a", 15, 20),
  testSpan("b", "root", 20, 90, { ServiceName: "database", StatusCode: "Error", StatusMessage: "dead.lock" }),
  testSpan("b1", "b", 30, 60, { SpanName: "operation a1", ServiceName: "shop" }),
];
const trace = buildTrace("t", TEST_SCHEMA, spans);
const expanded = new Uint8Array(trace.count);
const visibleIds = (collapsed: Uint8Array) => [...visibleRows(trace, collapsed)].map((one) => trace.ids[one]);

describe("rows", () => {
  it("omit spans inside collapsed ones", () => {
    expect(visibleIds(expanded)).toEqual(["root", "a", "a1", "b", "b1"]);
    expect(visibleIds(withCollapsed(expanded, 1, true))).toEqual(["root", "a", "b", "b1"]);
    expect(visibleIds(withCollapsed(withCollapsed(expanded, 1, true), 0, true))).toEqual(["root"]);
  });

  it("are found for all spans, including those inside collapsed ones", () => {
    const rows = visibleRows(trace, withCollapsed(expanded, 1, true));
    expect([0, 1, 2, 3, 4].map((one) => rowOf(rows, one))).toEqual([0, 1, 1, 2, 3]);
  });

  it("collapse and expand by level", () => {
    const collapsedOnce = collapseOneLevel(trace, expanded);
    expect(visibleIds(collapsedOnce)).toEqual(["root", "a", "b"]);
    const collapsedFully = collapseOneLevel(trace, collapsedOnce);
    expect(visibleIds(collapsedFully)).toEqual(["root"]);
    expect(collapseOneLevel(trace, collapsedFully)).toBe(collapsedFully);
    expect(visibleIds(expandOneLevel(trace, collapsedFully))).toEqual(["root", "a", "b"]);
    expect(expandOneLevel(trace, expanded)).toBe(expanded);
  });

  it("show a span by expanding its ancestors", () => {
    expect(
      visibleIds(expandAncestors(trace, withCollapsed(withCollapsed(expanded, 0, true), 1, true), 2)),
    ).toContain("a1");
    expect(expandAncestors(trace, expanded, 2)).toBe(expanded);
  });

  it("have a next and a previous one in a selection, which wraps around", () => {
    const some = Int32Array.from([2, 5, 9]);
    expect([0, 2, 9].map((one) => neighbour(some, one, true))).toEqual([2, 5, 2]);
    expect([0, 2, 6].map((one) => neighbour(some, one, false))).toEqual([9, 9, 5]);
    expect(neighbour(new Int32Array(0), 3, true)).toBe(-1);
  });
});

describe("find", () => {
  const matchesOf = (where: Trace, text: string) => {
    const matches = matcherOf(where, text);
    return where.ids.filter((_, one) => matches?.(one) === true);
  };
  const matchingIds = (text: string) => matchesOf(trace, text);

  it.each([
    ["OPERATION A1", ["a1", "b1"]],
    ["database", ["b"]],
    ["/cart/{", ["a"]],
    ["http.ROUTE", ["a"]],
    ["code=20", ["a"]],
    ["code=404", []],
    ["dead.lock", ["b"]],
    ["dead*lock", []],
    ["b1", ["b1"]],
    ["  ", []],
  ])("%s", (text, ids) => expect(matchingIds(text)).toEqual(ids));

  it.each([
    ['said "no', true],
    ["C:\\dir\\file", true],
    ["exception.message", true],
    ["9223372036854775807", true],
    ["deeper still", true],
    ["order=inner", true],
    ["isLosslessNumber", false],
    ['"exception.message":', false],
  ])("%s in events and nested values: %s", (text, is) => {
    const rich = testSpan("x", "", 0, 1, {
      SpanAttributes: { big: new LosslessNumber("9223372036854775807"), order: { inner: ["deeper still"] } },
      "Events.Name": ["exception"],
      "Events.Attributes": [{ "exception.message": 'it said "no" at C:\\dir\\file' }],
    });
    expect(matchesOf(buildTrace("t", TEST_SCHEMA, [rich]), text)).toEqual(is ? ["x"] : []);
  });

  it("terminates for deeply nested values", () => {
    let value: unknown = "bottom";
    for (let depth = 0; depth < 100_000; depth += 1) {
      value = [value];
    }
    const deep = testSpan("x", "", 0, 1, { SpanAttributes: { value } });
    expect(matchesOf(buildTrace("t", TEST_SCHEMA, [deep]), "bottom")).toEqual(["x"]);
  });
});

describe("groups", () => {
  it("count by service and operation", () => {
    const groups = groupsOf(trace);
    expect(groups.find((group) => group.operation === "operation a1")).toEqual({
      service: "shop",
      operation: "operation a1",
      count: 2,
      total: 35_000,
      self: 35_000,
      max: 30_000,
      errors: 0,
      matches: 0,
      longest: 4,
    });
    const marks = Uint8Array.from({ length: trace.count }, (_, span) => (span === 4 ? 1 : 0));
    const matches = groupsOf(trace, marks).map((group) => [group.operation, group.matches]);
    expect(matches.filter(([, count]) => count !== 0)).toEqual([["operation a1", 1]]);
    expect(sortGroups(groups, "errors", true)[0]?.operation).toBe("operation b");
    expect(sortGroups(groups, "total", false)[0]?.operation).toBe("operation a");
  });
});

describe("the flame graph", () => {
  it("places spans without overlaps, each below its parent", () => {
    let seed = 3;
    const random = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % below;
    };
    const many = Array.from({ length: 2_000 }, (_, one) => {
      const from = random(90_000);
      return testSpan(String(one), one === 0 ? "" : String(random(one)), from, from + random(5_000));
    });
    const overlapping = buildTrace("t", TEST_SCHEMA, many);
    const flame = flameLayout(overlapping);
    for (let lane = 0; lane < flame.lanes; lane += 1) {
      let laneEnd = Number.NEGATIVE_INFINITY;
      for (const one of flame.spans.subarray(flame.first[lane], flame.first[lane + 1])) {
        expect(overlapping.start[one]).toBeGreaterThanOrEqual(laneEnd);
        laneEnd = (overlapping.start[one] ?? 0) + (overlapping.duration[one] ?? 0);
        const parent = overlapping.parent[one] ?? -1;
        expect(parent < 0 || (flame.lane[parent] ?? 0) < lane).toBe(true);
      }
    }
    expect(flame.spans.length).toBe(2_000);
  });

  it("uses a lane per concurrent span, fast", () => {
    const many = Array.from({ length: 20_000 }, (_, one) => testSpan(String(one), "", 0, 10));
    expect(flameLayout(buildTrace("t", TEST_SCHEMA, many)).lanes).toBe(20_000);
  });
});

describe("details", () => {
  const columns = trace.columns;
  const rich = testSpan("x", "", 0, 1, {
    SpanKind: "SPAN_KIND_CLIENT",
    StatusCode: 2,
    SpanAttributes: { b: "2", a: "1" },
    "Events.Timestamp": ["2026-11-21T10:00:00.5Z"],
    "Events.Name": ["exception"],
    "Events.Attributes": [
      { "exception.type": "E", "exception.message": "no", "exception.stacktrace": "at f" },
    ],
    "Links.TraceId": ["t2"],
    "Links.SpanId": ["s2"],
    "Links.TraceState": [""],
    "Links.Attributes": [{ why: "retry" }],
  });
  const full = buildTrace("t", TEST_SCHEMA, [rich]).columns;

  it("are attributes by key, events, exceptions and links", () => {
    expect(attributesOf(rich, full).map(({ key }) => key)).toEqual(["a", "b"]);
    expect(eventsOf(rich, full)).toHaveLength(1);
    expect(exceptionsOf(rich, full)[0]).toMatchObject({ type: "E", message: "no", stack: "at f" });
    expect(linksOf(rich, full)[0]).toMatchObject({ traceId: "t2", spanId: "s2" });
    expect([kindOf(rich, full), statusOf(rich, full)]).toEqual(["client", "error"]);
  });

  it("may be arrays of objects", () => {
    const objects = {
      ...testSpan("x", "", 0, 1),
      Events: [{ timestamp: "t", name: "log", attributes: { k: 1 } }],
    };
    const matchingIds = buildTrace("t", TEST_SCHEMA, [objects]).columns;
    expect(eventsOf(objects, { ...matchingIds, events: "Events" })[0]).toMatchObject({ name: "log" });
  });

  it("are empty if the table has no such columns", () => {
    expect([linksOf(spans[0] ?? {}, columns), kindOf({}, columns)]).toEqual([[], ""]);
  });
});

describe("OTLP", () => {
  it("has resources, scopes, hexadecimal ids, times as strings, and typed values", () => {
    const otlp = JSON.parse(
      otlpOf(
        buildTrace("t", TEST_SCHEMA, [
          testSpan("00f067aa0ba902b7", "", 0, 5, {
            ScopeName: "http",
            SpanKind: "Server",
            StatusCode: "Error",
            StatusMessage: "no",
            SpanAttributes: { n: 5, f: 1.5, t: true, s: "x", big: new LosslessNumber("9223372036854775807") },
            "Events.Timestamp": ["2026-11-21T10:00:00.000000001Z"],
            "Events.Name": ["log"],
            "Events.Attributes": [{}],
          }),
          testSpan("00f067aa0ba902b8", "00f067aa0ba902b7", 1, 2, { ServiceName: "cart" }),
        ]),
      ).join(""),
    );
    expect(otlp.resourceSpans).toHaveLength(2);
    expect(otlp.resourceSpans[0].resource.attributes).toEqual([
      { key: "service.name", value: { stringValue: "shop" } },
    ]);
    expect(otlp.resourceSpans[0].scopeSpans[0].scope).toEqual({ name: "http" });
    expect(otlp.resourceSpans[0].scopeSpans[0].spans[0]).toEqual({
      traceId: "0af7651916cd43dd8448eb211c80319c",
      spanId: "00f067aa0ba902b7",
      name: "operation 00f067aa0ba902b7",
      kind: 2,
      startTimeUnixNano: "1795255200000000000",
      endTimeUnixNano: "1795255200000005000",
      attributes: [
        { key: "big", value: { intValue: "9223372036854775807" } },
        { key: "f", value: { doubleValue: 1.5 } },
        { key: "n", value: { intValue: "5" } },
        { key: "s", value: { stringValue: "x" } },
        { key: "t", value: { boolValue: true } },
      ],
      events: [{ timeUnixNano: "1795255200000000001", name: "log", attributes: [] }],
      status: { code: 2, message: "no" },
    });
    expect(otlp.resourceSpans[1].scopeSpans[0].spans[0].parentSpanId).toBe("00f067aa0ba902b7");
  });

  it.each([
    ["9223372036854775807", { intValue: "9223372036854775807" }],
    ["-9223372036854775808", { intValue: "-9223372036854775808" }],
    ["18446744073709551615", { stringValue: "18446744073709551615" }],
    ["-9223372036854775809", { stringValue: "-9223372036854775809" }],
    ["1e25", { doubleValue: 1e25 }],
    ["9007199254740991", { intValue: "9007199254740991" }],
    ["-3", { intValue: "-3" }],
    ["0.5", { doubleValue: 0.5 }],
  ])("has only 64-bit integers: %s", (json, value) =>
    expect(otlpValue(parseJson(`[${json}]`))).toEqual({ arrayValue: { values: [value] } }),
  );

  it("has arrays and maps", () => {
    expect(otlpValue(["a", { b: 1 }])).toEqual({
      arrayValue: {
        values: [{ stringValue: "a" }, { kvlistValue: { values: [{ key: "b", value: { intValue: "1" } }] } }],
      },
    });
  });

  it("is offered next to the JSON of the response", () => {
    expect(JSON.parse(jsonOf(trace).join(""))).toEqual({ schema: TEST_SCHEMA, spans });
  });
});

describe("a response that arrives in chunks", () => {
  const hostile = [
    testSpan("a", "", 0, 1, { SpanName: 'quote " backslash \\ brackets ]}[{ "spans":[', n: 1 }),
    testSpan("b", "a", 0, 1, { SpanName: "\\\\", SpanAttributes: { list: [[1], { x: [] }], text: '\\"' } }),
  ];
  const body = JSON.stringify({ schema: { ...TEST_SCHEMA, version: 1 }, spans: hostile, more: [1, [2]] });

  it.each([1, 2, 3, 7, 64, 100_000])("of %d characters", (size) => {
    const reader = new SpanReader();
    for (let from = 0; from < body.length; from += size) {
      reader.push(body.slice(from, from + size));
    }
    expect(reader.end()).toEqual({ schema: { ...TEST_SCHEMA, version: 1 }, spans: [], more: [1, [2]] });
    expect(reader.spans).toEqual(hostile);
  });

  it("keeps large integers", () => {
    const reader = new SpanReader();
    reader.push('{"spans": [ {"n":9223372036854775807} , {"n":1} ] }');
    expect(reader.spans).toEqual([{ n: new LosslessNumber("9223372036854775807") }, { n: 1 }]);
  });

  it("is rejected if it is incomplete", () => {
    for (const end of [0, 1, 30, body.length - 10, body.length - 1]) {
      const reader = new SpanReader();
      reader.push(body.slice(0, end));
      expect(() => reader.end()).toThrow();
    }
  });

  it("may have no spans", () => {
    const reader = new SpanReader();
    reader.push('{"schema":{},"spans":[]}');
    expect(reader.end()).toEqual({ schema: {}, spans: [] });
  });
});

describe("the scale", () => {
  it("has ticks at round times", () => {
    expect(ticksOf({ from: 0, to: 1_000 }, 5)).toEqual([0, 200, 400, 600, 800, 1_000]);
    expect(ticksOf({ from: 1_234, to: 1_239 }, 5)).toEqual([1_234, 1_235, 1_236, 1_237, 1_238, 1_239]);
    expect(ticksOf({ from: 5, to: 5 }, 5)).toEqual([]);
  });

  it("zooms and pans within the trace", () => {
    expect(zoomRange({ from: 0, to: 1_000 }, 0.5, 1_000)).toEqual({ from: 250, to: 750 });
    expect(zoomRange({ from: 250, to: 750 }, 4, 1_000)).toEqual({ from: 0, to: 1_000 });
    expect(panRange({ from: 100, to: 300 }, -200, 1_000)).toEqual({ from: 0, to: 200 });
    expect(clampRange({ from: 500, to: 500 }, 1_000)).toEqual({ from: 450, to: 550 });
    expect(clampRange({ from: 70, to: 20 }, 50)).toEqual({ from: 0, to: 50 });
    expect(isWholeRange({ from: 0, to: 50 }, 50)).toBe(true);
  });
});
