import { describe, expect, it } from "vitest";
import { attributesOf, attributesText, nameErrors, newRow, rowsOf } from "./attributes";
import { draftAfterSave, draftOf, settingsOf } from "./draft";
import { describeChange, mergeChanges, userChangeOf } from "./merge";
import { referencedAttributes } from "./policyAttributes";
import { parseUsersUrl } from "./url";

describe("edited attributes", () => {
  it("keep their kinds and names in a round trip", () => {
    const attributes = JSON.parse('{"team":"a","oncall":false,"tenants":["x","y, z"],"__proto__":"p"}');
    expect(JSON.stringify(attributesOf(rowsOf(attributes)))).toBe(JSON.stringify(attributes));
  });

  it("include typed text that is not entered yet, once", () => {
    const row = { ...newRow(), name: "tenants", kind: "list" as const, list: ["x"] };
    expect(attributesOf([{ ...row, pendingText: " y, z " }])).toEqual({ tenants: ["x", "y, z"] });
    expect(attributesOf([{ ...row, pendingText: "x" }])).toEqual({ tenants: ["x"] });
  });

  it("need unique names", () => {
    const rows = [newRow(), { ...newRow(), name: "a" }, { ...newRow(), name: "a" }];
    expect([...nameErrors(rows).keys()]).toEqual([rows[0]?.id, rows[2]?.id]);
  });

  it("are formatted on one line", () => {
    expect(attributesText({ team: "a", oncall: true, tenants: ["x", "y"], none: [] })).toBe(
      "team: a · oncall: true · tenants: x, y · none: (empty list)",
    );
  });
});

describe("concurrent changes of a user", () => {
  const base = { roles: ["a", "b"], attributes: { team: "one", tenants: ["x"], old: true } };
  const mine = { roles: ["b", "c"], attributes: { team: "two", tenants: ["x"], old: true } };
  const theirs = { roles: ["a", "b", "d"], attributes: { team: "one", tenants: ["x", "y"] } };

  it("are merged", () => {
    expect(mergeChanges(base, mine, theirs)).toEqual({
      settings: { roles: ["b", "d", "c"], attributes: { team: "two", tenants: ["x", "y"] } },
      conflictingAttributes: [],
    });
  });

  it("of the same attribute keep mine, and report it", () => {
    const other = { ...base, attributes: { ...base.attributes, team: "three" } };
    const { settings, conflictingAttributes } = mergeChanges(base, mine, other);
    expect(settings.attributes.team).toBe("two");
    expect(conflictingAttributes).toEqual(["team"]);
  });

  it("do not conflict if they are equal", () => {
    expect(mergeChanges(base, mine, mine)).toEqual({ settings: mine, conflictingAttributes: [] });
  });

  it("are described by line", () => {
    expect(describeChange(base, theirs)).toEqual([
      "role d added",
      "attribute tenants changed from x to x, y",
      "attribute old removed",
    ]);
  });

  it("are sent as differences", () => {
    expect(userChangeOf(base, { ...base, roles: ["b", "a"] })).toEqual({});
    expect(userChangeOf(base, mine)).toEqual({ roles: ["b", "c"], attributes: mine.attributes });
  });
});

describe("a draft after a save", () => {
  const user = (roles: string[], etag: string) => ({
    data: {
      id: "1",
      username: "ada",
      roles,
      attributes: { team: "one" },
      provider: null,
      service: null,
      suspended: false,
      assigned: { roles, attributes: { team: "one" } },
      disabled: false,
      must_change_password: false,
      created_at: "2026-11-22T00:00:00Z",
      last_login_at: null,
    },
    etag,
  });
  const sent = { ...draftOf(user(["a"], "1")), roles: ["a", "b"] };
  const saved = user(["a", "b"], "2");

  it("is discarded if nothing was changed during the save", () => {
    expect(draftAfterSave(sent, saved)).toBeNull();
    expect(draftAfterSave(null, saved)).toBeNull();
  });

  it("keeps changes made during the save, based on the saved version", () => {
    const remaining = draftAfterSave({ ...sent, roles: ["a", "b", "c"] }, saved);
    expect(remaining?.base.etag).toBe("2");
    expect(remaining === null ? null : userChangeOf(saved.data, settingsOf(remaining))).toEqual({
      roles: ["a", "b", "c"],
    });
  });

  it("keeps a row without a name", () => {
    expect(draftAfterSave({ ...sent, rows: [...sent.rows, newRow()] }, saved)).not.toBeNull();
  });
});

describe("attributes in a policy", () => {
  it.each([
    ["ServiceName == user.attributes.team", ["team"]],
    [
      `SpanAttributes["a"] in user.attributes["tenant.ids"] || has(user.attributes.team)`,
      ["tenant.ids", "team"],
    ],
    [`"on call" in user.attributes && user.attributes['on call']`, ["on call"]],
    [`SpanName == "user.attributes.x" // user.attributes.y`, []],
    [`SpanName.matches(r"user\\.attributes.z\\") && user.attributes.q == "a"`, ["q"]],
    [`"x" in user.attributes.list`, ["list"]],
  ])("%s", (expression, names) => expect(referencedAttributes(expression)).toEqual(names));
});

describe("the URL of the user list", () => {
  it("keeps known parameters only", () => {
    expect(parseUsersUrl({ find: 42, role: "ops", state: "disabled", other: 1 })).toEqual({
      find: "42",
      role: "ops",
      state: "disabled",
    });
    expect(parseUsersUrl({ find: "", state: "gone" })).toEqual({});
  });
});
