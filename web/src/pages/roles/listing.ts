import type { Api } from "../../api/client";

/** Roles whose name or policies contain a text, ignoring case. */
export function matching(roles: readonly Api["Role"][], find: string): Api["Role"][] {
  const text = find.trim().toLowerCase();
  return roles.filter(({ name, policies }) =>
    [name, ...policies.flatMap(({ title, expression }) => [title, expression])].some((one) =>
      one.toLowerCase().includes(text),
    ),
  );
}

export function countOf(count: number, one: string, more: string): string {
  return `${count === 0 ? "no" : count.toLocaleString("en")} ${count === 1 ? one : more}`;
}

const MOST = 3;

/** The first few names, and the number of further ones. */
export function members(names: readonly string[]): string {
  const rest = names.length - MOST;
  return names.slice(0, MOST).join(", ") + (rest > 0 ? `, ${rest.toLocaleString("en")} more` : "");
}
