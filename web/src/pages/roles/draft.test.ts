import { describe, expect, it } from "vitest";
import {
  differences,
  draftOf,
  duplicated,
  missing,
  moved,
  nameProblem,
  newPolicy,
  requestOf,
  sameDraft,
} from "./draft";

const stored = draftOf([
  { title: "A", expression: "a" },
  { title: "B", expression: "b", description: "about b" },
  { title: "C", expression: "c" },
]);
const titles = (draft: readonly { title: string }[]) => draft.map(({ title }) => title);

describe("a draft", () => {
  it("that nothing was done to is the stored role", () => {
    expect(sameDraft(stored, draftOf(requestOf(stored).policies))).toBe(true);
    expect(requestOf(stored).policies[0]).toEqual({ title: "A", expression: "a" });
  });

  it("is put into another order, and stays as it is at its ends", () => {
    expect(titles(moved(stored, 0, 1))).toEqual(["B", "A", "C"]);
    expect(titles(moved(stored, 0, -1))).toEqual(["A", "B", "C"]);
    expect(titles(moved(stored, 2, 3))).toEqual(["A", "B", "C"]);
  });

  it("gets copies with titles of their own", () => {
    expect(titles(duplicated(duplicated(stored, 0), 0))).toEqual(["A", "A (copy 2)", "A (copy)", "B", "C"]);
  });
});

describe("what is missing", () => {
  it("is told by policy", () => {
    expect(missing(stored, false)).toBeNull();
    expect(missing([...stored, newPolicy({ title: " ", expression: "a" })], false)).toBe(
      "Policy 4 needs a title.",
    );
    expect(missing([newPolicy({ title: "a" })], false)).toBe("Policy 1 needs an expression.");
  });

  it("is a policy, but for the built-in role", () => {
    expect(missing([], true)).toBeNull();
    expect(missing([], false)).toContain("needs a policy");
  });
});

describe("differences", () => {
  const kinds = (found: ReturnType<typeof differences>) =>
    found.policies.map((one) => `${one.kind} ${one.policy.title}`);

  it("are none for the same", () => {
    expect(differences(stored, [...stored])).toEqual({ policies: [], reordered: false });
  });

  it("say what was added, changed and removed", () => {
    const [a, b] = stored;
    if (a === undefined || b === undefined) throw new Error("no policies");
    const after = [{ ...a, expression: "a && d" }, newPolicy({ title: "N", expression: "n" }), b];
    expect(kinds(differences(stored, after))).toEqual(["changed A", "added N", "removed C"]);
    expect(differences(stored, after).reordered).toBe(false);
  });

  it("say that the order is another", () => {
    expect(differences(stored, moved(stored, 0, 2))).toEqual({ policies: [], reordered: true });
  });

  it("take a policy that another version has elsewhere for the same", () => {
    const theirs = draftOf([
      { title: "N", expression: "n" },
      { title: "A", expression: "a" },
    ]);
    expect(kinds(differences(theirs, stored.slice(0, 1)))).toEqual(["removed N"]);
  });
});

describe("a role's name", () => {
  it.each([
    ["on-call.eu_1", null],
    ["", "A role needs a name."],
    ["Oncall", null],
    ["onCall", null],
    ["-a", "It begins with a letter or a digit."],
    ["on call", "A space cannot be in it: only A-Z, a-z, 0-9, dot, underscore and hyphen."],
    ["a😀", "“😀” cannot be in it: only A-Z, a-z, 0-9, dot, underscore and hyphen."],
    ["a\u202eb", "“⟨U+202E⟩” cannot be in it: only A-Z, a-z, 0-9, dot, underscore and hyphen."],
    ["a".repeat(65), "At most 64 characters; these are 65."],
  ])("%s", (name, problem) => expect(nameProblem(name)).toBe(problem));
});
