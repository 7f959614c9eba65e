import { describe, expect, it } from "vitest";
import { attributeReference, offers, type Vocabulary } from "./completion";

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

const at = (before: string, asked = false) => {
  const found = offers(before, vocabulary, asked);
  return found === null ? null : { from: found.from, texts: found.offers.map(({ text }) => text) };
};

describe("completion", () => {
  it("offers fields by their beginning", () => {
    expect(at("Ser")?.texts[0]).toBe("ServiceName");
  });

  it("offers keys of a map by what they are called", () => {
    expect(at("tenant")).toMatchObject({
      from: 0,
      texts: expect.arrayContaining(['SpanAttributes["tenant.id"]']),
    });
  });

  it("offers the keys of a map in its bracket, in place of the whole reference", () => {
    expect(at('ServiceName == "a" && SpanAttributes["')).toEqual({
      from: 22,
      texts: ['SpanAttributes["tenant.id"]', 'SpanAttributes["env"]'],
    });
    expect(at('SpanAttributes["te')?.texts).toEqual(['SpanAttributes["tenant.id"]']);
    expect(at("SpanAttributes.")?.texts).toEqual([]);
  });

  it("offers members of the caller", () => {
    expect(at("x in user.")).toEqual({
      from: 5,
      texts: ["user.attributes.team", 'user.attributes["cost centre"]', "user.username", "user.roles"],
    });
    expect(at("x in user.attributes.te")?.texts).toEqual(["user.attributes.team"]);
  });

  it("offers functions of a string, of a list, and none of a boolean", () => {
    expect(at("ServiceName.st")).toEqual({
      from: 12,
      texts: ['startsWith("")', 'endsWith("")', 'contains("")', 'matches("^")'],
    });
    expect(at("Events.Name.")?.texts).toEqual(["exists(v, )", "all(v, )", "exists_one(v, )"]);
    expect(at("user.roles.ex")?.texts).toEqual(["exists(v, )", "all(v, )", "exists_one(v, )"]);
    expect(at("Sampled.")?.texts).toEqual([]);
  });

  it("offers no numbers, which policies do not have", () => {
    expect(at("Dur")?.texts).not.toContain("Duration");
  });

  it("is silent in text and remarks", () => {
    expect(at('ServiceName == "Ser')).toBeNull();
    expect(at("true // Ser")).toBeNull();
  });

  it("offers everything where nothing is written, only when asked", () => {
    expect(at("ServiceName == ")).toBeNull();
    expect(at("ServiceName == ", true)?.texts).toContain("user.roles");
  });
});

describe("an attribute", () => {
  it("is named by a dot, or in quotes", () => {
    expect(attributeReference("team")).toBe("user.attributes.team");
    expect(attributeReference('a "b"')).toBe('user.attributes["a \\"b\\""]');
  });
});
