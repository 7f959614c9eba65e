import type { Api } from "../../api/client";

/** Roles whose name or policies contain a text, ignoring case. */
export function filterRoles(roles: readonly Api["Role"][], find: string): Api["Role"][] {
  const wanted = find.trim().toLowerCase();
  return roles.filter(({ name, policies }) =>
    [name, ...policies.flatMap(({ title, expression }) => [title, expression])].some((text) =>
      text.toLowerCase().includes(wanted),
    ),
  );
}

const MAX_NAMES = 3;

/** The first few names, and the number of further ones. */
export function namesText(names: readonly string[]): string {
  const hiddenCount = names.length - MAX_NAMES;
  return (
    names.slice(0, MAX_NAMES).join(", ") +
    (hiddenCount > 0 ? `, ${hiddenCount.toLocaleString("en")} more` : "")
  );
}
