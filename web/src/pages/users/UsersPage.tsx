import { Badge, Button, CloseButton, Group, Select, Skeleton, Table, Text, TextInput } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconEye, IconSearch, IconUserPlus, IconUsers } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import type { Api } from "../../api/client";
import { rolesQuery } from "../../api/queries";
import { AdminOnly } from "../../components/AdminOnly";
import { Ago } from "../../components/Ago";
import { EmptyState } from "../../components/EmptyState";
import { ErrorNotice } from "../../components/ErrorNotice";
import { PageLink } from "../../components/links";
import { MoreRows } from "../../components/MoreRows";
import { PageTitle } from "../../components/PageTitle";
import { Visible } from "../../components/Visible";
import { useTypedText } from "../../lib/useTypedText";
import { visible } from "../../lib/visible";
import { attributesText } from "./attributes";
import { CreateUser } from "./CreateUser";
import { chosen } from "./list";
import { usersQuery } from "./queries";
import { UserStateBadge } from "./UserState";
import { isUserState, type UsersUrl } from "./url";
import { ViewAsRoles } from "./ViewAsRoles";

const route = getRouteApi("/app/users");

/** Number of rows rendered at once; more are rendered near the end. */
const ROWS = 200;

export function UsersPage() {
  const [creating, create] = useDisclosure();
  const [viewing, view] = useDisclosure();
  return (
    <AdminOnly>
      <PageTitle title="Users">
        <Button variant="default" leftSection={<IconEye size={16} aria-hidden />} onClick={view.open}>
          View as roles…
        </Button>
        <Button leftSection={<IconUserPlus size={16} aria-hidden />} onClick={create.open}>
          Create user
        </Button>
      </PageTitle>
      <UsersList />
      <CreateUser opened={creating} onClose={create.close} />
      <ViewAsRoles opened={viewing} onClose={view.close} />
    </AdminOnly>
  );
}

function UsersList() {
  const asked = route.useSearch();
  const navigate = route.useNavigate();
  const { data, error, hasNextPage, isFetching, fetchNextPage, refetch } = useInfiniteQuery(usersQuery);
  const [rows, setRows] = useState(ROWS);
  const narrowed = Object.keys(asked).length > 0;
  useEffect(() => {
    // The API has no search by name, so that all users are loaded and filtered here.
    if (narrowed && hasNextPage && !isFetching && error === null) {
      void fetchNextPage();
    }
  }, [narrowed, hasNextPage, isFetching, error, fetchNextPage]);
  if (data === undefined) {
    return error === null ? (
      <Skeleton height={240} aria-label="Loading the users" />
    ) : (
      <ErrorNotice error={error} onRetry={() => void refetch()} />
    );
  }
  const all = data.pages.flatMap((page) => page.users);
  const users = chosen(all, asked);
  const change = (part: { [Name in keyof UsersUrl]: UsersUrl[Name] | undefined }) => {
    setRows(ROWS);
    void navigate({
      search: (before) => {
        const after = { ...before, ...part };
        return Object.fromEntries(Object.entries(after).filter(([, value]) => value !== undefined));
      },
      replace: true,
      resetScroll: false,
    });
  };
  return (
    <>
      <Filters asked={asked} onChange={change} />
      <Text size="sm" c="var(--tw-quiet)" mb="xs" role="status">
        {narrowed ? `${users.length} of ${all.length}` : all.length}
        {hasNextPage ? (narrowed ? " so far, searching the others…" : " so far") : ""}{" "}
        {all.length === 1 ? "user" : "users"}
      </Text>
      {error !== null && <ErrorNotice error={error} onRetry={() => void fetchNextPage()} />}
      {users.length === 0 && !hasNextPage ? (
        <EmptyState title="No matching user" icon={<IconUsers size={32} aria-hidden />}>
          No user matches the filters.
          <br />
          <Button
            mt="md"
            variant="default"
            onClick={() => change({ find: undefined, role: undefined, state: undefined })}
          >
            Show all users
          </Button>
        </EmptyState>
      ) : (
        <UsersTable users={users.slice(0, rows)} />
      )}
      {(users.length > rows || (hasNextPage && !narrowed)) && error === null && (
        <MoreRows
          key={rows}
          busy={isFetching}
          onMore={() => {
            setRows(rows + ROWS);
            if (users.length <= rows + ROWS && hasNextPage) {
              void fetchNextPage();
            }
          }}
        />
      )}
    </>
  );
}

