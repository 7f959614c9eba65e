import { omitUndefined, textParam } from "../../lib/urlParams";

/** Filter of the role list. */
export type RolesUrl = { find?: string };

export function parseRolesUrl(search: Record<string, unknown>): RolesUrl {
  return omitUndefined({ find: textParam(search.find) });
}
