import { Button, Modal, Select, Stack, Text, TextInput } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Api, api, unwrap } from "../../api/client";
import { ConfirmButton } from "../../components/ConfirmButton";
import { ErrorNotice } from "../../components/ErrorNotice";
import { SubmitButtons } from "../../components/SubmitButtons";
import { sanitize } from "../../lib/sanitize";
import { providersQuery } from "../identity/queries";
import { invalidateUser } from "./queries";

/** Decides whether a user signs in with a password or with an identity provider. */
export function LinkUser({
  user,
  onPassword,
}: {
  user: Api["User"];
  onPassword: (password: string) => void;
}) {
  const [isOpen, dialog] = useDisclosure();
  const providers = useQuery(providersQuery).data?.providers ?? [];
  const { username } = user;
  const displayName = sanitize(username);
  if (user.provider !== null) {
    return (
      <ConfirmButton
        label="Unlink"
        title={`Unlink ${displayName} from ${user.provider.name}?`}
        color="brand"
        action={async () => {
          const result = await unwrap(
            api.DELETE("/users/{username}/provider", { params: { path: { username } } }),
          );
          onPassword(result.initial_password);
          void invalidateUser(username);
        }}
      >
        The user signs in with a password from then on, which is shown only once. Sessions end, and the roles
        and attributes that the identity provider gives are lost.
      </ConfirmButton>
    );
  }
  if (providers.length === 0) {
    return null;
  }
  return (
    <>
      <Button size="xs" variant="default" onClick={dialog.open}>
        Link to a provider…
      </Button>
      <Modal opened={isOpen} onClose={dialog.close} title={`Link ${displayName} to an identity provider`}>
        <LinkForm username={username} providers={providers.map(({ name }) => name)} onClose={dialog.close} />
      </Modal>
    </>
  );
}

function LinkForm({
  username,
  providers,
  onClose,
}: {
  username: string;
  providers: readonly string[];
  onClose: () => void;
}) {
  const [provider, setProvider] = useState(providers[0] ?? "");
  const [subject, setSubject] = useState("");
  const link = useMutation({
    mutationFn: () =>
      unwrap(
        api.PUT("/users/{username}/provider", {
          params: { path: { username } },
          body: { name: provider, subject },
        }),
      ),
    onSuccess: async () => {
      await invalidateUser(username);
      notifications.show({ color: "green", message: `${sanitize(username)} signs in with ${provider} now` });
      onClose();
    },
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        link.mutate();
      }}
    >
      <Stack gap="md">
        <Text size="sm">
          From then on the user signs in there only: sessions end, the password no longer works, and API keys
          are rejected until the first sign-in. Assigned roles and attributes stay.
        </Text>
        <Select
          label="Identity provider"
          allowDeselect={false}
          data={[...providers]}
          value={provider}
          onChange={(value) => value !== null && setProvider(value)}
        />
        <TextInput
          label="Subject"
          description="What identifies the person there, as in the audit record of the refused sign-in"
          required
          autoComplete="off"
          spellCheck={false}
          value={subject}
          onChange={(event) => {
            link.reset();
            setSubject(event.currentTarget.value);
          }}
        />
        {link.isError && <ErrorNotice error={link.error} />}
        <SubmitButtons label="Link" busy={link.isPending} onCancel={onClose} />
      </Stack>
    </form>
  );
}
