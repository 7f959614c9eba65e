import { Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { api, ask } from "../../api/client";
import { useMe } from "../../app/useMe";
import { Confirm } from "../../components/Confirm";
import { ErrorNotice } from "../../components/ErrorNotice";
import { Section } from "../../components/Section";
import { KeysTable } from "../account/KeysTable";
import { SessionsTable } from "../account/SessionsTable";
import { userKeysQuery, userSessionsQuery } from "./queries";

/** Sessions of a user. */
export function UserSessions({ username }: { username: string }) {
  const me = useMe();
  const { data, error, refetch } = useQuery(userSessionsQuery(username));
  return (
    <Section
      title="Sessions"
      about="Where this user is logged in. A session ends by logging out, by a new password, or here."
      actions={
        data !== undefined &&
        data.sessions.length > 0 && (
          <Confirm
            label="End all sessions"
            title={`End all sessions of ${username}?`}
            action={async () => {
              await ask(api.DELETE("/users/{username}/sessions", { params: { path: { username } } }));
              await refetch();
            }}
          >
            {me.username === username
              ? "This is you: you will have to log in again at once."
              : "They have to log in again everywhere. To keep them out, disable the account or rotate the password."}
          </Confirm>
        )
      }
    >
      {data === undefined ? (
        error === null ? (
          <Skeleton height={60} aria-label="Loading the sessions" />
        ) : (
          <ErrorNotice error={error} onRetry={() => void refetch()} />
        )
      ) : (
        <SessionsTable
          sessions={data.sessions}
          onEnd={async ({ id }) => {
            await ask(api.DELETE("/users/{username}/sessions/{id}", { params: { path: { username, id } } }));
            await refetch();
          }}
        />
      )}
    </Section>
  );
}

/** API keys of a user. */
export function UserKeys({ username }: { username: string }) {
  const { data, error, refetch } = useQuery(userKeysQuery(username));
  return (
    <Section
      title="API keys"
      about="Programs and agents that read with this user's roles. Only the user can make them; rotating the password leaves them."
      actions={
        data !== undefined &&
        data.api_keys.length > 0 && (
          <Confirm
            label="Revoke all keys"
            title={`Revoke all API keys of ${username}?`}
            action={async () => {
              await ask(api.DELETE("/users/{username}/api-keys", { params: { path: { username } } }));
              await refetch();
            }}
          >
            Everything that uses one of them is refused from its next request on. They cannot be brought back.
          </Confirm>
        )
      }
    >
      <Stack gap="xs">
        {data === undefined ? (
          error === null ? (
            <Skeleton height={60} aria-label="Loading the keys" />
          ) : (
            <ErrorNotice error={error} onRetry={() => void refetch()} />
          )
        ) : data.api_keys.length === 0 ? (
          <Text c="var(--tw-quiet)">No API keys.</Text>
        ) : (
          <KeysTable
            keys={data.api_keys}
            onRevoke={async ({ id }) => {
              await ask(
                api.DELETE("/users/{username}/api-keys/{id}", { params: { path: { username, id } } }),
              );
              await refetch();
            }}
          />
        )}
      </Stack>
    </Section>
  );
}
