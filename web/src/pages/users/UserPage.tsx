import { Alert, Button, Group, Stack } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { useState } from "react";
import { type Api, api, hasStatus, ifMatch, unwrap } from "../../api/client";
import { invalidate, queryClient } from "../../api/queries";
import { useMe } from "../../app/useMe";
import { AdminOnly } from "../../components/AdminOnly";
import { Breadcrumb } from "../../components/Breadcrumb";
import { ConfirmButton } from "../../components/ConfirmButton";
import { EmptyState } from "../../components/EmptyState";
import { ErrorNotice } from "../../components/ErrorNotice";
import { ButtonLink, PageLink } from "../../components/links";
import { PageTitle } from "../../components/PageTitle";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { RelativeTime } from "../../components/RelativeTime";
import { Secondary } from "../../components/Secondary";
import { Time } from "../../components/Time";
import { sanitize } from "../../lib/sanitize";
import { InitialPassword } from "./InitialPassword";
import { LinkUser } from "./LinkUser";
import { invalidateUser, USERS_KEY } from "./queries";
import { ServiceOwner } from "./ServiceOwner";
import { ServiceSettings } from "./ServiceSettings";
import { UserAccess } from "./UserAccess";
import { UserKeys, UserSessions } from "./UserCredentials";
import { UserSettings } from "./UserSettings";
import { UserStateBadge } from "./UserStateBadge";
import { useUserDraft } from "./useUserDraft";
import { ViewAsButton } from "./ViewAsButton";

const route = getRouteApi("/app/users/$username");

export function UserPage() {
  const { username } = route.useParams();
  return (
    <AdminOnly>
      <Breadcrumb parent="/users" current={sanitize(username)} />
      {/* The key resets the state, so that no draft or shown password carries over to another user. */}
      <UserView key={username} username={username} />
    </AdminOnly>
  );
}

function UserView({ username }: { username: string }) {
  const draft = useUserDraft(username);
  const [password, setPassword] = useState<string | null>(null);
  const { data, error, refetch } = draft.user;
  if (data === undefined && draft.displayed === null) {
    return hasStatus(error, 404) ? (
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
      <QueryPlaceholder query={draft.user} label="the user" height={300} />
    );
  }
  const user = data?.data ?? draft.displayed?.base.data;
  if (user === undefined) {
    return null;
  }
  return (
    <Stack gap="md" maw={1100}>
      <div>
        <PageTitle title={sanitize(user.username)}>
          <UserActions user={user} etag={data?.etag ?? null} onPassword={setPassword} />
        </PageTitle>
        <Group gap="md" mt={-8}>
          <UserStateBadge user={user} />
          {user.service === null ? (
            <Secondary size="sm">
              Last sign-in <RelativeTime at={user.last_login_at} />
            </Secondary>
          ) : (
            <Secondary size="sm">
              Service account of <ServiceOwner service={user.service} />
            </Secondary>
          )}
          <Secondary size="sm">
            Created <Time at={user.created_at} digits={0} />
          </Secondary>
          <PageLink to="/audit" search={{ actor: user.username }} size="sm">
            In the audit log
          </PageLink>
        </Group>
      </div>
      {user.suspended && (
        <Alert color="yellow" title="Access is suspended">
          {user.service === null
            ? "The identity provider has not confirmed this user for too long. Access returns with the next sign-in."
            : "The owner does not have the role that this account requires. Give the owner the role, or change the owner below."}
        </Alert>
      )}
      {error !== null && <ErrorNotice error={error} onRetry={() => void refetch()} />}
      {password !== null && (
        <div>
          <InitialPassword username={user.username} password={password} />
          <Button mt="xs" size="xs" variant="default" onClick={() => setPassword(null)}>
            Hide the password
          </Button>
        </div>
      )}
      <UserSettings draft={draft} />
      {user.service !== null && <ServiceSettings username={username} service={user.service} />}
      <UserAccess username={username} />
      {user.service === null && <UserSessions username={username} />}
      <UserKeys username={username} isService={user.service !== null} />
    </Stack>
  );
}

function UserActions({
  user,
  etag,
  onPassword,
}: {
  user: Api["User"];
  etag: string | null;
  onPassword: (password: string) => void;
}) {
  const me = useMe();
  const router = useRouter();
  const { username } = user;
  const path = { username };
  const isSelf = me.id === user.id;
  const displayName = sanitize(username);
  const setDisabled = async (disabled: boolean) => {
    await unwrap(api.PATCH("/users/{username}", { params: { path }, body: { disabled } }));
    await invalidateUser(username);
  };
  return (
    <>
      {isSelf ? (
        <ButtonLink to="/account" size="xs" variant="default">
          Your own account
        </ButtonLink>
      ) : (
        <>
          <ViewAsButton username={username} label="View as" />
          {user.service === null && <LinkUser user={user} onPassword={onPassword} />}
          {user.provider === null && user.service === null && (
            <ConfirmButton
              label="Rotate password"
              title={`Rotate the password of ${displayName}?`}
              color="brand"
              action={async () => {
                const result = await unwrap(api.POST("/users/{username}/password", { params: { path } }));
                onPassword(result.initial_password);
                void invalidateUser(username);
              }}
            >
              The current password stops working, and all sessions of {displayName} are signed out. The new
              one is shown only once, and has to be changed at the next sign-in. API keys stay valid; revoke
              them below if they may be compromised.
            </ConfirmButton>
          )}
        </>
      )}
      {user.disabled ? (
        <ConfirmButton
          label="Enable"
          title={`Enable ${displayName}?`}
          color="brand"
          action={() => setDisabled(false)}
        >
          {user.service === null
            ? "The user can sign in and use their API keys again, with the roles and attributes below."
            : "Its API keys work again, with the roles and attributes below."}
        </ConfirmButton>
      ) : (
        <ConfirmButton label="Disable" title={`Disable ${displayName}?`} action={() => setDisabled(true)}>
          {isSelf
            ? "This is your own account: you are signed out at once, and another administrator has to enable it again."
            : user.service === null
              ? "From the next request on, the user can neither sign in nor use API keys. Nothing is deleted; you can enable the account again."
              : "From the next request on, its API keys are rejected. Nothing is deleted; you can enable the account again."}
        </ConfirmButton>
      )}
      <ConfirmButton
        label="Delete"
        title={`Delete ${displayName}?`}
        confirmationText={username}
        action={async () => {
          await unwrap(
            api.DELETE("/users/{username}", {
              params: { path, ...ifMatch(etag) },
            }),
          );
          await router.navigate({ to: "/users", search: user.service === null ? {} : { kind: "service" } });
          queryClient.removeQueries({ queryKey: ["user", username] });
          await invalidate(USERS_KEY);
          notifications.show({ message: `${displayName} was deleted` });
        }}
      >
        The account is deleted permanently, with its sessions and API keys. Its actions stay in the audit log.
        To block a user temporarily, disable the account instead.
      </ConfirmButton>
    </>
  );
}
