import { Button, CloseButton, Group, SegmentedControl, Select, Table, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconEye, IconKey, IconUserPlus, IconUsers } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import type { Api } from "../../api/client";
import { rolesQuery } from "../../api/queries";
import { AdminOnly } from "../../components/AdminOnly";
import { EmptyState } from "../../components/EmptyState";
import { ErrorNotice } from "../../components/ErrorNotice";
import { LoadMore } from "../../components/LoadMore";
import { PageLink } from "../../components/links";
import { PageTitle } from "../../components/PageTitle";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { RelativeTime } from "../../components/RelativeTime";
import { RoleBadges } from "../../components/RoleBadges";
import { SanitizedText } from "../../components/SanitizedText";
import { SearchInput } from "../../components/SearchInput";
import { Secondary } from "../../components/Secondary";
import { TableHead } from "../../components/TableHead";
import { sanitize } from "../../lib/sanitize";
import { omitUndefined } from "../../lib/urlParams";
import { useDebouncedText } from "../../lib/useDebouncedText";
import { attributesText } from "./attributes";
import { CreateUser } from "./CreateUser";
import { FindKey } from "./FindKey";
import { filterUsers } from "./filterUsers";
import { usersQuery } from "./queries";
import { ServiceOwner } from "./ServiceOwner";
import { UserStateBadge } from "./UserStateBadge";
import { isUserState, USER_STATES, type UsersUrl } from "./url";
import { ViewAsRoles } from "./ViewAsRoles";

const route = getRouteApi("/app/users");

type FilterChange = { [Name in keyof UsersUrl]: UsersUrl[Name] | undefined };

/** Number of rows rendered at once; more are rendered near the end. */
const ROW_STEP = 200;

export function UsersPage() {
  const [isCreating, create] = useDisclosure();
  const [isChoosingRoles, view] = useDisclosure();
  const [isFindingKey, findKey] = useDisclosure();
  return (
    <AdminOnly>
      <PageTitle title="Users">
        <Button variant="default" leftSection={<IconEye size={16} aria-hidden />} onClick={view.open}>
          View as roles…
        </Button>
        <Button variant="default" leftSection={<IconKey size={16} aria-hidden />} onClick={findKey.open}>
          Find an API key…
        </Button>
        <Button leftSection={<IconUserPlus size={16} aria-hidden />} onClick={create.open}>
          Create user
        </Button>
      </PageTitle>
      <UsersList />
      <CreateUser opened={isCreating} onClose={create.close} />
      <FindKey opened={isFindingKey} onClose={findKey.close} />
      <ViewAsRoles opened={isChoosingRoles} onClose={view.close} />
    </AdminOnly>
  );
}

function UsersList() {
  const { kind, ...filters } = route.useSearch();
  const navigate = route.useNavigate();
  const query = useInfiniteQuery(usersQuery(kind ?? "person"));
  const { data, error, hasNextPage, isFetching, fetchNextPage } = query;
  const [limit, setLimit] = useState(ROW_STEP);
  const isFiltered = Object.keys(filters).length > 0;
  useEffect(() => {
    // The API has no search by name, so that all users are loaded and filtered here.
    if (isFiltered && hasNextPage && !isFetching && error === null) {
      void fetchNextPage();
    }
  }, [isFiltered, hasNextPage, isFetching, error, fetchNextPage]);
  const kinds = (
    <SegmentedControl
      mb="sm"
      aria-label="Kind of users"
      data={[
        { value: "person", label: "People" },
        { value: "service", label: "Service accounts" },
      ]}
      value={kind ?? "person"}
      onChange={(value) => {
        setLimit(ROW_STEP);
        void navigate({ search: value === "service" ? { kind: "service" } : {}, replace: true });
      }}
    />
  );
  if (data === undefined) {
    return (
      <>
        {kinds}
        <QueryPlaceholder query={query} label="the users" height={240} />
      </>
    );
  }
  const allUsers = data.pages.flatMap((page) => page.users);
  const users = filterUsers(allUsers, filters);
  const changeFilters = (changes: FilterChange) => {
    setLimit(ROW_STEP);
    void navigate({
      search: (previous) => omitUndefined({ ...previous, ...changes }),
      replace: true,
      resetScroll: false,
    });
  };
  return (
    <>
      {kinds}
      <Filters filters={filters} onChange={changeFilters} />
      <Text size="sm" c="dimmed" mb="xs" role="status">
        {isFiltered ? `${users.length} of ${allUsers.length}` : allUsers.length}
        {hasNextPage ? (isFiltered ? " so far, searching the others…" : " so far") : ""}{" "}
        {nounOf(kind, allUsers.length)}
      </Text>
      {error !== null && <ErrorNotice error={error} onRetry={() => void fetchNextPage()} />}
      {allUsers.length === 0 && kind === "service" ? (
        <EmptyState title="No service accounts" icon={<IconUsers size={32} aria-hidden />}>
          Programs that must keep their access when a person is away call with a service account: a user
          without a password, whose API keys you make here.
        </EmptyState>
      ) : users.length === 0 && !hasNextPage ? (
        <EmptyState title="No matching user" icon={<IconUsers size={32} aria-hidden />}>
          No user matches the filters.
          <br />
          <Button
            mt="md"
            variant="default"
            onClick={() => changeFilters({ find: undefined, role: undefined, state: undefined })}
          >
            Show all users
          </Button>
        </EmptyState>
      ) : (
        <UsersTable users={users.slice(0, limit)} areServices={kind === "service"} />
      )}
      {(users.length > limit || (hasNextPage && !isFiltered)) && error === null && (
        <LoadMore
          key={limit}
          busy={isFetching}
          onMore={() => {
            setLimit(limit + ROW_STEP);
            if (users.length <= limit + ROW_STEP && hasNextPage) {
              void fetchNextPage();
            }
          }}
        />
      )}
    </>
  );
}

