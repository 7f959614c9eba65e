import { describe, expect, it } from "vitest";
import { attributeReference, completionsAtEnd, type Vocabulary } from "./completion";

const vocabulary: Vocabulary = {
  fields: [
    { ref: "ServiceName", type: "string" },
    { ref: "Events.Name", type: "string_array" },
    { ref: 'SpanAttributes["tenant.id"]', type: "string" },
    { ref: 'SpanAttributes["env"]', type: "string" },
    { ref: "Sampled", type: "boolean" },
    { ref: "Duration", type: "number" },
  ],
  attributes: ["team", "cost centre"],
};

const completionsAt = (before: string, explicit = false) => {
  const completions = completionsAtEnd(before, vocabulary, explicit);
  return completions === null
    ? null
    : { from: completions.from, texts: completions.items.map(({ text }) => text) };
};

describe("completion", () => {
  it("offers fields by prefix", () => {
    expect(completionsAt("Ser")?.texts[0]).toBe("ServiceName");
  });

  it("offers map keys by their name alone", () => {
    expect(completionsAt("tenant")).toMatchObject({
      from: 0,
      texts: expect.arrayContaining(['SpanAttributes["tenant.id"]']),
    });
  });

  it("offers the keys of a map within its bracket, as replacements of the whole reference", () => {
    expect(completionsAt('ServiceName == "a" && SpanAttributes["')).toEqual({
      from: 22,
      texts: ['SpanAttributes["tenant.id"]', 'SpanAttributes["env"]'],
    });
    expect(completionsAt('SpanAttributes["te')?.texts).toEqual(['SpanAttributes["tenant.id"]']);
    expect(completionsAt("SpanAttributes.")?.texts).toEqual([]);
  });

  it("offers members of the caller", () => {
    expect(completionsAt("x in user.")).toEqual({
      from: 5,
      texts: ["user.attributes.team", 'user.attributes["cost centre"]', "user.username", "user.roles"],
    });
    expect(completionsAt("x in user.attributes.te")?.texts).toEqual(["user.attributes.team"]);
  });

  it("offers functions for a string and a list, and none for a boolean", () => {
    expect(completionsAt("ServiceName.st")).toEqual({
      from: 12,
      texts: ['startsWith("")', 'endsWith("")', 'contains("")', 'matches("^")'],
    });
    expect(completionsAt("Events.Name.")?.texts).toEqual(["exists(v, )", "all(v, )", "exists_one(v, )"]);
    expect(completionsAt("user.roles.ex")?.texts).toEqual(["exists(v, )", "all(v, )", "exists_one(v, )"]);
    expect(completionsAt("Sampled.")?.texts).toEqual([]);
  });

  it("offers no numeric fields, which policies cannot use", () => {
    expect(completionsAt("Dur")?.texts).not.toContain("Duration");
  });

  it("offers nothing in strings and comments", () => {
    expect(completionsAt('ServiceName == "Ser')).toBeNull();
    expect(completionsAt("true // Ser")).toBeNull();
  });

  it("offers everything at an empty position only on request", () => {
    expect(completionsAt("ServiceName == ")).toBeNull();
    expect(completionsAt("ServiceName == ", true)?.texts).toContain("user.roles");
  });
});

describe("an attribute reference", () => {
  it("uses a dot, or brackets with quotes", () => {
    expect(attributeReference("team")).toBe("user.attributes.team");
    expect(attributeReference('a "b"')).toBe('user.attributes["a \\"b\\""]');
  });
});
