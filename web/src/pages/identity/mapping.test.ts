import { describe, expect, it } from "vitest";
import { draftOf, mappingOf, newRow, parseClaims, repeatedNames } from "./mapping";

describe("a mapping", () => {
  it("survives being edited", () => {
    const mapping = {
      roles: [
        { role: "a", when: "claims.x" },
        { role: "a", when: "claims.y" },
      ],
      attributes: JSON.parse('{"team": "claims.team", "__proto__": "claims.z"}') as Record<string, string>,
    };
    expect(mappingOf(draftOf(mapping))).toEqual(mapping);
    expect(Object.keys(mappingOf(draftOf(mapping)).attributes ?? {})).toEqual(["team", "__proto__"]);
  });

  it("has each attribute once", () => {
    expect(repeatedNames([newRow("a"), newRow("b"), newRow("a"), newRow("a")])).toEqual(["a"]);
  });
});

describe("pasted claims", () => {
  it("are JSON or a token", () => {
    expect(parseClaims(' {"sub": "1"} ')).toEqual({ sub: "1" });
    const payload = btoa(String.fromCharCode(...new TextEncoder().encode('{"name": "Zoë"}')));
    expect(parseClaims(`e30.${payload.replaceAll("=", "")}.c2ln`)).toEqual({ name: "Zoë" });
    for (const text of ["", "[]", "null", "1", "x", "a.b.c"]) {
      expect(parseClaims(text), text).toBeTypeOf("string");
    }
  });
});
