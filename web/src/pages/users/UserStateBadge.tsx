import type { Api } from "../../api/client";
import { StateBadge } from "../../components/StateBadge";
import { stateOf } from "./filterUsers";
import { USER_STATES } from "./url";

export function UserStateBadge({ user }: { user: Api["User"] }) {
  const { label, color } = USER_STATES[stateOf(user)];
  return <StateBadge color={color}>{label}</StateBadge>;
}
