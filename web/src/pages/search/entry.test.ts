import { describe, expect, it } from "vitest";
import { addTypedConditions } from "./entry";
import type { Field } from "./fields";
import { parseConditions } from "./parse";
import { rangeOf, withConditions } from "./url";
import { zoomsLeadingTo } from "./zoomHistory";

const field = (name: string): Field => ({ map: "", name, ref: name, type: "string", operators: ["eq"] });
const FIELDS = [field("ServiceName"), field("SpanName")];
const parse = (text: string) => parseConditions(text, FIELDS, 100);

function addText(before: string, editing: number | null, text: string, maxConditions = 3) {
  const next = addTypedConditions(parse(before), editing, text, FIELDS, { maxConditions, maxValues: 100 });
  return "error" in next ? next.error : withConditions({}, next.conditions, FIELDS).where;
}

describe("a typed condition", () => {
  const both = withConditions({}, parse("ServiceName = a and SpanName = b"), FIELDS).where;

  it("is added to the existing conditions", () => {
    expect(addText("ServiceName = a", null, "SpanName = b")).toBe(both);
  });

  it("replaces the edited condition", () => {
    expect(addText("ServiceName = x and SpanName = b", 0, "ServiceName = a")).toBe(both);
  });

  it("is not added twice", () => {
    expect(addText("ServiceName = a and SpanName = b", null, "SpanName = b")).toBe(both);
  });

  it("is rejected if it is invalid or exceeds the limit", () => {
    expect(addText("ServiceName = a", null, "nonsense")).toContain("nonsense");
    expect(addText("ServiceName = a", null, "SpanName = b", 1)).toMatch(/1 conditions/);
  });
});

describe("zooming back", () => {
  const [hour, near, nearer] = [
    rangeOf({}),
    rangeOf({ from: "2026-11-21T23:00:00Z", to: "2026-11-21T23:10:00Z" }),
    rangeOf({ from: "2026-11-21T23:02:00Z", to: "2026-11-21T23:03:00Z" }),
  ];
  const zooms = [
    { from: hour, to: near },
    { from: near, to: nearer },
  ];

  it("goes back one step", () => {
    expect(zoomsLeadingTo(zooms, { ...nearer }).at(-1)?.from).toEqual(near);
    expect(zoomsLeadingTo(zooms, { ...near }).at(-1)?.from).toEqual(hour);
  });

  it("has no step after zooming back, or for another range", () => {
    expect(zoomsLeadingTo(zooms, { ...hour })).toEqual([]);
    expect(zoomsLeadingTo(zooms, { kind: "last", text: "6h" })).toEqual([]);
  });
});
