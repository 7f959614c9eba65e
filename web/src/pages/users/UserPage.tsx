import { Anchor, Breadcrumbs, Button, Group, Skeleton, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconEye } from "@tabler/icons-react";
import { getRouteApi, Link, useRouter } from "@tanstack/react-router";
import { useState } from "react";
import { type Api, ApiError, api, ask } from "../../api/client";
import { queryClient } from "../../api/queries";
import { useMe } from "../../app/useMe";
import { AdminOnly } from "../../components/AdminOnly";
import { Ago } from "../../components/Ago";
import { Confirm } from "../../components/Confirm";
import { EmptyState } from "../../components/EmptyState";
import { ErrorNotice } from "../../components/ErrorNotice";
import { ButtonLink, PageLink } from "../../components/links";
import { PageTitle } from "../../components/PageTitle";
import { Time } from "../../components/Time";
import { visible } from "../../lib/visible";
import { HandOver } from "./HandOver";
import { userChanged, usersQuery } from "./queries";
import { UserAccess } from "./UserAccess";
import { UserKeys, UserSessions } from "./UserCredentials";
import { UserSettings } from "./UserSettings";
import { UserStateBadge } from "./UserState";
import { useUserDraft } from "./useUserDraft";
import { useViewAsUser } from "./viewAs";

const route = getRouteApi("/app/users/$username");

export function UserPage() {
  const { username } = route.useParams();
  return (
    <AdminOnly>
      <Breadcrumbs mb="xs">
        <Anchor component={Link} to="/users">
          Users
        </Anchor>
        <Text span>{visible(username)}</Text>
      </Breadcrumbs>
      {/* The key resets the state, so that no draft or shown password carries over to another user. */}
      <OneUser key={username} username={username} />
    </AdminOnly>
  );
}

function OneUser({ username }: { username: string }) {
  const draft = useUserDraft(username);
  const [password, setPassword] = useState<string | null>(null);
  const { data, error, refetch } = draft.user;
  if (data === undefined && draft.shown === null) {
    if (error === null) {
      return <Skeleton height={300} aria-label="Loading the user" />;
    }
    return error instanceof ApiError && error.status === 404 ? (
      <EmptyState title="There is no such user">
        The user may have been deleted. Their actions are still in the audit log.
        <Group justify="center" mt="md">
          <ButtonLink to="/users" variant="default">
            All users
          </ButtonLink>
          <ButtonLink to="/audit" search={{ actor: username }} variant="default">
            Show in the audit log
          </ButtonLink>
        </Group>
      </EmptyState>
    ) : (
      <ErrorNotice error={error} onRetry={() => void refetch()} />
    );
  }
  const user = data?.data ?? draft.shown?.base.data;
  if (user === undefined) {
    return null;
  }
  return (
    <Stack gap="md" maw={1100}>
      <div>
        <PageTitle title={visible(user.username)}>
          <Actions user={user} tag={data?.tag ?? null} onPassword={setPassword} />
        </PageTitle>
        <Group gap="md" mt={-8}>
          <UserStateBadge user={user} />
          <Text size="sm" c="var(--tw-quiet)">
            Last sign-in <Ago at={user.last_login_at} />
          </Text>
          <Text size="sm" c="var(--tw-quiet)">
            Created <Time at={user.created_at} digits={0} />
          </Text>
          <PageLink to="/audit" search={{ actor: user.username }} size="sm">
            In the audit log
          </PageLink>
        </Group>
      </div>
      {error !== null && <ErrorNotice error={error} onRetry={() => void refetch()} />}
      {password !== null && (
        <div>
          <HandOver username={user.username} password={password} />
          <Button mt="xs" size="xs" variant="default" onClick={() => setPassword(null)}>
            Hide the password
          </Button>
        </div>
      )}
      <UserSettings draft={draft} />
      <UserAccess username={username} />
      <UserSessions username={username} />
      <UserKeys username={username} />
    </Stack>
  );
}

function Actions({
  user,
  tag,
  onPassword,
}: {
  user: Api["User"];
  tag: string | null;
  onPassword: (password: string) => void;
}) {
  const me = useMe();
  const router = useRouter();
  const view = useViewAsUser(user.username);
  const { username } = user;
  const path = { username };
  const self = me.id === user.id;
  const named = visible(username);
  const setDisabled = async (disabled: boolean) => {
    await ask(api.PATCH("/users/{username}", { params: { path }, body: { disabled } }));
    await userChanged(username);
  };
  return (
    <>
      {self ? (
        <ButtonLink to="/account" size="xs" variant="default">
          Your own account
        </ButtonLink>
      ) : (
        <>
          <Button
            size="xs"
            variant="default"
            leftSection={<IconEye size={14} aria-hidden />}
            loading={view.isPending}
            onClick={view.begin}
          >
            View as
          </Button>
          <Confirm
            label="Rotate password"
            title={`Rotate the password of ${named}?`}
            color="brand"
            action={async () => {
              const made = await ask(api.POST("/users/{username}/password", { params: { path } }));
              onPassword(made.initial_password);
              void userChanged(username);
            }}
          >
            The current password stops working, and all sessions of {named} are signed out. The new one is
            shown only once, and has to be changed at the next sign-in. API keys stay valid; revoke them below
            if they may be compromised.
          </Confirm>
        </>
      )}
      {user.disabled ? (
        <Confirm label="Enable" title={`Enable ${named}?`} color="brand" action={() => setDisabled(false)}>
          The user can sign in and use their API keys again, with the roles and attributes below.
        </Confirm>
      ) : (
        <Confirm label="Disable" title={`Disable ${named}?`} action={() => setDisabled(true)}>
          {self
            ? "This is your own account: you are signed out at once, and another administrator has to enable it again."
            : "From the next request on, the user can neither sign in nor use API keys. Nothing is deleted; you can enable the account again."}
        </Confirm>
      )}
      <Confirm
        label="Delete"
        title={`Delete ${named}?`}
        typed={username}
        action={async () => {
          await ask(
            api.DELETE("/users/{username}", {
              params: { path, ...(tag === null ? {} : { header: { "If-Match": tag } }) },
            }),
          );
          await router.navigate({ to: "/users" });
          queryClient.removeQueries({ queryKey: ["user", username] });
          await queryClient.invalidateQueries({ queryKey: usersQuery.queryKey });
          notifications.show({ message: `${named} was deleted` });
        }}
      >
        The account is deleted permanently, with its sessions and API keys. Its actions stay in the audit log.
        To block a user temporarily, disable the account instead.
      </Confirm>
    </>
  );
}
