import { Button, PasswordInput, Stack } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";

const MIN_LENGTH = 12;

/** Changes the signed-in user's password. All other sessions of the account end. */
export function PasswordForm({ onChanged }: { onChanged: () => void }) {
  const [currentPassword, setCurrentPassword] = useState("");
  const [newPassword, setNewPassword] = useState("");
  const [confirmation, setConfirmation] = useState("");
  const change = useMutation({
    mutationFn: () =>
      unwrap(
        api.POST("/me/password", { body: { current_password: currentPassword, new_password: newPassword } }),
      ),
    onSuccess: () => {
      setCurrentPassword("");
      setNewPassword("");
      setConfirmation("");
      onChanged();
    },
  });
  const isTooShort = newPassword !== "" && [...newPassword].length < MIN_LENGTH;
  const isDifferent = confirmation !== "" && confirmation !== newPassword;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (!isTooShort && newPassword === confirmation) {
          change.mutate();
        }
      }}
    >
      <Stack gap="sm" maw={380}>
        <PasswordInput
          label="Current password"
          autoComplete="current-password"
          required
          value={currentPassword}
          onChange={(event) => setCurrentPassword(event.currentTarget.value)}
        />
        <PasswordInput
          label="New password"
          description={`At least ${MIN_LENGTH} characters; a sentence is fine`}
          autoComplete="new-password"
          required
          value={newPassword}
          error={isTooShort ? `${MIN_LENGTH - [...newPassword].length} characters too short` : null}
          onChange={(event) => setNewPassword(event.currentTarget.value)}
        />
        <PasswordInput
          label="Confirm new password"
          autoComplete="new-password"
          required
          value={confirmation}
          error={isDifferent ? "The passwords differ" : null}
          onChange={(event) => setConfirmation(event.currentTarget.value)}
        />
        {change.isError && <ErrorNotice error={change.error} />}
        <Button type="submit" loading={change.isPending} disabled={isTooShort || isDifferent}>
          Change password
        </Button>
      </Stack>
    </form>
  );
}
