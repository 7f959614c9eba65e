import { Button, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { useMe } from "../../app/useMe";
import { ConfirmButton } from "../../components/ConfirmButton";
import { ButtonLink } from "../../components/links";
import { Section } from "../../components/Section";
import { KeysTable } from "../account/KeysTable";
import { NewKey } from "../account/NewKey";
import { SessionsTable } from "../account/SessionsTable";
import { userKeysQuery, userSessionsQuery } from "./queries";

/** Sessions of a user. */
export function UserSessions({ username }: { username: string }) {
  const me = useMe();
  const query = useQuery(userSessionsQuery(username));
  const { data, refetch } = query;
  return (
    <Section
      title="Sessions"
      description="Where this user is signed in. A session ends when the user signs out, with a new password or at the identity provider, or here."
      actions={
        data !== undefined &&
        data.sessions.length > 0 && (
          <ConfirmButton
            label="Sign out all sessions"
            title={`Sign out all sessions of ${username}?`}
            action={async () => {
              await unwrap(api.DELETE("/users/{username}/sessions", { params: { path: { username } } }));
              await refetch();
            }}
          >
            {me.username === username
              ? "This is your own account: you will have to sign in again at once."
              : "The user has to sign in again everywhere. To block the user, disable the account or rotate the password."}
          </ConfirmButton>
        )
      }
    >
      <SessionsTable
        query={query}
        onEnd={async ({ id }) => {
          await unwrap(api.DELETE("/users/{username}/sessions/{id}", { params: { path: { username, id } } }));
          await refetch();
        }}
      />
    </Section>
  );
}

/** API keys of a user. */
export function UserKeys({ username, isService }: { username: string; isService: boolean }) {
  const [isCreating, creation] = useDisclosure();
  const query = useQuery(userKeysQuery(username));
  const { data, refetch } = query;
  return (
    <Section
      title="API keys"
      description={
        isService
          ? "The program's credentials. Each expires; create the next one before."
          : "For programs and agents that read with this user's access. Only the user can create them; rotating the password does not revoke them."
      }
      actions={
        <>
          {isService && (
            <Button size="xs" onClick={creation.open}>
              Create key
            </Button>
          )}
          {data !== undefined && data.api_keys.length > 0 && (
            <ConfirmButton
              label="Revoke all keys"
              title={`Revoke all API keys of ${username}?`}
              action={async () => {
                await unwrap(api.DELETE("/users/{username}/api-keys", { params: { path: { username } } }));
                await refetch();
              }}
            >
              After this, requests with these keys are rejected. This cannot be undone.
            </ConfirmButton>
          )}
        </>
      }
    >
      <KeysTable
        query={query}
        empty={<Text c="dimmed">No API keys.</Text>}
        links={({ id }) => (
          <ButtonLink size="xs" variant="subtle" to="/audit" search={{ key: id }}>
            Audit records
          </ButtonLink>
        )}
        onRevoke={async ({ id }) => {
          await unwrap(api.DELETE("/users/{username}/api-keys/{id}", { params: { path: { username, id } } }));
          await refetch();
        }}
      />
      <NewKey
        opened={isCreating}
        onClose={creation.close}
        serviceAccount={username}
        onCreated={() => void refetch()}
      />
    </Section>
  );
}
