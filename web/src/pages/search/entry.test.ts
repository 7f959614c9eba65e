import { describe, expect, it } from "vitest";
import { withTyped } from "./entry";
import type { Field } from "./fields";
import { readConditions } from "./parse";
import { rangeOf, withReads } from "./url";
import { zoomsTo } from "./zoom";

const field = (name: string): Field => ({ map: "", name, ref: name, type: "string", operators: ["eq"] });
const FIELDS = [field("ServiceName"), field("SpanName")];
const read = (text: string) => readConditions(text, FIELDS, 100);

function typed(before: string, editing: number | null, text: string, maxConditions = 3) {
  const next = withTyped(read(before), editing, text, FIELDS, { maxConditions, maxValues: 100 });
  return "problem" in next ? next.problem : withReads({}, next.reads, FIELDS).where;
}

describe("a typed condition", () => {
  const both = withReads({}, read("ServiceName = a and SpanName = b"), FIELDS).where;

  it("is added to the existing conditions", () => {
    expect(typed("ServiceName = a", null, "SpanName = b")).toBe(both);
  });

  it("replaces the edited condition", () => {
    expect(typed("ServiceName = x and SpanName = b", 0, "ServiceName = a")).toBe(both);
  });

  it("is not added twice", () => {
    expect(typed("ServiceName = a and SpanName = b", null, "SpanName = b")).toBe(both);
  });

  it("is rejected if it is invalid or exceeds the limit", () => {
    expect(typed("ServiceName = a", null, "nonsense")).toContain("nonsense");
    expect(typed("ServiceName = a", null, "SpanName = b", 1)).toMatch(/1 conditions/);
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
    expect(zoomsTo(zooms, { ...nearer }).at(-1)?.from).toEqual(near);
    expect(zoomsTo(zooms, { ...near }).at(-1)?.from).toEqual(hour);
  });

  it("has no step after zooming back, or for another range", () => {
    expect(zoomsTo(zooms, { ...hour })).toEqual([]);
    expect(zoomsTo(zooms, { kind: "last", text: "6h" })).toEqual([]);
  });
});
