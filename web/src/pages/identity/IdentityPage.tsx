import { Code, Stack, Table, Text } from "@mantine/core";
import { IconId } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { Api } from "../../api/client";
import { AdminOnly } from "../../components/AdminOnly";
import { CopyButton } from "../../components/CopyButton";
import { EmptyState } from "../../components/EmptyState";
import { PageTitle } from "../../components/PageTitle";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { SanitizedText } from "../../components/SanitizedText";
import { Section } from "../../components/Section";
import { MappingEditor } from "./MappingEditor";
import { providersQuery } from "./queries";

/** The identity providers, with what their people get. */
export function IdentityPage() {
  return (
    <AdminOnly>
      <PageTitle title="Identity" />
      <Text c="dimmed" mb="md" maw={720}>
        People who sign in with an identity provider get roles and attributes by its mapping: conditions on
        the claims that the provider confirms about them. The mappings are part of the access model and its
        history.
      </Text>
      <Providers />
    </AdminOnly>
  );
}

function Providers() {
  const query = useQuery(providersQuery);
  if (query.data === undefined) {
    return <QueryPlaceholder query={query} label="the identity providers" height={240} />;
  }
  const { providers } = query.data;
  if (providers.length === 0) {
    return (
      <EmptyState title="No identity provider is configured" icon={<IconId size={32} aria-hidden />}>
        Set <Code>identity_providers</Code> in the configuration of the service, and restart it.
      </EmptyState>
    );
  }
  return (
    <Stack gap="md" maw={1100}>
      {providers.map((provider) => (
        <Section key={provider.name} title={provider.label ?? provider.name}>
          <Stack gap="md">
            <Facts provider={provider} />
            <MappingEditor provider={provider.name} />
          </Stack>
        </Section>
      ))}
    </Stack>
  );
}

function Facts({ provider }: { provider: Api["IdentityProvider"] }) {
  const facts = [
    ["Issuer", provider.issuer],
    ["Redirect URI", provider.redirect_uri],
    ["Back-channel logout URI", provider.backchannel_logout_uri],
  ] as const;
  return (
    <Table verticalSpacing={4} withRowBorders={false}>
      <Table.Tbody>
        {facts.map(([label, value]) => (
          <Table.Tr key={label}>
            <Table.Th scope="row" w={190}>
              {label}
            </Table.Th>
            <Table.Td style={{ overflowWrap: "anywhere" }}>
              {value === null ? (
                "This provider is no longer configured"
              ) : (
                <>
                  <SanitizedText text={value} /> <CopyButton value={value} name={label} />
                </>
              )}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
