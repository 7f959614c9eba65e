import { Code, Group, Skeleton, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Api } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";
import { PageLink } from "../../components/links";
import { Section } from "../../components/Section";
import { StateBadge } from "../../components/StateBadge";
import { Visible } from "../../components/Visible";
import { valueText } from "./attributes";
import { attributesNamed } from "./policyAttributes";
import { accessQuery } from "./queries";

/** What a user's access is made of: roles, their policies, and the attributes that these read. */
export function UserAccess({ username }: { username: string }) {
  const { data, error, refetch } = useQuery(accessQuery(username));
  return (
    <Section
      title="Effective access"
      about="As it applies now: a trace is shown, whole, when any of its spans satisfies any of these policies."
    >
      {data === undefined ? (
        error === null ? (
          <Skeleton height={80} aria-label="Loading the access" />
        ) : (
          <ErrorNotice error={error} onRetry={() => void refetch()} />
        )
      ) : (
        <Stack gap="md">
          <Summary access={data} />
          {data.roles.map((role) => (
            <RoleAccess key={role.name} role={role} attributes={data.user.attributes} />
          ))}
        </Stack>
      )}
    </Section>
  );
}

function Summary({ access }: { access: Api["UserAccess"] }) {
  const policies = access.roles.flatMap((role) => role.policies).length;
  if (access.user.disabled) {
    return (
      <Text component="div" size="sm">
        <StateBadge color="red">Sees nothing</StateBadge> The account is disabled. Enabled again, what follows
        would hold.
      </Text>
    );
  }
  if (policies === 0) {
    return (
      <Text component="div" size="sm">
        <StateBadge color="gray">Sees no traces</StateBadge>{" "}
        {access.roles.length === 0
          ? "Without a role nothing is shown. Give one above."
          : "None of the roles has a policy."}
      </Text>
    );
  }
  return null;
}

function RoleAccess({ role, attributes }: { role: Api["Role"]; attributes: Api["Attributes"] }) {
  return (
    <div>
      <Title order={3} mb={4}>
        Role{" "}
        <PageLink to="/roles/$name" params={{ name: role.name }} inherit>
          {role.name}
        </PageLink>
      </Title>
      {role.name === "admin" && <Text size="sm">Administers: users, roles, trace source, audit.</Text>}
      {role.policies.length === 0 ? (
        <Text size="sm" c="var(--tw-quiet)">
          Has no policy, and so opens no trace.
        </Text>
      ) : (
        <Stack gap="sm">
          {role.policies.map((policy, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: policies of a role are told apart by their order alone
            <PolicyAccess key={place} policy={policy} attributes={attributes} />
          ))}
        </Stack>
      )}
    </div>
  );
}

function PolicyAccess({ policy, attributes }: { policy: Api["Policy"]; attributes: Api["Attributes"] }) {
  const names = attributesNamed(policy.expression);
  return (
    <div>
      <Text size="sm" fw={600}>
        <Visible text={policy.title} />
      </Text>
      {policy.description !== undefined && policy.description !== null && (
        <Text size="sm" c="var(--tw-quiet)">
          <Visible text={policy.description} />
        </Text>
      )}
      <Code block style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
        <Visible text={policy.expression} />
      </Code>
      {names.length > 0 && (
        <Table
          verticalSpacing={2}
          mt={4}
          w="auto"
          withRowBorders={false}
          aria-label="Attributes that it reads"
        >
          <Table.Tbody>
            {names.map((name) => {
              const value = Object.hasOwn(attributes, name) ? attributes[name] : undefined;
              return (
                <Table.Tr key={name}>
                  <Table.Th scope="row" fw={400} pl={0} style={{ overflowWrap: "anywhere" }}>
                    <Code>
                      <Visible text={`user.attributes.${name}`} />
                    </Code>
                  </Table.Th>
                  <Table.Td style={{ overflowWrap: "anywhere" }}>
                    {value === undefined ? (
                      <Group gap={6}>
                        <StateBadge color="yellow">Not set</StateBadge>
                        <Text span size="sm">
                          what compares with it is satisfied by no span
                        </Text>
                      </Group>
                    ) : (
                      <Visible text={valueText(value)} most={500} />
                    )}
                  </Table.Td>
                </Table.Tr>
              );
            })}
          </Table.Tbody>
        </Table>
      )}
    </div>
  );
}
