import { validateRoleName } from "../roles/draft";
import { type MarkedField, quoteCelString } from "./fields";

/** Access that a first role grants. */
export type RoleChoice =
  | { kind: "values"; ref: string; values: string[] }
  | { kind: "everything" }
  | { kind: "own"; expression: string };

/** Fields that a role can be based on by selecting values, the most likely first. */
export function fieldsForRoles(marked: MarkedField[]): MarkedField[] {
  const rank = ({ name, map }: MarkedField) => {
    if (/^(deployment\.environment(\.name)?|env|environment)$/i.test(name)) return 0;
    if (/team|tenant|customer|namespace|project|org/i.test(name)) return 1;
    if (/service/i.test(name) && map === "") return 2;
    return 3;
  };
  return marked
    .filter(({ policy, type }) => policy && type !== "number")
    .sort((a, b) => rank(a) - rank(b) || a.ref.localeCompare(b.ref));
}

/** The CEL expression of a choice, or an empty string if the choice is incomplete. */
export function expressionOf(choice: RoleChoice, marked: MarkedField[]): string {
  if (choice.kind === "own") {
    return choice.expression;
  }
  if (choice.kind === "everything") {
    return "true";
  }
  const field = marked.find(({ ref }) => ref === choice.ref);
  if (field === undefined) {
    return "";
  }
  const { ref, type } = field;
  if (type === "boolean") {
    return ref;
  }
  const [first] = choice.values;
  if (first === undefined) {
    return "";
  }
  const list = `[${choice.values.map(quoteCelString).join(", ")}]`;
  if (type === "string_array") {
    return choice.values.length === 1
      ? `${quoteCelString(first)} in ${ref}`
      : `${ref}.exists(one, one in ${list})`;
  }
  return choice.values.length === 1 ? `${ref} == ${quoteCelString(first)}` : `${ref} in ${list}`;
}

/** Title of the policy for a choice. */
export function titleOf(choice: RoleChoice, marked: MarkedField[]): string {
  if (choice.kind === "everything") {
    return "Every trace";
  }
  const field = choice.kind === "values" ? marked.find(({ ref }) => ref === choice.ref) : undefined;
  if (choice.kind === "own" || field === undefined) {
    return "";
  }
  if (field.type === "boolean") {
    return `Traces with ${field.name}`;
  }
  return choice.values.length === 0 ? "" : `Traces with ${field.name} ${choice.values.join(" or ")}`;
}

/** A valid role name for a choice. */
export function roleNameOf(choice: RoleChoice): string {
  const words =
    choice.kind === "everything"
      ? "all"
      : choice.kind === "values"
        ? choice.values.slice(0, 2).join("-")
        : "my";
  const slug = `${words}-traces`
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-")
    .replace(/^[^a-z0-9]+/, "")
    .slice(0, 64);
  return slug === "" || slug === "traces" ? "my-traces" : slug;
}

/** Why a name is unsuitable for a first role, or `null`. */
export function validateFirstRoleName(name: string): string | null {
  if (name.toLowerCase() === "admin") {
    return "The role “admin” grants administration. Choose another name, so that users can have this role without administration.";
  }
  return validateRoleName(name);
}
