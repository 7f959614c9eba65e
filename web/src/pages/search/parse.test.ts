import { describe, expect, it } from "vitest";
import { LosslessNumber } from "../../lib/json";
import { editText, errorCondition, toWire, toWireFilter, urlText, type WireCondition } from "./conditions";
import { type Field, shortName } from "./fields";
import { parseConditions, stageOf } from "./parse";

const STRING = ["eq", "ne", "in", "not_in", "prefix", "exists", "not_exists"];
const NUMBER = ["eq", "ne", "gt", "gte", "lt", "lte", "between"];
const field = (map: string, name: string, type: Field["type"], operators: string[]): Field => ({
  map,
  name,
  ref: map === "" ? name : `${map}[${JSON.stringify(name)}]`,
  type,
  operators,
});
const FIELDS = [
  field("", "ServiceName", "string", STRING),
  field("", "SpanName", "string", STRING),
  field("", "StatusCode", "string", STRING),
  field("", "Duration", "number", NUMBER),
  field("", "Events.Name", "string_array", ["has", "has_any", "has_all"]),
  field("SpanAttributes", "http.status_code", "number", NUMBER),
  field("SpanAttributes", "http.route", "string", STRING),
  field("SpanAttributes", "http.route.pattern", "string", STRING),
  field("SpanAttributes", "odd key", "string", STRING),
  field("SpanAttributes", "retry", "boolean", ["eq", "ne"]),
  field("ResourceAttributes", "env", "string", STRING),
  field("SpanAttributes", "env", "string", STRING),
];

function toWireConditions(text: string): (string | WireCondition)[] {
  return parseConditions(text, FIELDS, 100).flatMap((parsed): (string | WireCondition)[] =>
    "term" in parsed ? parsed.term.conditions.map(toWire) : [parsed.error],
  );
}

describe("a typed condition", () => {
  it.each([
    ["ServiceName = checkout", { name: "ServiceName", op: "eq", value: "checkout" }],
    ["service=checkout", { name: "ServiceName", op: "eq", value: "checkout" }],
    ["SERVICENAME == 'check out'", { name: "ServiceName", op: "eq", value: "check out" }],
    ["SpanName = GET /cart", { name: "SpanName", op: "eq", value: "GET /cart" }],
    ["SpanName starts with GET", { name: "SpanName", op: "prefix", value: "GET" }],
    [
      'SpanAttributes["http.status_code"] = 500',
      { map: "SpanAttributes", name: "http.status_code", op: "eq", value: 500 },
    ],
    ["http.status_code>=500", { map: "SpanAttributes", name: "http.status_code", op: "gte", value: 500 }],
    [
      "SpanAttributes['http.route'] != /cart",
      { map: "SpanAttributes", name: "http.route", op: "ne", value: "/cart" },
    ],
    [
      "SpanAttributes.http.route.pattern exists",
      { map: "SpanAttributes", name: "http.route.pattern", op: "exists" },
    ],
    ["http.route does not exist", { map: "SpanAttributes", name: "http.route", op: "not_exists" }],
    ["odd key = 1", { map: "SpanAttributes", name: "odd key", op: "eq", value: "1" }],
    ['service in a, b ,"c, d"', { name: "ServiceName", op: "in", values: ["a", "b", "c, d"] }],
    ["service not in (a,b)", { name: "ServiceName", op: "not_in", values: ["a", "b"] }],
    [
      "http.status_code between 500 and 599",
      { map: "SpanAttributes", name: "http.status_code", op: "between", values: [500, 599] },
    ],
    ["Duration > 1.5s", { name: "Duration", op: "gt", value: 1.5e9 }],
    ["retry is TRUE", { map: "SpanAttributes", name: "retry", op: "eq", value: true }],
    ["Events.Name has exception", { name: "Events.Name", op: "has", value: "exception" }],
    ['service = ""', { name: "ServiceName", op: "eq", value: "" }],
    ['service = "a\\"b\\u0041"', { name: "ServiceName", op: "eq", value: 'a"bA' }],
  ])("%s", (text, expected) => expect(toWireConditions(text)).toEqual([expected]));

  it("keeps integers that JavaScript would round", () => {
    expect(toWireConditions("http.status_code = 9223372036854775807")).toEqual([
      {
        map: "SpanAttributes",
        name: "http.status_code",
        op: "eq",
        value: new LosslessNumber("9223372036854775807"),
      },
    ]);
  });

  it.each([
    ["1700010800.901161215", new LosslessNumber("1700010800.901161215")],
    ["+0012345678901234.56789", new LosslessNumber("12345678901234.56789")],
    [".12345678901234567", new LosslessNumber("0.12345678901234567")],
    ["12345678901234567.", new LosslessNumber("12345678901234567")],
    ["9007199254740991", 9007199254740991],
    ["0.1", 0.1],
  ])("keeps the digits of %s", (text, value) => {
    expect(toWireConditions(`http.status_code = ${text}`)).toMatchObject([{ value }]);
  });

  it.each([
    ["foo = 1", "“foo” is not a searchable field"],
    ["http.rout = 1", 'Did you mean SpanAttributes["http.route"]'],
    ["env = prod", "“env” is not a searchable field"],
    ["ServiceName", "Add an operator after ServiceName: =, !="],
    ["ServiceName like x", "does not begin with an operator. ServiceName is text"],
    ["ServiceName contains x", "“has” does not fit ServiceName, which is text"],
    ["ServiceName =", 'Type a value after “=”. Empty text is ""'],
    ['ServiceName = "open', "The closing quote is missing"],
    ['ServiceName = "a" b', "“b” was not expected here"],
    ["http.status_code = many", "is a number, not “many”"],
    ["http.status_code = 5s", "is a number, not “5s”"],
    ["retry = perhaps", "true or false"],
    ["http.status_code between 1", "takes two numbers"],
    ["= 4", "Start with the name of a field"],
  ])("rejects %s", (text, expected) => {
    expect(toWireConditions(text)).toHaveLength(1);
    expect(toWireConditions(text)[0]).toContain(expected);
  });

  it("has no more values than allowed", () => {
    const [parsed] = parseConditions("service in a, b, c", FIELDS, 2);
    expect(parsed).toMatchObject({
      error: expect.stringContaining("3 values: a condition may have at most 2"),
    });
  });
});