function Filters({ filters, onChange }: { filters: UsersUrl; onChange: (changes: FilterChange) => void }) {
  const roles = useQuery(rolesQuery);
  const searchText = useDebouncedText(filters.find, (find) => onChange({ find }), 150);
  const names = new Set(roles.data?.roles.map((role) => role.name));
  if (filters.role !== undefined) {
    names.add(filters.role);
  }
  return (
    <Group component="search" gap="xs" mb="xs" align="flex-end">
      <SearchInput
        label="Find by name"
        w={{ base: "100%", xs: 240 }}
        value={searchText.text}
        onSearch={searchText.change}
        rightSection={
          searchText.text === "" ? null : (
            <CloseButton size="sm" aria-label="Clear" onClick={() => searchText.commit("")} />
          )
        }
      />
      <Select
        aria-label="Role"
        placeholder="Any role"
        w={{ base: "100%", xs: 180 }}
        clearable
        searchable
        data={[...names].sort()}
        value={filters.role ?? null}
        onChange={(role) => onChange({ role: role ?? undefined })}
        clearButtonProps={{ "aria-label": "Any role" }}
      />
      <Select
        aria-label="State"
        placeholder="Any state"
        w={{ base: "100%", xs: 200 }}
        clearable
        data={Object.entries(USER_STATES).map(([value, { label }]) => ({ value, label }))}
        value={filters.state ?? null}
        onChange={(state) => onChange({ state: isUserState(state) ? state : undefined })}
        clearButtonProps={{ "aria-label": "Any state" }}
      />
    </Group>
  );
}

function nounOf(kind: UsersUrl["kind"], count: number): string {
  const noun = kind === "service" ? "service account" : "user";
  return count === 1 ? noun : `${noun}s`;
}

function UsersTable({ users, areServices }: { users: readonly Api["User"][]; areServices: boolean }) {
  return (
    <Table.ScrollContainer minWidth={820} type="native">
      <Table verticalSpacing="xs" highlightOnHover>
        <TableHead
          columns={["Name", "Roles", "State", areServices ? "Owner" : "Last sign-in", "Attributes"]}
        />
        <Table.Tbody>
          {users.map((user) => (
            <Table.Tr key={user.id}>
              <Table.Td miw={140} maw={280} style={{ overflowWrap: "anywhere" }}>
                <PageLink to="/users/$username" params={{ username: user.username }} inherit fw={600}>
                  <SanitizedText text={user.username} />
                </PageLink>
                {user.provider !== null && (
                  <Secondary size="xs">Signs in with {user.provider.name}</Secondary>
                )}
              </Table.Td>
              <Table.Td>
                <UserRoles roles={user.roles} />
              </Table.Td>
              <Table.Td>
                <UserStateBadge user={user} />
              </Table.Td>
              <Table.Td>
                {user.service === null ? (
                  <RelativeTime at={user.last_login_at} />
                ) : (
                  <ServiceOwner service={user.service} />
                )}
              </Table.Td>
              <Table.Td maw={320} style={{ overflowWrap: "anywhere" }} c="dimmed">
                <span title={sanitize(attributesText(user.attributes))}>
                  <SanitizedText text={attributesText(user.attributes)} maxLength={80} />
                </span>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

const MAX_ROLES = 4;

function UserRoles({ roles }: { roles: readonly string[] }) {
  return roles.length > 0 ? <RoleBadges roles={roles} max={MAX_ROLES} /> : <Secondary>none</Secondary>;
}
