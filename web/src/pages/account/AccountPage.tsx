import { Button, Code, Stack, Table } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { IconKey } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { api, hasStatus, unwrap } from "../../api/client";
import { invalidate, queryClient } from "../../api/queries";
import { useMe } from "../../app/useMe";
import { ConfirmButton } from "../../components/ConfirmButton";
import { EmptyState } from "../../components/EmptyState";
import { PageTitle } from "../../components/PageTitle";
import { RoleBadges } from "../../components/RoleBadges";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { Section } from "../../components/Section";
import { PasswordForm } from "../login/PasswordForm";
import { valueText } from "../users/attributes";
import { KeysTable } from "./KeysTable";
import { NewKey } from "./NewKey";
import { myKeysQuery, mySessionsQuery } from "./queries";
import { SessionsTable } from "./SessionsTable";

/** The signed-in user's account: access and credentials. */
export function AccountPage() {
  return (
    <>
      <PageTitle title="Account" />
      <Stack gap="md" maw={1100}>
        <Identity />
        <Keys />
        <Sessions />
        <Password />
      </Stack>
    </>
  );
}

function Password() {
  const { provider } = useMe();
  if (provider !== undefined) {
    return null;
  }
  return (
    <Section
      title="Password"
      description="A new password signs you out of all other sessions. API keys stay valid; revoke them above if they may be compromised."
    >
      <PasswordForm
        onChanged={() => {
          notifications.show({ color: "green", message: "Your password was changed" });
          void invalidate(mySessionsQuery.queryKey);
        }}
      />
    </Section>
  );
}

function Identity() {
  const me = useMe();
  const attributes = Object.entries(me.attributes);
  return (
    <Section title="You">
      <Table verticalSpacing={6} withRowBorders={false}>
        <Table.Tbody>
          <Table.Tr>
            <Table.Th scope="row" w={130}>
              User name
            </Table.Th>
            <Table.Td>
              <SanitizedText text={me.username} />
            </Table.Td>
          </Table.Tr>
          {me.provider !== undefined && (
            <Table.Tr>
              <Table.Th scope="row">Signed in with</Table.Th>
              <Table.Td>{me.provider}</Table.Td>
            </Table.Tr>
          )}
          <Table.Tr>
            <Table.Th scope="row">Roles</Table.Th>
            <Table.Td>
              {me.roles.length === 0 ? (
                "None, so you cannot see any traces. Ask an administrator for a role."
              ) : (
                <RoleBadges roles={me.roles} />
              )}
            </Table.Td>
          </Table.Tr>
          <Table.Tr>
            <Table.Th scope="row">Attributes</Table.Th>
            <Table.Td style={{ overflowWrap: "anywhere" }}>
              {attributes.length === 0 ? (
                <Secondary>none</Secondary>
              ) : (
                <Stack gap={2}>
                  {attributes.map(([name, value]) => (
                    <div key={name}>
                      <Code>
                        <SanitizedText text={name} />
                      </Code>{" "}
                      <SanitizedText text={valueText(value)} maxLength={500} />
                    </div>
                  ))}
                </Stack>
              )}
            </Table.Td>
          </Table.Tr>
        </Table.Tbody>
      </Table>
    </Section>
  );
}

function Keys() {
  const [opened, { open, close }] = useDisclosure();
  const query = useQuery(myKeysQuery);
  return (
    <Section
      title="API keys"
      description="For programs and agents that read traces with your access."
      actions={
        <Button size="xs" leftSection={<IconKey size={14} aria-hidden />} onClick={open}>
          Create API key
        </Button>
      }
    >
      <KeysTable
        query={query}
        empty={
          <EmptyState title="No API keys">
            Create one to use the API from a script or an agent. It can be restricted to some of your traces.
          </EmptyState>
        }
        onRevoke={async ({ id }) => {
          await unwrap(api.DELETE("/me/api-keys/{id}", { params: { path: { id } } }));
          await query.refetch();
        }}
      />
      <NewKey opened={opened} onClose={close} onCreated={() => void invalidate(myKeysQuery.queryKey)} />
    </Section>
  );
}

/** Ignores that the object no longer exists. */
function ignoreNotFound(error: unknown): void {
  if (!hasStatus(error, 404)) {
    throw error;
  }
}

function Sessions() {
  const query = useQuery(mySessionsQuery);
  const { data, refetch } = query;
  const otherSessions = data?.sessions.filter((session) => !session.current) ?? [];
  const { provider } = useMe();
  const endSession = (id: string) => unwrap(api.DELETE("/me/sessions/{id}", { params: { path: { id } } }));
  return (
    <Section
      title="Sessions"
      description={`Where you are signed in. Sign out sessions that you do not recognise, and then change your password${provider === undefined ? "" : " at the identity provider"}.`}
      actions={
        otherSessions.length > 0 && (
          <ConfirmButton
            label="Sign out all others"
            title="Sign out all other sessions?"
            action={async () => {
              try {
                for (const { id } of otherSessions) {
                  await endSession(id).catch(ignoreNotFound);
                }
              } finally {
                await refetch();
              }
            }}
          >
            You stay signed in here, and have to sign in again everywhere else.
          </ConfirmButton>
        )
      }
    >
      <SessionsTable
        query={query}
        onEnd={async ({ id, current }) => {
          await endSession(id);
          if (current) {
            // Redirects to the sign-in page, as any request would now.
            await queryClient.invalidateQueries();
          } else {
            await refetch();
          }
        }}
      />
    </Section>
  );
}
