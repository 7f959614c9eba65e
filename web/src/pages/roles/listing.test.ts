import { describe, expect, it } from "vitest";
import { countOf } from "../../lib/numbers";
import { filterRoles, namesText } from "./listing";

const role = (name: string, title = "", expression = "") => ({
  name,
  policies: [{ title, expression }],
  revision: 1,
  updated_at: "",
});

describe("the list of roles", () => {
  it("is searched by name, title and expression", () => {
    const roles = [role("support"), role("a", "Own Team"), role("b", "", 'ServiceName == "x"')];
    expect(filterRoles(roles, "SUPP").map(({ name }) => name)).toEqual(["support"]);
    expect(filterRoles(roles, "team ").map(({ name }) => name)).toEqual(["a"]);
    expect(filterRoles(roles, "servicename").map(({ name }) => name)).toEqual(["b"]);
    expect(filterRoles(roles, "")).toHaveLength(3);
  });

  it("formats counts and members", () => {
    expect(countOf(0, "member")).toBe("0 members");
    expect(countOf(1, "member")).toBe("1 member");
    expect(countOf(1234, "member")).toBe("1,234 members");
    expect(namesText(["a", "b", "c", "d", "e"])).toBe("a, b, c, 2 more");
    expect(namesText([])).toBe("");
  });
});
