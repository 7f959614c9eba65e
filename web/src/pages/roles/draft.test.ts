import { describe, expect, it } from "vitest";
import {
  diffDrafts,
  draftOf,
  duplicatePolicy,
  movePolicy,
  newPolicy,
  requestOf,
  sameDraft,
  validateDraft,
  validateRoleName,
} from "./draft";

const stored = draftOf([
  { title: "A", expression: "a" },
  { title: "B", expression: "b", description: "about b" },
  { title: "C", expression: "c" },
]);
const titles = (draft: readonly { title: string }[]) => draft.map(({ title }) => title);

describe("a draft", () => {
  it("without changes equals the stored role", () => {
    expect(sameDraft(stored, draftOf(requestOf(stored).policies))).toBe(true);
    expect(requestOf(stored).policies[0]).toEqual({ title: "A", expression: "a" });
  });

  it("is reordered, and unchanged by a move beyond its ends", () => {
    expect(titles(movePolicy(stored, 0, 1))).toEqual(["B", "A", "C"]);
    expect(titles(movePolicy(stored, 0, -1))).toEqual(["A", "B", "C"]);
    expect(titles(movePolicy(stored, 2, 3))).toEqual(["A", "B", "C"]);
  });

  it("gives copies unique titles", () => {
    expect(titles(duplicatePolicy(duplicatePolicy(stored, 0), 0))).toEqual([
      "A",
      "A (copy 2)",
      "A (copy)",
      "B",
      "C",
    ]);
  });
});

describe("missing input", () => {
  it("is reported by policy", () => {
    expect(validateDraft(stored, false)).toBeNull();
    expect(validateDraft([...stored, newPolicy({ title: " ", expression: "a" })], false)).toBe(
      "Policy 4 needs a title.",
    );
    expect(validateDraft([newPolicy({ title: "a" })], false)).toBe("Policy 1 needs an expression.");
  });

  it("is at least one policy, except for the built-in role", () => {
    expect(validateDraft([], true)).toBeNull();
    expect(validateDraft([], false)).toContain("needs a policy");
  });
});

describe("differences", () => {
  const kinds = (differences: ReturnType<typeof diffDrafts>) =>
    differences.policies.map((a) => `${a.kind} ${a.policy.title}`);

  it("are empty for equal versions", () => {
    expect(diffDrafts(stored, [...stored])).toEqual({ policies: [], reordered: false });
  });

  it("are added, changed and removed policies", () => {
    const [a, b] = stored;
    if (a === undefined || b === undefined) throw new Error("no policies");
    const after = [{ ...a, expression: "a && d" }, newPolicy({ title: "N", expression: "n" }), b];
    expect(kinds(diffDrafts(stored, after))).toEqual(["changed A", "added N", "removed C"]);
    expect(diffDrafts(stored, after).reordered).toBe(false);
  });

  it("include a change of the order", () => {
    expect(diffDrafts(stored, movePolicy(stored, 0, 2))).toEqual({ policies: [], reordered: true });
  });

  it("match a policy at another position of the other version", () => {
    const theirs = draftOf([
      { title: "N", expression: "n" },
      { title: "A", expression: "a" },
    ]);
    expect(kinds(diffDrafts(theirs, stored.slice(0, 1)))).toEqual(["removed N"]);
  });
});

describe("a role's name", () => {
  it.each([
    ["on-call.eu_1", null],
    ["", "A role needs a name."],
    ["Oncall", null],
    ["onCall", null],
    ["-a", "It must begin with a letter or a digit."],
    ["on call", "A space is not allowed: only A-Z, a-z, 0-9, dot, underscore and hyphen."],
    ["a😀", "“😀” is not allowed: only A-Z, a-z, 0-9, dot, underscore and hyphen."],
    ["a\u202eb", "“⟨U+202E⟩” is not allowed: only A-Z, a-z, 0-9, dot, underscore and hyphen."],
    ["a".repeat(65), "At most 64 characters; these are 65."],
  ])("%s", (name, error) => expect(validateRoleName(name)).toBe(error));
});
