import { omitUndefined, textParam } from "../../lib/urlParams";

/** Filter of the user list. */
export type UsersUrl = { kind?: "service"; find?: string; role?: string; state?: UserState };

export const USER_STATES = {
  active: { label: "Active", color: "green" },
  disabled: { label: "Disabled", color: "red" },
  suspended: { label: "Suspended", color: "yellow" },
  must_change_password: { label: "Must change password", color: "yellow" },
  never_logged_in: { label: "Never signed in", color: "gray" },
};

export type UserState = keyof typeof USER_STATES;

export function isUserState(value: unknown): value is UserState {
  return typeof value === "string" && Object.hasOwn(USER_STATES, value);
}

export function parseUsersUrl(search: Record<string, unknown>): UsersUrl {
  return omitUndefined({
    kind: search.kind === "service" ? ("service" as const) : undefined,
    find: textParam(search.find),
    role: textParam(search.role),
    state: isUserState(search.state) ? search.state : undefined,
  });
}
