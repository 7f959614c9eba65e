import { Button, PasswordInput, Stack } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";

const LEAST = 12;

/** Changes the signed-in user's password. All other sessions of the account end. */
export function PasswordForm({ onChanged }: { onChanged: () => void }) {
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [again, setAgain] = useState("");
  const change = useMutation({
    mutationFn: () =>
      ask(api.POST("/me/password", { body: { current_password: current, new_password: next } })),
    onSuccess: () => {
      setCurrent("");
      setNext("");
      setAgain("");
      onChanged();
    },
  });
  const short = next !== "" && [...next].length < LEAST;
  const differs = again !== "" && again !== next;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (!short && next === again) {
          change.mutate();
        }
      }}
    >
      <Stack gap="sm" maw={380}>
        <PasswordInput
          label="Current password"
          autoComplete="current-password"
          required
          withAsterisk={false}
          value={current}
          onChange={(event) => setCurrent(event.currentTarget.value)}
        />
        <PasswordInput
          label="New password"
          description={`At least ${LEAST} characters; a sentence is fine`}
          autoComplete="new-password"
          required
          withAsterisk={false}
          value={next}
          error={short ? `${LEAST - [...next].length} characters too short` : null}
          onChange={(event) => setNext(event.currentTarget.value)}
        />
        <PasswordInput
          label="Confirm new password"
          autoComplete="new-password"
          required
          withAsterisk={false}
          value={again}
          error={differs ? "The passwords differ" : null}
          onChange={(event) => setAgain(event.currentTarget.value)}
        />
        {change.isError && <ErrorNotice error={change.error} />}
        <Button type="submit" loading={change.isPending} disabled={short || differs}>
          Change password
        </Button>
      </Stack>
    </form>
  );
}
