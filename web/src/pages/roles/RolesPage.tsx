import { Anchor, Badge, Box, Button, ScrollArea, Table, Text } from "@mantine/core";
import { IconPlus, IconShieldLock } from "@tabler/icons-react";
import { useQueries, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { Api } from "../../api/client";
import { rolesQuery } from "../../api/queries";
import { AdminOnly } from "../../components/AdminOnly";
import { EmptyState } from "../../components/EmptyState";
import { PageLink } from "../../components/links";
import { PageTitle } from "../../components/PageTitle";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { SanitizedText } from "../../components/SanitizedText";
import { SearchInput } from "../../components/SearchInput";
import { TableHead } from "../../components/TableHead";
import { Time } from "../../components/Time";
import { countOf } from "../../lib/numbers";
import { useDebouncedText } from "../../lib/useDebouncedText";
import { filterRoles, namesText } from "./listing";
import { roleQuery } from "./queries";
import classes from "./roles.module.css";

const route = getRouteApi("/app/roles");

/** The list of roles. */
export function RolesPage() {
  return (
    <AdminOnly>
      <PageTitle title="Roles">
        <Button component={Link} to="/new-role" leftSection={<IconPlus size={16} aria-hidden />}>
          New role
        </Button>
      </PageTitle>
      <Text c="dimmed" mb="md" maw={720}>
        A role grants its members access to traces: a trace is shown, whole, if any of its spans satisfies any
        policy of any of their roles. Users without a role see no traces.
      </Text>
      <RoleTable />
    </AdminOnly>
  );
}

function RoleTable() {
  const { find } = route.useSearch();
  const navigate = route.useNavigate();
  const roles = useQuery(rolesQuery);
  const { data, error } = roles;
  const searchText = useDebouncedText(
    find,
    (find) =>
      void navigate({ search: find === undefined ? {} : { find }, replace: true, resetScroll: false }),
    150,
  );
  const matches = filterRoles(data?.roles ?? [], find ?? "");
  // Only the response for a single role contains its members.
  const details = useQueries({ queries: matches.map(({ name }) => roleQuery(name)) });
  if (error !== null || data === undefined) {
    return <QueryPlaceholder query={roles} label="the roles" height={240} />;
  }
  return (
    <>
      <SearchInput
        label="Find a role"
        placeholder="Find by name, title or expression"
        maw={360}
        mb="sm"
        value={searchText.text}
        onSearch={searchText.change}
      />
      {matches.length === 0 ? (
        <EmptyState title="No matching role" icon={<IconShieldLock size={32} aria-hidden />}>
          Change the search text, or{" "}
          <Anchor component={Link} to="/new-role" inherit>
            create a new role
          </Anchor>
          .
        </EmptyState>
      ) : (
        <ScrollArea>
          <Table highlightOnHover verticalSpacing="xs" className={classes.roles} aria-label="Roles">
            <TableHead columns={["Role", "Policies", "Members", "Changed"]} />
            <Table.Tbody>
              {matches.map((role, index) => (
                <RoleRow key={role.name} role={role} members={details[index]?.data?.data.members} />
              ))}
            </Table.Tbody>
          </Table>
        </ScrollArea>
      )}
      {data.roles.every((role) => role.name === "admin") && (
        <EmptyState
          title="No role grants access to traces yet"
          icon={<IconShieldLock size={32} aria-hidden />}
        >
          Until one does, no user can see any trace, including administrators. Create a role, then assign it
          to users.
        </EmptyState>
      )}
    </>
  );
}

function RoleRow({ role, members }: { role: Api["Role"]; members: readonly string[] | undefined }) {
  const isBuiltIn = role.name === "admin";
  return (
    <Table.Tr>
      <Table.Th scope="row" fw={500}>
        <PageLink to="/roles/$name" params={{ name: role.name }} inherit>
          {role.name}
        </PageLink>
        {isBuiltIn && (
          <Badge ml="xs" size="sm" variant="default" fw={500}>
            built in
          </Badge>
        )}
      </Table.Th>
      <Table.Td>
        <Text size="sm">{countOf(role.policies.length, "policy", "policies")}</Text>
        <Text size="xs" c="dimmed" lineClamp={1} className={classes.titles}>
          {isBuiltIn && role.policies.length === 0 ? (
            "Grants administration, and no access to traces"
          ) : (
            <SanitizedText text={role.policies.map((policy) => policy.title).join(" · ")} maxLength={200} />
          )}
        </Text>
      </Table.Td>
      <Table.Td>
        {members === undefined ? (
          <Box c="dimmed">…</Box>
        ) : (
          <>
            <Text size="sm">{countOf(members.length, "member")}</Text>
            <Text size="xs" c="dimmed" lineClamp={1} className={classes.titles}>
              <SanitizedText text={namesText(members)} />
            </Text>
          </>
        )}
      </Table.Td>
      <Table.Td>
        {/* The built-in role has the Unix epoch as its time. */}
        {role.updated_at.startsWith("1970-") ? "–" : <Time at={role.updated_at} digits={0} />}
      </Table.Td>
    </Table.Tr>
  );
}
