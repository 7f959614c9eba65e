import { Button, Code, Group, List, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { invalidate } from "../../api/queries";
import { ConfirmButton } from "../../components/ConfirmButton";
import { ErrorNotice } from "../../components/ErrorNotice";
import { PageLink } from "../../components/links";
import { RelativeTime } from "../../components/RelativeTime";
import { SanitizedText } from "../../components/SanitizedText";
import { sanitize } from "../../lib/sanitize";

const PREFIX_CHARS = 8;

/** Finds an API key by its first characters, to revoke it. */
export function FindKey({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [prefix, setPrefix] = useState("");
  const find = useMutation({
    // Only the first characters are sent: addresses are logged.
    mutationFn: () =>
      unwrap(api.GET("/api-keys", { params: { query: { prefix: prefix.trim().slice(0, PREFIX_CHARS) } } })),
  });
  const close = () => {
    setPrefix("");
    find.reset();
    onClose();
  };
  const keys = find.data?.api_keys;
  return (
    <Modal opened={opened} onClose={close} title="Find an API key" size="lg">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          find.mutate();
        }}
      >
        <Stack gap="md">
          <Text size="sm">
            A key that was found in public can be revoked without being known: enter how it begins.
          </Text>
          <Group gap="xs" align="flex-end">
            <TextInput
              label="First characters"
              description="Only the first 8 are sent"
              placeholder="twk_4fG8"
              required
              minLength={PREFIX_CHARS}
              autoComplete="off"
              spellCheck={false}
              data-autofocus
              value={prefix}
              onChange={(event) => {
                find.reset();
                setPrefix(event.currentTarget.value);
              }}
            />
            <Button type="submit" loading={find.isPending}>
              Find
            </Button>
          </Group>
          {find.isError && <ErrorNotice error={find.error} />}
          {keys?.length === 0 && (
            <Text size="sm" role="status">
              No key begins like this: it was revoked, or is another service’s.
            </Text>
          )}
          {keys !== undefined && keys.length > 0 && (
            <List listStyleType="none" spacing="sm" size="sm">
              {keys.map((key) => (
                <List.Item key={key.id}>
                  <Group gap="sm" wrap="nowrap">
                    <Text size="sm" style={{ overflowWrap: "anywhere" }} flex={1}>
                      <Code>{key.token_hint}…</Code> <SanitizedText text={key.name} maxLength={100} /> of{" "}
                      <PageLink
                        to="/users/$username"
                        params={{ username: key.username }}
                        inherit
                        onClick={close}
                      >
                        <SanitizedText text={key.username} />
                      </PageLink>
                      , last used <RelativeTime at={key.last_used_at} />
                    </Text>
                    <ConfirmButton
                      subtle
                      label="Revoke"
                      object={`the key ${sanitize(key.name)} of ${sanitize(key.username)}`}
                      title="Revoke this key?"
                      action={async () => {
                        const path = { username: key.username, id: key.id };
                        await unwrap(api.DELETE("/users/{username}/api-keys/{id}", { params: { path } }));
                        await invalidate(["user", key.username]);
                        find.mutate();
                      }}
                    >
                      After this, requests with the key <SanitizedText text={key.name} maxLength={100} /> (
                      {key.token_hint}…) are rejected. This cannot be undone.
                    </ConfirmButton>
                  </Group>
                </List.Item>
              ))}
            </List>
          )}
        </Stack>
      </form>
    </Modal>
  );
}