describe("several conditions", () => {
  it("are joined by and", () => {
    expect(
      toWireConditions("service = a and http.status_code between 1, 2 AND retry = true && SpanName = x y"),
    ).toMatchObject([
      { name: "ServiceName", value: "a" },
      { op: "between", values: [1, 2] },
      { name: "retry", value: true },
      { name: "SpanName", value: "x y" },
    ]);
  });

  it("are all returned if one is invalid", () => {
    expect(toWireConditions("nothing = a and service = b")).toMatchObject([
      expect.any(String),
      { value: "b" },
    ]);
  });

  it("are unchanged after a round trip through the URL", () => {
    const texts = [
      'ServiceName in "a and b", "c, d", "and", "quote\\"", "\\u202e"',
      "ServiceName exists",
      "SpanAttributes.http.status_code between 1, 99999999999999999999",
      'SpanAttributes["odd key"] = x',
      'ResourceAttributes["env"] != ""',
      "Events.Name has any of a, b",
      "retry = false",
      "not ServiceName = probe",
      '(ServiceName = "a)" and retry = true and Events.Name has any of (a, b) and SpanName exists)',
    ];
    const first = parseConditions(texts.join(" and "), FIELDS, 100).map((parsed) => {
      if (!("term" in parsed)) throw new Error(parsed.error);
      return parsed.term;
    });
    expect(first).toHaveLength(texts.length);
    const urlTextOfAll = urlText(first, FIELDS);
    const filterOf = (text: string) =>
      toWireFilter(
        parseConditions(text, FIELDS, 100).flatMap((parsed) => ("term" in parsed ? [parsed.term] : [])),
        [],
      );
    expect(filterOf(urlTextOfAll)).toEqual(toWireFilter(first, []));
    expect(filterOf(first.map(editText).join(" and "))).toEqual(toWireFilter(first, []));
  });

  it("never throw for invalid URLs", () => {
    for (const text of [
      "",
      " ",
      "and",
      "and and",
      "&&",
      "((",
      '"',
      "service in (",
      "\u0000",
      "service = a and",
      "x".repeat(5000),
    ]) {
      expect(Array.isArray(toWireConditions(text))).toBe(true);
    }
  });
});

