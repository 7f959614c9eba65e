import { Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { rolesQuery } from "../../api/queries";

export type Owner = { owner: string; ownerRole: string | null };

/** The owner in the format of the API. */
export function serviceOf({ owner, ownerRole }: Owner): { owner: string; owner_role?: string } {
  return { owner: owner.trim(), ...(ownerRole === null ? {} : { owner_role: ownerRole }) };
}

/** Who answers for a service account. */
export function OwnerFields({ value, onChange }: { value: Owner; onChange: (value: Owner) => void }) {
  const roles = useQuery(rolesQuery);
  const names = new Set(roles.data?.roles.map((role) => role.name));
  if (value.ownerRole !== null) {
    names.add(value.ownerRole);
  }
  return (
    <>
      <TextInput
        label="Owner"
        description="User name of the person who answers for it"
        required
        maxLength={128}
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        value={value.owner}
        onChange={(event) => onChange({ ...value, owner: event.currentTarget.value })}
      />
      <Select
        label="Only while the owner has the role"
        description="Without a role, the account outlasts its owner"
        placeholder="Any"
        clearable
        searchable
        data={[...names].sort()}
        value={value.ownerRole}
        onChange={(ownerRole) => onChange({ ...value, ownerRole })}
        clearButtonProps={{ "aria-label": "No role" }}
      />
    </>
  );
}
