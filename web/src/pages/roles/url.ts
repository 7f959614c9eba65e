/** Filter of the role list. */
export type RolesUrl = { find?: string };

export function parseRolesUrl(search: Record<string, unknown>): RolesUrl {
  const find = typeof search.find === "number" ? String(search.find) : search.find;
  return typeof find === "string" && find !== "" ? { find } : {};
}
