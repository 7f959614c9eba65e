import { Button, Group, Modal, PasswordInput, Stack, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { useState } from "react";
import { api, unwrap } from "../api/client";
import { meQuery, queryClient } from "../api/queries";
import { ErrorNotice } from "../components/ErrorNotice";
import { providerHref } from "../pages/login/provider";
import classes from "./Layout.module.css";
import { settleSession, useSessionEnd } from "./session";
import { leave } from "./signOut";
import { useMe } from "./useMe";

/** Asks for a sign-in over the page when the session has ended, so that nothing typed is lost. It hides the page, which may be in
 * view of another user. */
export function SessionEndedDialog() {
  const me = useMe();
  const end = useSessionEnd();
  return (
    <Modal
      opened={end !== null}
      onClose={() => {}}
      // Above the page's own dialogs and notifications.
      zIndex={1_000}
      withCloseButton={false}
      closeOnEscape={false}
      closeOnClickOutside={false}
      centered
      size="sm"
      overlayProps={{ className: classes.curtain, backgroundOpacity: 1 }}
      title={end === "other-user" ? "Another user signed in in this browser" : "Your session has ended"}
    >
      {end !== null &&
        (me.provider === undefined ? (
          <SignInAgain username={me.username} userId={me.id} end={end} />
        ) : (
          <SignInAtProvider username={me.username} userId={me.id} provider={me.provider} end={end} />
        ))}
    </Modal>
  );
}

type End = "ended" | "other-user";

/** Signs in with the identity provider in another tab, so that this page keeps what was typed. */
function SignInAtProvider({
  username,
  userId,
  provider,
  end,
}: {
  username: string;
  userId: string;
  provider: string;
  end: End;
}) {
  const check = useMutation({
    mutationFn: () => unwrap(api.GET("/me")),
    onSuccess: (me) => {
      if (me.id === userId) {
        queryClient.setQueryData(meQuery.queryKey, me);
        settleSession(true);
      }
    },
  });
  return (
    <Stack gap="sm">
      <Text size="sm">
        This page belongs to {username}. Sign in again in another tab, then continue here; what you have typed
        is still here.
      </Text>
      <Button
        component="a"
        href={providerHref(provider, "/account")}
        target="_blank"
        rel="noreferrer"
        variant="default"
      >
        Sign in with {provider}
      </Button>
      {check.isError && <ErrorNotice error={check.error} />}
      {check.isSuccess && check.data.id !== userId && (
        <Text size="sm" role="alert">
          Another user is signed in: {check.data.username}.
        </Text>
      )}
      <Group justify="space-between">
        <LeaveButton end={end} />
        <Button loading={check.isPending} onClick={() => check.mutate()}>
          Continue
        </Button>
      </Group>
    </Stack>
  );
}

/** Gives the page up. */
function LeaveButton({ end }: { end: End }) {
  const router = useRouter();
  const [isLeaving, setIsLeaving] = useState(false);
  return end === "other-user" ? (
    <Button variant="default" onClick={() => window.location.reload()}>
      Continue as the other user
    </Button>
  ) : (
    <Button
      variant="default"
      loading={isLeaving}
      onClick={() => {
        setIsLeaving(true);
        void leave(router);
      }}
    >
      Discard and sign out
    </Button>
  );
}

function SignInAgain({ username, userId, end }: { username: string; userId: string; end: End }) {
  const [password, setPassword] = useState("");
  const login = useMutation({
    mutationFn: () => unwrap(api.POST("/login", { body: { username, password } })),
    onSuccess: (me) => {
      if (me.id !== userId) {
        // The name belongs to another user by now, who must not see this page.
        window.location.reload();
        return;
      }
      queryClient.setQueryData(meQuery.queryKey, me);
      settleSession(true);
    },
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        // Portals pass events on to the page's forms.
        event.stopPropagation();
        login.mutate();
      }}
    >
      <Stack gap="sm">
        <Text size="sm">
          This page belongs to {username}. Sign in again to continue where you were; what you have typed is
          still here.
        </Text>
        <TextInput label="User name" autoComplete="username" value={username} readOnly />
        <PasswordInput
          label="Password"
          autoComplete="current-password"
          data-autofocus
          required
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
        />
        {login.isError && <ErrorNotice error={login.error} />}
        <Group justify="space-between">
          <LeaveButton end={end} />
          <Button type="submit" loading={login.isPending}>
            Sign in
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
