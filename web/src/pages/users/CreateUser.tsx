import { Button, Group, Modal, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { useMe } from "../../app/useMe";
import { ErrorNotice } from "../../components/ErrorNotice";
import { ButtonLink } from "../../components/links";
import { SubmitButtons } from "../../components/SubmitButtons";
import { sanitize } from "../../lib/sanitize";
import { AttributesEditor } from "./AttributesEditor";
import { type AttributeRow, attributesOf, nameErrors } from "./attributes";
import { InitialPassword } from "./InitialPassword";
import { type Owner, OwnerFields, serviceOf } from "./OwnerFields";
import { invalidateUser } from "./queries";
import { RolesSelect } from "./RolesSelect";

/** Creates a user. The input is kept until then. */
export function CreateUser({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [username, setUsername] = useState("");
  const [roles, setRoles] = useState<string[]>([]);
  const [rows, setRows] = useState<AttributeRow[]>([]);
  const [owner, setOwner] = useState<Owner | null>(null);
  const [showErrors, setShowErrors] = useState(false);
  const me = useMe();
  const create = useMutation({
    mutationFn: () =>
      unwrap(
        api.POST("/users", {
          body: {
            username: username.trim(),
            roles,
            attributes: attributesOf(rows),
            ...(owner === null ? {} : { service: serviceOf(owner) }),
          },
        }),
      ),
    // Not awaited, so that the password is shown at once.
    onSuccess: (user) => void invalidateUser(user.username),
  });
  const finish = () => {
    setUsername("");
    setRoles([]);
    setRows([]);
    setOwner(null);
    setShowErrors(false);
    create.reset();
    onClose();
  };
  const createdUser = create.data;
  return (
    <Modal
      opened={opened}
      onClose={createdUser === undefined ? onClose : finish}
      title={createdUser === undefined ? "Create a user" : `${sanitize(createdUser.username)} was created`}
      size="lg"
      // A password that is shown only once must not be lost by an accidental click or key press.
      closeOnClickOutside={createdUser === undefined && username === ""}
      closeOnEscape={createdUser?.initial_password === undefined}
      withCloseButton={createdUser?.initial_password === undefined}
    >
      {createdUser === undefined ? (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            setShowErrors(true);
            if (nameErrors(rows).size === 0) {
              create.mutate();
            }
          }}
        >
          <Stack gap="md">
            <TextInput
              label="User name"
              description={owner === null ? "For signing in; not case-sensitive" : "Not case-sensitive"}
              required
              maxLength={128}
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              data-autofocus
              value={username}
              onChange={(event) => setUsername(event.currentTarget.value)}
            />
            <Switch
              label="Service account: a program, without a password"
              checked={owner !== null}
              onChange={(event) =>
                setOwner(event.currentTarget.checked ? { owner: me.username, ownerRole: null } : null)
              }
            />
            {owner !== null && <OwnerFields value={owner} onChange={setOwner} />}
            <RolesSelect
              value={roles}
              onChange={setRoles}
              description="Their policies grant access to traces; admin grants administration only"
            />
            <AttributesEditor rows={rows} onChange={setRows} showErrors={showErrors} />
            {create.isError && <ErrorNotice error={create.error} />}
            <SubmitButtons label="Create user" busy={create.isPending} onCancel={onClose} />
          </Stack>
        </form>
      ) : (
        <Stack gap="md">
          {createdUser.initial_password === undefined ? (
            <Text size="sm">Make an API key for it on its page.</Text>
          ) : (
            <InitialPassword username={createdUser.username} password={createdUser.initial_password} />
          )}
          <Group justify="flex-end">
            <ButtonLink
              to="/users/$username"
              params={{ username: createdUser.username }}
              variant="default"
              onClick={finish}
            >
              Go to {sanitize(createdUser.username)}
            </ButtonLink>
            <Button onClick={finish} data-autofocus>
              Done
            </Button>
          </Group>
        </Stack>
      )}
    </Modal>
  );
}
