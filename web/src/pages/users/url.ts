/** Filter of the user list. */
export type UsersUrl = { find?: string; role?: string; state?: UserState };

export const USER_STATES = ["active", "disabled", "must_change_password", "never_logged_in"] as const;

export type UserState = (typeof USER_STATES)[number];

export function isUserState(value: unknown): value is UserState {
  return USER_STATES.some((state) => state === value);
}

export function parseUsersUrl(search: Record<string, unknown>): UsersUrl {
  const toText = (value: unknown) => (typeof value === "number" ? String(value) : value);
  const [find, role] = [toText(search.find), toText(search.role)];
  return {
    ...(typeof find === "string" && find !== "" ? { find } : {}),
    ...(typeof role === "string" && role !== "" ? { role } : {}),
    ...(isUserState(search.state) ? { state: search.state } : {}),
  };
}
