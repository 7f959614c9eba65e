import { Button, Group, Modal, Stack, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";
import { ButtonLink } from "../../components/links";
import { SubmitButtons } from "../../components/SubmitButtons";
import { sanitize } from "../../lib/sanitize";
import { AttributesEditor } from "./AttributesEditor";
import { type AttributeRow, attributesOf, nameErrors } from "./attributes";
import { InitialPassword } from "./InitialPassword";
import { invalidateUser } from "./queries";
import { RolesSelect } from "./RolesSelect";

/** Creates a user. The input is kept until then. */
export function CreateUser({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [username, setUsername] = useState("");
  const [roles, setRoles] = useState<string[]>([]);
  const [rows, setRows] = useState<AttributeRow[]>([]);
  const [showErrors, setShowErrors] = useState(false);
  const create = useMutation({
    mutationFn: () =>
      unwrap(
        api.POST("/users", { body: { username: username.trim(), roles, attributes: attributesOf(rows) } }),
      ),
    // Not awaited, so that the password is shown at once.
    onSuccess: (user) => void invalidateUser(user.username),
  });
  const finish = () => {
    setUsername("");
    setRoles([]);
    setRows([]);
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
      closeOnEscape={createdUser === undefined}
      withCloseButton={createdUser === undefined}
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
              description="For signing in; not case-sensitive"
              required
              maxLength={128}
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              data-autofocus
              value={username}
              onChange={(event) => setUsername(event.currentTarget.value)}
            />
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
          <InitialPassword username={createdUser.username} password={createdUser.initial_password} />
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
