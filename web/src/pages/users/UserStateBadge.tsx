import type { Api } from "../../api/client";
import { StateBadge } from "../../components/StateBadge";
import { stateOf } from "./filterUsers";

const STATES = {
  active: { label: "Active", color: "green" },
  disabled: { label: "Disabled", color: "red" },
  must_change_password: { label: "Must change password", color: "yellow" },
};

export function UserStateBadge({ user }: { user: Api["User"] }) {
  const { label, color } = STATES[stateOf(user)];
  return <StateBadge color={color}>{label}</StateBadge>;
}
