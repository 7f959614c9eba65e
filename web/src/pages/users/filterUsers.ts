import type { Api } from "../../api/client";
import type { UserState, UsersUrl } from "./url";

/** The most important state of a user's account. */
export function stateOf(user: Api["User"]): Exclude<UserState, "never_logged_in"> {
  if (user.disabled) {
    return "disabled";
  }
  return user.suspended ? "suspended" : user.must_change_password ? "must_change_password" : "active";
}

function hasState(user: Api["User"], state: UserState): boolean {
  return state === "never_logged_in" ? user.last_login_at === null : stateOf(user) === state;
}

/** The users that match the URL. */
export function filterUsers(users: readonly Api["User"][], { find, role, state }: UsersUrl): Api["User"][] {
  const searchText = find?.normalize("NFC").toLowerCase();
  return users.filter(
    (user) =>
      (searchText === undefined || user.username.toLowerCase().includes(searchText)) &&
      (role === undefined || user.roles.includes(role)) &&
      (state === undefined || hasState(user, state)),
  );
}