function Filters({
  asked,
  onChange,
}: {
  asked: UsersUrl;
  onChange: (part: { [Name in keyof UsersUrl]: UsersUrl[Name] | undefined }) => void;
}) {
  const roles = useQuery(rolesQuery);
  const find = useTypedText(asked.find, (find) => onChange({ find }), 150);
  const names = new Set(roles.data?.roles.map((role) => role.name));
  if (asked.role !== undefined) {
    names.add(asked.role);
  }
  return (
    <Group component="search" gap="xs" mb="xs" align="flex-end">
      <TextInput
        aria-label="Find by name"
        placeholder="Find by name"
        data-slash
        w={{ base: "100%", xs: 240 }}
        leftSection={<IconSearch size={16} aria-hidden />}
        value={find.text}
        onChange={(event) => find.type(event.currentTarget.value)}
        rightSection={
          find.text === "" ? null : <CloseButton size="sm" aria-label="Clear" onClick={() => find.now("")} />
        }
      />
      <Select
        aria-label="Role"
        placeholder="Any role"
        w={{ base: "100%", xs: 180 }}
        clearable
        searchable
        data={[...names].sort()}
        value={asked.role ?? null}
        onChange={(role) => onChange({ role: role ?? undefined })}
        clearButtonProps={{ "aria-label": "Any role" }}
      />
      <Select
        aria-label="State"
        placeholder="Any state"
        w={{ base: "100%", xs: 200 }}
        clearable
        data={[
          { value: "active", label: "Active" },
          { value: "disabled", label: "Disabled" },
          { value: "must_change_password", label: "Must change password" },
          { value: "never_logged_in", label: "Never signed in" },
        ]}
        value={asked.state ?? null}
        onChange={(state) => onChange({ state: isUserState(state) ? state : undefined })}
        clearButtonProps={{ "aria-label": "Any state" }}
      />
    </Group>
  );
}

function UsersTable({ users }: { users: readonly Api["User"][] }) {
  return (
    <Table.ScrollContainer minWidth={820} type="native">
      <Table verticalSpacing="xs" highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th>Roles</Table.Th>
            <Table.Th>State</Table.Th>
            <Table.Th>Last sign-in</Table.Th>
            <Table.Th>Attributes</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {users.map((user) => (
            <Table.Tr key={user.id}>
              <Table.Td miw={140} maw={280} style={{ overflowWrap: "anywhere" }}>
                <PageLink to="/users/$username" params={{ username: user.username }} inherit fw={600}>
                  <Visible text={user.username} />
                </PageLink>
              </Table.Td>
              <Table.Td>
                <Roles roles={user.roles} />
              </Table.Td>
              <Table.Td>
                <UserStateBadge user={user} />
              </Table.Td>
              <Table.Td>
                <Ago at={user.last_login_at} />
              </Table.Td>
              <Table.Td maw={320} style={{ overflowWrap: "anywhere" }} c="var(--tw-quiet)">
                <span title={visible(attributesText(user.attributes))}>
                  <Visible text={attributesText(user.attributes)} most={80} />
                </span>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

const SHOWN_ROLES = 4;

function Roles({ roles }: { roles: readonly string[] }) {
  if (roles.length === 0) {
    return (
      <Text span inherit c="var(--tw-quiet)">
        none
      </Text>
    );
  }
  const more = roles.slice(SHOWN_ROLES);
  return (
    <Group gap={4}>
      {roles.slice(0, SHOWN_ROLES).map((role) => (
        <Badge key={role} variant="default" radius="sm" tt="none" fw={500}>
          {role}
        </Badge>
      ))}
      {more.length > 0 && (
        <Text span size="xs" c="var(--tw-quiet)" title={more.join(", ")}>
          and {more.length} more
        </Text>
      )}
    </Group>
  );
}
