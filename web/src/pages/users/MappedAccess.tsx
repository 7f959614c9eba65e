import { Code, Stack, Text } from "@mantine/core";
import type { Api } from "../../api/client";
import { Notice } from "../../components/Notice";
import { RelativeTime } from "../../components/RelativeTime";
import { RoleBadges } from "../../components/RoleBadges";
import { SanitizedText } from "../../components/SanitizedText";
import { valueText } from "./attributes";

/** The roles that a user has only by the mapping of the identity provider. */
export function mappedRoles({ roles, assigned }: Api["User"]): string[] {
  return roles.filter((role) => !assigned.roles.includes(role));
}

/** What the identity provider gives a user; nothing for a user with a password. */
export function MappedAccess({ user }: { user: Api["User"] }) {
  const { provider } = user;
  if (provider === null) {
    return null;
  }
  const roles = mappedRoles(user);
  const attributes = provider.mapped_attributes.map((name) => ({ name, value: user.attributes[name] }));
  return (
    <Notice kind="info" mb="md" title={`Signs in with the identity provider ${provider.name}`}>
      <Stack gap="xs">
        <Text size="sm">
          Its mapping gives the following roles and attributes
          {provider.confirmed_at === null ? (
            ", once the user signs in"
          ) : (
            <>
              , as of <RelativeTime at={provider.confirmed_at} />
            </>
          )}
          . Change them at the identity provider or in the mapping.
        </Text>
        {roles.length === 0 ? <Text size="sm">No roles</Text> : <RoleBadges roles={roles} />}
        {attributes.map(({ name, value }) => (
          <div key={name}>
            <Code>
              <SanitizedText text={name} />
            </Code>{" "}
            {value === undefined ? "not set" : <SanitizedText text={valueText(value)} maxLength={500} />}
          </div>
        ))}
        <Text size="xs" c="dimmed">
          Subject: <SanitizedText text={provider.subject} maxLength={200} />
        </Text>
      </Stack>
    </Notice>
  );
}
