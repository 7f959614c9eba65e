import { Button, Group, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { type Api, api, unwrap } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";
import { Section } from "../../components/Section";
import { UnsavedChangesPrompt } from "../../components/UnsavedChangesPrompt";
import { type Owner, OwnerFields, serviceOf } from "./OwnerFields";
import { invalidateUser } from "./queries";

/** Editor of the owner of a service account. */
export function ServiceSettings({ username, service }: { username: string; service: Api["ServiceInfo"] }) {
  const stored: Owner = { owner: service.owner ?? "", ownerRole: service.owner_role };
  const [draft, setDraft] = useState<Owner | null>(null);
  const value = draft ?? stored;
  const isDirty = value.owner.trim() !== stored.owner || value.ownerRole !== stored.ownerRole;
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        api.PATCH("/users/{username}", {
          params: { path: { username } },
          body: { service: serviceOf(value) },
        }),
      ),
    onSuccess: async () => {
      await invalidateUser(username);
      setDraft(null);
    },
  });
  return (
    <Section title="Owner" description="Takes effect on the next request of the program.">
      <UnsavedChangesPrompt when={isDirty} />
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <Stack gap="md" maw={480}>
          <OwnerFields
            value={value}
            onChange={(changed) => {
              save.reset();
              setDraft(changed);
            }}
          />
          {save.isError && <ErrorNotice error={save.error} />}
          <Group gap="xs">
            <Button type="submit" loading={save.isPending} disabled={!isDirty}>
              Save owner
            </Button>
            <Text size="sm" c="dimmed" role="status">
              {save.isSuccess ? "Saved" : ""}
            </Text>
          </Group>
        </Stack>
      </form>
    </Section>
  );
}
