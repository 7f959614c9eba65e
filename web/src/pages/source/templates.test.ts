import { describe, expect, it } from "vitest";
import type { MarkedField } from "./fields";
import { expressionOf, fieldsForRoles, roleNameOf, titleOf, validateFirstRoleName } from "./templates";

function field(ref: string, over: Partial<MarkedField> = {}): MarkedField {
  const [, map = "", key] = /^(\w+)\["(.*)"\]$/.exec(ref) ?? [];
  const name = key ?? ref;
  return {
    ref,
    map,
    name,
    type: "string",
    filterable: true,
    policy: true,
    source: "column",
    column_type: "String",
    ...over,
  };
}

const ENV = 'ResourceAttributes["deployment.environment"]';
const marked = [
  field("SpanName"),
  field("Duration", { type: "number", policy: false }),
  field("ServiceName"),
  field('SpanAttributes["tenant.id"]'),
  field(ENV),
  field("Events.Name", { type: "string_array" }),
  field("Sampled", { type: "boolean" }),
  field("Secret", { policy: false }),
];
const values = (ref: string, ...values: string[]) => ({ kind: "values", ref, values }) as const;

describe("a role", () => {
  it("is offered for fields usable in policies, environments and owners first", () => {
    expect(fieldsForRoles(marked).map(({ ref }) => ref)).toEqual([
      ENV,
      'SpanAttributes["tenant.id"]',
      "ServiceName",
      "Events.Name",
      "Sampled",
      "SpanName",
    ]);
  });

  it.each([
    [values(ENV, "production"), `${ENV} == "production"`],
    [values(ENV, 'a"b', "c"), `${ENV} in ["a\\"b", "c"]`],
    [values("Events.Name", "exception"), '"exception" in Events.Name'],
    [values("Events.Name", "a", "b"), 'Events.Name.exists(one, one in ["a", "b"])'],
    [values("Sampled"), "Sampled"],
    [values(ENV), ""],
    [values("Gone", "x"), ""],
    [{ kind: "everything" } as const, "true"],
    [{ kind: "own", expression: "Sampled" } as const, "Sampled"],
  ])("has an expression for %o", (choice, expression) =>
    expect(expressionOf(choice, marked)).toBe(expression),
  );

  it("is named after the traces that it grants access to", () => {
    expect(roleNameOf(values(ENV, "Production EU"))).toBe("production-eu-traces");
    expect(roleNameOf(values(ENV, "日本"))).toBe("my-traces");
    expect(roleNameOf({ kind: "everything" })).toBe("all-traces");
    expect(titleOf(values(ENV, "a", "b"), marked)).toBe("Traces with deployment.environment a or b");
  });

  it("rejects unsuitable names", () => {
    expect(validateFirstRoleName("on-call.eu_1")).toBeNull();
    expect(validateFirstRoleName("On call")).toMatch(/space/);
    expect(validateFirstRoleName("admin")).toMatch(/administration/);
    expect(validateFirstRoleName("Admin")).toMatch(/administration/);
  });
});