describe("a filter", () => {
  const filterOf = (text: string) => {
    const terms = parseConditions(text, FIELDS, 100).map((parsed) => {
      if (!("term" in parsed)) throw new Error(parsed.error);
      return parsed.term;
    });
    return toWireFilter(terms, []);
  };
  const service = (value: string) => ({ name: "ServiceName", op: "eq", value });
  const retry = { map: "SpanAttributes", name: "retry", op: "eq", value: true };

  it("has conditions, groups for one span, and exclusions", () => {
    expect(filterOf("service = a and (service = b and retry = true) and not service = c")).toEqual({
      conditions: [service("a")],
      same_span: [[service("b"), retry]],
      none: [service("c")],
    });
    expect(filterOf("(service = a)")).toEqual({ conditions: [service("a")] });
    expect(filterOf("NOT (service = a )")).toEqual({ conditions: [], none: [service("a")] });
    expect(filterOf("( service in (a, b) and service = c d )")).toMatchObject({
      same_span: [[{ op: "in", values: ["a", "b"] }, { value: "c d" }]],
    });
  });

  it("may have values with brackets", () => {
    expect(filterOf("(SpanName = charge(int) and retry = true)")).toMatchObject({
      same_span: [[{ value: "charge(int)" }, retry]],
    });
    expect(filterOf("SpanName = charge(int)")).toMatchObject({ conditions: [{ value: "charge(int)" }] });
  });

  it("excludes also if a field is called not", () => {
    const fields = [field("", "not", "string", STRING), ...FIELDS];
    const [parsed] = parseConditions("not ServiceName = a", fields, 100);
    expect(parsed).toMatchObject({
      term: { isExclusion: true, conditions: [{ field: { name: "ServiceName" } }] },
    });
  });

  it("may have a field that begins like an exclusion", () => {
    const fields = [field("", "not", "string", STRING), ...FIELDS];
    const [parsed] = parseConditions("not = a", fields, 100);
    expect(parsed).toMatchObject({ term: { isExclusion: false, conditions: [{ field: { name: "not" } }] } });
  });

  it.each([
    ["(service = a and retry = true", "closing bracket is missing"],
    ["not (service = a and retry = true)", "“not” takes one condition"],
    ["(foo = 1 and retry = true) and service = b", "“foo” is not a searchable field"],
    ["()", "Start with the name of a field"],
    ["(service = charge(int and retry = true)", "The closing bracket is missing"],
    ['(service = "a"b and retry = true)', "closing bracket"],
    ["service = a)", "Put a value with a single bracket in quotes"],
    ["not", "“not” is not a searchable field"],
  ])("%s is rejected", (text, error) => {
    const [first, ...others] = parseConditions(text, FIELDS, 100);
    expect(first).toMatchObject({ error: expect.stringContaining(error) });
    expect(others.every((parsed) => "term" in parsed)).toBe(true);
  });
});

describe("an incomplete entry", () => {
  it.each([
    ["", "field", ""],
    ["serv", "field", "serv"],
    ["ServiceName", "field", "ServiceName"],
    ["ServiceName ", "operator", ""],
    ["ServiceName no", "operator", "no"],
    ["ServiceName in", "operator", "in"],
    ["ServiceName =", "value", ""],
    ["ServiceName = ch", "value", "ch"],
    ['ServiceName = "ch', "value", "ch"],
    ["ServiceName = a and ser", "field", "ser"],
    ["ServiceName in a, b", "value", "b"],
    ["ServiceName in a, ", "value", ""],
    ["not serv", "field", "serv"],
    ["not ServiceName = ch", "value", "ch"],
    ["(ServiceName = a and ser", "field", "ser"],
    ["(ServiceName = a) and ser", "field", "ser"],
  ])("%s", (text, kind, partial) => expect(stageOf(text, FIELDS)).toMatchObject({ kind, partial }));

  it("is in a group until its brackets are closed", () => {
    expect(stageOf("(ServiceName = a", FIELDS).isInGroup).toBe(true);
    expect(stageOf("(ServiceName = a) and retry = t", FIELDS).isInGroup).toBe(false);
  });

  it("has the previous values", () => {
    expect(stageOf("ServiceName in a, b, c", FIELDS)).toMatchObject({ values: ["a", "b"] });
    expect(stageOf('ServiceName in "a", ', FIELDS)).toMatchObject({ values: ["a"] });
  });
});

describe("fields", () => {
  it("have short names if these are unambiguous", () => {
    const shortNameOf = (ref: string) => {
      const candidateField = FIELDS.find((candidate) => candidate.ref === ref);
      return candidateField === undefined ? "" : shortName(candidateField, FIELDS);
    };
    expect(shortNameOf('SpanAttributes["http.route"]')).toBe("SpanAttributes.http.route");
    expect(shortNameOf('SpanAttributes["odd key"]')).toBe('SpanAttributes["odd key"]');
  });

  it("with the status allow “errors only”", () => {
    expect(errorCondition(FIELDS)).toMatchObject({ name: "StatusCode", op: "in" });
    expect(errorCondition(FIELDS.slice(0, 2))).toBeNull();
  });
});
