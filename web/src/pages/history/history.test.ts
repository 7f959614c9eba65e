import { describe, expect, it } from "vitest";
import type { Api } from "../../api/client";
import { parseJson } from "../../lib/json";
import {
  actionText,
  authorOf,
  changeCounts,
  contentTypeOf,
  groupChanges,
  parseVersion,
  policiesOf,
  policyDifference,
  textOf,
  validationError,
} from "./changes";

type ModelChange = Api["ModelChange"];

const change = (part: Partial<ModelChange>): ModelChange =>
  ({ kind: "role", name: "a", change: "changed", before: null, after: null, ...part }) as ModelChange;

const policy = (expression: string, title = "T") =>
  ({ title, expression }) as unknown as ModelChange["before"];

describe("changes of the model", () => {
  it("are grouped by role, each with its policies", () => {
    const changes = [
      change({ kind: "policy", name: "payments / A / B" }),
      change({ kind: "field", name: "ServiceName" }),
      change({ kind: "role", name: "checkout", change: "added" }),
      change({ kind: "policy", name: "checkout / C" }),
      change({ kind: "policy", name: "payments / D" }),
      change({ kind: "tests", name: "tests" }),
      change({ kind: "binding", name: "binding" }),
    ];
    const { source, roles, tests } = groupChanges(changes);
    expect(source.map(({ name }) => name)).toEqual(["ServiceName", "binding"]);
    expect(tests).toHaveLength(1);
    expect(
      roles.map((role) => [role.name, role.roleChange?.change, role.policies.map(({ name }) => name)]),
    ).toEqual([
      ["checkout", "added", ["checkout / C"]],
      ["payments", undefined, ["payments / A / B", "payments / D"]],
    ]);
    // All changes are included.
    const all = [
      ...source,
      ...tests,
      ...roles.flatMap(({ roleChange, policies }) => [roleChange ?? [], policies].flat()),
    ];
    expect(new Set(all)).toEqual(new Set(changes));
  });

  it("are counted by kind, removals first", () => {
    const kinds = ["added", "changed", "removed", "added", "moved"] as const;
    expect(changeCounts(kinds.map((kind) => change({ change: kind })))).toBe(
      "1 removed, 1 changed, 2 added, 1 moved",
    );
    expect(changeCounts([])).toBe("");
  });

  it("of a policy are the differences of its texts", () => {
    expect(policyDifference(change({ after: policy("a") }))).toMatchObject({
      kind: "added",
      policy: { title: "T", description: "", expression: "a" },
    });
    expect(policyDifference(change({ before: policy("a") }))?.kind).toBe("removed");
    expect(policyDifference(change({ before: policy("a"), after: policy("b") }))).toMatchObject({
      kind: "changed",
      before: { expression: "a" },
      policy: { expression: "b" },
    });
    expect(policyDifference(change({ before: policy("a"), after: policy("a") }))).toBeNull();
    expect(policyDifference(change({ before: null, after: null }))).toBeNull();
  });

  it("of a whole role are the differences of its policies", () => {
    const policies = [policy("a", "A"), policy("b", "B")];
    const removed = change({ change: "removed", before: { policies } as unknown as ModelChange["before"] });
    expect(policiesOf(removed).map(({ kind, policy }) => [kind, policy.title])).toEqual([
      ["removed", "A"],
      ["removed", "B"],
    ]);
    const added = change({ change: "added", after: { policies } as unknown as ModelChange["after"] });
    expect(policiesOf(added).map(({ kind }) => kind)).toEqual(["added", "added"]);
    expect(policiesOf(change({}))).toEqual([]);
  });

  it("of other objects are shown as text", () => {
    expect(textOf(null)).toBe("");
    expect(textOf("a\nb")).toBe("a\nb");
    expect(textOf({ table: "t", display: { name: "N", kind: null }, keys: ["a", 1], policy: true })).toBe(
      'table: t\ndisplay.name: N\ndisplay.kind: none\nkeys: ["a",1]\npolicy: true',
    );
    expect(textOf(parseJson('{"n":12345678901234567890}'))).toBe("n: 12345678901234567890");
  });

  it("have labels, also for automatic changes", () => {
    expect(actionText("role.put")).toBe("Saved a role");
    expect(actionText("upgrade")).toBe("Initial state");
    expect(actionText("of.later")).toBe("of.later");
  });

  it("have an author", () => {
    expect(authorOf({ by: { id: "usr_1", username: "ada" } })).toBe("ada");
    expect(authorOf({ by: { id: "", username: "" } })).toBe("the service");
  });
});

describe("a plan", () => {
  const tests = { passed: 3, failed: [] };
  it("cannot be applied if a test fails or nothing differs", () => {
    expect(validationError({ empty: false, tests }, true)).toBeNull();
    expect(validationError({ empty: true, tests }, true)).toBe("No differences.");
    const failed = [{ name: "a", message: "m" }];
    const failing = { empty: false, tests: { passed: 0, failed } };
    expect(validationError(failing, true)).toContain("1 test of the file fails");
    expect(validationError(failing, false)).toBeNull();
  });
});

describe("a file", () => {
  it.each([
    ["a.yaml", "{}", "application/yaml"],
    ["a.YML", "{}", "application/yaml"],
    ["a.json", "roles: []", "application/json"],
    ["", ' {"roles": []}', "application/json"],
    ["notes.txt", "roles: []", "application/yaml"],
  ])("%s with %s is %s", (name, text, type) => expect(contentTypeOf(name, text)).toBe(type));
});

describe("the version in a URL", () => {
  it.each([
    ["12", 12],
    ["0", null],
    ["012", null],
    ["-1", null],
    ["1e3", null],
    ["apply", null],
    ["99999999999999999999", null],
  ])("%s", (text, number) => expect(parseVersion(text)).toBe(number));
});
