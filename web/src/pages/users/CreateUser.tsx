import { Button, Group, Modal, Stack, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";
import { ButtonLink } from "../../components/links";
import { visible } from "../../lib/visible";
import { AttributesEditor } from "./AttributesEditor";
import { type AttributeRow, attributesOf, problemsOf } from "./attributes";
import { HandOver } from "./HandOver";
import { userChanged } from "./queries";
import { RolesSelect } from "./RolesSelect";

/** Creates a user. The input is kept until then. */
export function CreateUser({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [username, setUsername] = useState("");
  const [roles, setRoles] = useState<string[]>([]);
  const [rows, setRows] = useState<AttributeRow[]>([]);
  const [strict, setStrict] = useState(false);
  const create = useMutation({
    mutationFn: () =>
      ask(api.POST("/users", { body: { username: username.trim(), roles, attributes: attributesOf(rows) } })),
    // Not awaited, so that the password is shown at once.
    onSuccess: (user) => void userChanged(user.username),
  });
  const done = () => {
    setUsername("");
    setRoles([]);
    setRows([]);
    setStrict(false);
    create.reset();
    onClose();
  };
  const made = create.data;
  return (
    <Modal
      opened={opened}
      onClose={made === undefined ? onClose : done}
      title={made === undefined ? "Create a user" : `${visible(made.username)} was created`}
      size="lg"
      // A password that is shown only once must not be lost by an accidental click or key press.
      closeOnClickOutside={made === undefined && username === ""}
      closeOnEscape={made === undefined}
      withCloseButton={made === undefined}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {made === undefined ? (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            setStrict(true);
            if (problemsOf(rows).size === 0) {
              create.mutate();
            }
          }}
        >
          <Stack gap="md">
            <TextInput
              label="User name"
              description="As typed at the sign-in; upper and lower case are the same"
              required
              withAsterisk={false}
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
            <AttributesEditor rows={rows} onChange={setRows} strict={strict} />
            {create.isError && <ErrorNotice error={create.error} />}
            <Group justify="flex-end">
              <Button variant="default" onClick={onClose}>
                Cancel
              </Button>
              <Button type="submit" loading={create.isPending}>
                Create user
              </Button>
            </Group>
          </Stack>
        </form>
      ) : (
        <Stack gap="md">
          <HandOver username={made.username} password={made.initial_password} />
          <Group justify="flex-end">
            <ButtonLink
              to="/users/$username"
              params={{ username: made.username }}
              variant="default"
              onClick={done}
            >
              Go to {visible(made.username)}
            </ButtonLink>
            <Button onClick={done} data-autofocus>
              Done
            </Button>
          </Group>
        </Stack>
      )}
    </Modal>
  );
}
