import { Button, Group, List, Stack, Text, TextInput, Title } from "@mantine/core";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { type ReactNode, useMemo, useState } from "react";
import { type Api, api, hasStatus, ifMatch, unwrapWithEtag, type WithEtag } from "../../api/client";
import { invalidate, queryClient, rolesQuery } from "../../api/queries";
import { ErrorNotice } from "../../components/ErrorNotice";
import { IconButton } from "../../components/IconButton";
import { Message } from "../../components/Message";
import { Notice } from "../../components/Notice";
import { QueryPlaceholder } from "../../components/QueryPlaceholder";
import { UnsavedChangesPrompt } from "../../components/UnsavedChangesPrompt";
import { USERS_KEY } from "../users/queries";
import { MappingTrial } from "./MappingTrial";
import { draftOf, type MappingDraft, mappingOf, newRow, type Row, repeatedNames } from "./mapping";
import { mappingQuery } from "./queries";

type Stored = WithEtag<Api["ClaimsMapping"]>;

/** Editor of a provider's mapping. */
export function MappingEditor({ provider }: { provider: string }) {
  const query = useQuery(mappingQuery(provider));
  if (query.data === undefined) {
    return <QueryPlaceholder query={query} label="the mapping" height={160} />;
  }
  return <Editor provider={provider} stored={query.data} />;
}

function Editor({ provider, stored }: { provider: string; stored: Stored }) {
  const [edited, setEdited] = useState<{ base: Stored; draft: MappingDraft } | null>(null);
  // Created once per response, so that its rows keep their identity.
  const storedDraft = useMemo(() => draftOf(stored.data), [stored]);
  const { base, draft } = edited ?? { base: stored, draft: storedDraft };
  const save = useMutation({
    mutationFn: () =>
      unwrapWithEtag(
        api.PUT("/identity/providers/{provider}/mapping", {
          params: { path: { provider }, ...ifMatch(base.etag) },
          body: mappingOf(draft),
        }),
      ),
    onSuccess: ({ data: { roles, attributes }, etag }) => {
      queryClient.setQueryData(mappingQuery(provider).queryKey, {
        data: { roles: roles ?? [], attributes: attributes ?? {} },
        etag,
      });
      setEdited(null);
      void invalidate(USERS_KEY, ["user"]);
    },
    onError: (error) => {
      if (hasStatus(error, 412)) {
        void invalidate(mappingQuery(provider).queryKey);
      }
    },
  });
  const change = (changes: Partial<MappingDraft>) => {
    save.reset();
    setEdited({ base, draft: { ...draft, ...changes } });
  };
  const repeated = repeatedNames(draft.attributes);
  const { data: roles } = useQuery(rolesQuery);
  const roleNames = roles?.roles.map(({ name }) => name) ?? [];
  return (
    <Stack gap="md">
      <UnsavedChangesPrompt when={edited !== null} />
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <Stack gap="md">
          <Rows
            title="Roles"
            rows={draft.roles}
            onChange={(roles) => change({ roles })}
            name={{ label: "Role", list: roleNames, id: `roles-of-${provider}` }}
            expression={{ label: "for people with", placeholder: '"/payments" in claims.groups' }}
            add="Add a role"
          />
          <Rows
            title="Attributes"
            rows={draft.attributes}
            onChange={(attributes) => change({ attributes })}
            name={{ label: "Attribute" }}
            expression={{ label: "with the value of", placeholder: "claims.department" }}
            add="Add an attribute"
          />
          {repeated.length > 0 && (
            <Text size="sm" role="alert">
              Two attributes have the name {repeated.join(", ")}.
            </Text>
          )}
          {save.isError && <ErrorNotice error={save.error} />}
          {save.isSuccess && edited === null && <Saved answer={save.data.data} />}
          <Group gap="xs">
            <Button type="submit" loading={save.isPending} disabled={edited === null || repeated.length > 0}>
              Save
            </Button>
            {edited !== null && (
              <Button
                variant="default"
                onClick={() => {
                  save.reset();
                  setEdited(null);
                }}
              >
                Discard changes
              </Button>
            )}
          </Group>
        </Stack>
      </form>
      <MappingTrial provider={provider} mapping={mappingOf(draft)} />
    </Stack>
  );
}

function Saved({ answer }: { answer: Api["MappingAnswer"] }) {
  const { people_changed: people, warnings } = answer;
  return (
    <Stack gap="xs">
      <Text size="sm" role="status">
        Saved. The roles or attributes of {people} {people === 1 ? "person" : "people"} changed.
      </Text>
      {warnings.length > 0 && (
        <Notice kind="warning" title="Warnings">
          <List size="sm">
            {warnings.map(({ pointer, detail }) => (
              <List.Item key={pointer + detail}>
                <Message text={detail} />
              </List.Item>
            ))}
          </List>
        </Notice>
      )}
    </Stack>
  );
}

function Rows({
  title,
  rows,
  onChange,
  name,
  expression,
  add,
}: {
  title: string;
  rows: readonly Row[];
  onChange: (rows: Row[]) => void;
  name: { label: string; list?: readonly string[]; id?: string };
  expression: { label: string; placeholder: string };
  add: string;
}): ReactNode {
  const update = (id: number, changes: Partial<Row>) =>
    onChange(rows.map((row) => (row.id === id ? { ...row, ...changes } : row)));
  return (
    <div>
      <Title order={3} mb="xs">
        {title}
      </Title>
      {name.list !== undefined && (
        <datalist id={name.id}>
          {name.list.map((option) => (
            <option key={option} value={option} />
          ))}
        </datalist>
      )}
      <Stack gap="xs">
        {rows.map((row, index) => (
          <Group key={row.id} gap="xs" align="flex-end" wrap="nowrap">
            <TextInput
              label={index === 0 ? name.label : undefined}
              aria-label={`${name.label} ${index + 1}`}
              w={200}
              required
              withAsterisk={false}
              {...(name.id === undefined ? {} : { list: name.id })}
              value={row.name}
              onChange={(event) => update(row.id, { name: event.currentTarget.value })}
            />
            <TextInput
              label={index === 0 ? expression.label : undefined}
              aria-label={`${expression.label} ${index + 1}`}
              placeholder={expression.placeholder}
              styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
              style={{ flex: 1 }}
              required
              withAsterisk={false}
              value={row.expression}
              onChange={(event) => update(row.id, { expression: event.currentTarget.value })}
            />
            <IconButton
              tooltip={`Remove ${name.label.toLowerCase()} ${index + 1}`}
              size="lg"
              onClick={() => onChange(rows.filter(({ id }) => id !== row.id))}
            >
              <IconTrash size={16} aria-hidden />
            </IconButton>
          </Group>
        ))}
        <div>
          <Button
            size="xs"
            variant="default"
            leftSection={<IconPlus size={14} aria-hidden />}
            onClick={() => onChange([...rows, newRow()])}
          >
            {add}
          </Button>
        </div>
      </Stack>
    </div>
  );
}
