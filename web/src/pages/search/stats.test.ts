import { describe, expect, it } from "vitest";
import { editText } from "./conditions";
import { facetTerm } from "./Facets";
import type { Field } from "./fields";
import { facetFields } from "./useStats";

const field = (name: string, type: Field["type"] = "string", map = ""): Field =>
  ({ ref: map === "" ? name : `${map}["${name}"]`, map, name, type, operators: ["eq"] }) as Field;

describe("facets", () => {
  it("are fields of text, columns first, without ids of traces and spans", () => {
    const fields = [
      field("TraceId"),
      field("ParentSpanId"),
      field("tenant", "string", "SpanAttributes"),
      field("Duration", "number"),
      field("ServiceName"),
      field("tags", "string_array"),
      field("trace_id"),
    ];
    expect(facetFields(fields).map(({ name }) => name)).toEqual(["ServiceName", "tags", "tenant"]);
  });

  it("are at most ten", () => {
    expect(facetFields(Array.from({ length: 30 }, (_, index) => field(`f${index}`)))).toHaveLength(10);
  });

  it("make conditions that the entry can show", () => {
    const texts = [false, true].map((isExclusion) => {
      const term = facetTerm(field("ServiceName"), "a b", isExclusion);
      return term === null ? null : editText(term);
    });
    expect(texts).toEqual(['ServiceName = "a b"', 'not ServiceName = "a b"']);
    const term = facetTerm(field("tags", "string_array"), "x", false);
    expect(term?.conditions[0]?.operator.name).toBe("has");
  });
});
