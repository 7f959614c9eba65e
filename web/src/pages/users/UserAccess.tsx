import { Code, Group, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Api } from "../../api/client";
import { useMe } from "../../app/useMe";
import { PageLink } from "../../components/links";
import { Message } from "../../components/Message";
import { PolicyDescription } from "../../components/PolicyDescription";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { Section } from "../../components/Section";
import { StateBadge } from "../../components/StateBadge";
import { valueText } from "./attributes";
import { referencedAttributes } from "./policyAttributes";
import { accessQuery } from "./queries";
import { ViewAsButton } from "./ViewAsButton";

/** A user's effective access: roles, policies, and the attributes that the policies read. */
export function UserAccess({ username }: { username: string }) {
  const me = useMe();
  const query = useQuery(accessQuery(username));
  const { data } = query;
  return (
    <Section
      title="Effective access"
      description="The current access: a trace is shown, whole, if any of its spans satisfies any of these policies."
      actions={me.username !== username && <ViewAsButton username={username} label="See their traces" />}
    >
      {data === undefined ? (
        <QueryPlaceholder query={query} label="the access" height={80} />
      ) : (
        <Stack gap="md">
          <AccessSummary access={data} />
          {data.roles.map((role) => (
            <RoleAccess key={role.name} role={role} attributes={data.user.attributes} />
          ))}
        </Stack>
      )}
    </Section>
  );
}

function AccessSummary({ access }: { access: Api["UserAccess"] }) {
  const { user, roles, summary } = access;
  const hasNoPolicy = roles.every((role) => role.policies.length === 0);
  return (
    <Text component="div" size="sm">
      {user.disabled ? (
        <StateBadge color="red">No access</StateBadge>
      ) : (
        hasNoPolicy && <StateBadge color="gray">No access to traces</StateBadge>
      )}{" "}
      <Message text={summary} />{" "}
      {user.disabled
        ? "The access below applies if the account is enabled again."
        : roles.length === 0 && "Assign a role above."}
    </Text>
  );
}

function RoleAccess({ role, attributes }: { role: Api["AccessRole"]; attributes: Api["Attributes"] }) {
  return (
    <div>
      <Title order={3} mb={4}>
        Role{" "}
        <PageLink to="/roles/$name" params={{ name: role.name }} inherit>
          {role.name}
        </PageLink>
      </Title>
      {role.name === "admin" && <Text size="sm">Administration: users, roles, trace source, audit.</Text>}
      {role.policies.length === 0 ? (
        <Secondary size="sm">Has no policies, and grants no access to traces.</Secondary>
      ) : (
        <Stack gap="sm">
          {role.policies.map((policy, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: policies of a role are identified only by their order
            <PolicyAccess key={index} policy={policy} attributes={attributes} />
          ))}
        </Stack>
      )}
    </div>
  );
}

function PolicyAccess({
  policy,
  attributes,
}: {
  policy: Api["AccessPolicy"];
  attributes: Api["Attributes"];
}) {
  const names = referencedAttributes(policy.expression);
  return (
    <div>
      <Text size="sm" fw={600}>
        <SanitizedText text={policy.title} />
      </Text>
      {policy.description !== undefined && policy.description !== null && (
        <Secondary size="sm">
          <SanitizedText text={policy.description} />
        </Secondary>
      )}
      {policy.requirement === undefined ? (
        <Text component="div" size="sm" my={4}>
          <StateBadge color="red">Broken</StateBadge> It is invalid for the current fields, and its users
          cannot read any trace. Fix it in its role.
        </Text>
      ) : (
        <PolicyDescription text={policy.requirement} />
      )}
      <Code block style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
        <SanitizedText text={policy.expression} />
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
                      <SanitizedText text={`user.attributes.${name}`} />
                    </Code>
                  </Table.Th>
                  <Table.Td style={{ overflowWrap: "anywhere" }}>
                    {value === undefined ? (
                      <Group gap={6}>
                        <StateBadge color="yellow">Not set</StateBadge>
                        <Text span size="sm">
                          comparisons with it match no span
                        </Text>
                      </Group>
                    ) : (
                      <SanitizedText text={valueText(value)} maxLength={500} />
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
