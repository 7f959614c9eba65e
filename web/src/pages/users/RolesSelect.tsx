import { MultiSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { rolesQuery } from "../../api/queries";

/** Selection of roles. */
export function RolesSelect({
  value,
  onChange,
  description,
  excluded = [],
}: {
  value: readonly string[];
  onChange: (roles: string[]) => void;
  description?: string | undefined;
  /** Roles that cannot be added. */
  excluded?: readonly string[];
}) {
  const roles = useQuery(rolesQuery);
  // Assigned roles stay selectable while the list loads, and if loading fails.
  const names = new Set([...(roles.data?.roles.map((role) => role.name) ?? []), ...value]);
  return (
    <MultiSelect
      label="Roles"
      description={description}
      placeholder={value.length === 0 ? "No roles: no access to traces" : ""}
      data={[...names].filter((name) => !excluded.includes(name)).sort()}
      value={[...value]}
      onChange={onChange}
      searchable
      clearable
      hidePickedOptions
      nothingFoundMessage="No such role"
      error={roles.isError ? "The roles could not be loaded" : null}
      clearButtonProps={{ "aria-label": "Remove all roles" }}
    />
  );
}
