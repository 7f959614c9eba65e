import {
  Anchor,
  Button,
  Center,
  Divider,
  Group,
  Paper,
  PasswordInput,
  Stack,
  TextInput,
  Title,
} from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, useLocation, useRouter } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { api, unwrap } from "../../api/client";
import { meQuery, queryClient, signInMethodsQuery } from "../../api/queries";
import type { components } from "../../api/schema";
import { ErrorNotice } from "../../components/ErrorNotice";
import { Notice } from "../../components/Notice";
import { failureText, providerHref } from "./provider";

const route = getRouteApi("/login");

/** Sign-in page. It returns to the page that required the sign-in. */
export function LoginPage() {
  const { to, failed, request, signed_out: signedOut } = route.useSearch();
  const hash = useLocation({ select: (location) => location.hash });
  const link = new URLSearchParams(hash).get("link");
  const methods = useQuery(signInMethodsQuery);
  useEffect(() => {
    document.title = "Sign in – Tracewarden";
  }, []);
  const providers = methods.data?.providers ?? [];
  // A password is asked for if it is not known whether it would be accepted.
  const password = methods.data?.password ?? (methods.isPending ? "off" : "everyone");
  return (
    <Center component="main" mih="100vh" p="md" bg="var(--tw-background)">
      <Paper withBorder p="xl" w={380} maw="100%">
        <Stack gap="md">
          <Group gap="sm">
            <img src={`${import.meta.env.BASE_URL}icon.svg`} alt="" width={30} height={30} />
            <Title order={1}>Tracewarden</Title>
          </Group>
          {failed !== undefined && (
            <Notice kind="error" title="You are not signed in">
              {failureText(failed)}
              {request !== undefined && <div>Request id {request}</div>}
            </Notice>
          )}
          {providers
            .filter(({ name }) => name === signedOut)
            .map(({ name, label }) => (
              <Notice key={name} kind="info" title="You are signed out here">
                You may still be signed in at the identity provider.{" "}
                <Anchor href={`/logout/${encodeURIComponent(name)}`} inherit c="inherit" underline="always">
                  Sign out of {label} too
                </Anchor>
              </Notice>
            ))}
          {link !== null && <LinkSignIn token={link} />}
          {providers.map(({ name, label }) => (
            <Button key={name} component="a" href={providerHref(name, to ?? "/search")} variant="default">
              {label}
            </Button>
          ))}
          {providers.length > 0 && password !== "off" && (
            <Divider label={password === "administrators" ? "or, as an administrator" : "or"} />
          )}
          {password !== "off" && <PasswordSignIn to={to} isFirst={providers.length === 0} />}
        </Stack>
      </Paper>
    </Center>
  );
}

/** Sign-in with a link of `tracewarden break-glass`. */
function LinkSignIn({ token }: { token: string }) {
  const enter = useEnter();
  const login = useMutation({
    mutationFn: () => unwrap(api.POST("/identity/break-glass", { body: { token } })),
    onSuccess: (me) => enter(me, "/search"),
  });
  return (
    <Stack gap="md">
      <div>This link signs you in once. The audit log records it.</div>
      {login.isError && (
        <ErrorNotice error={login.error} title="The link does not work: create another one" />
      )}
      <Button loading={login.isPending} onClick={() => login.mutate()}>
        Sign in with this link
      </Button>
    </Stack>
  );
}

/** Shows a page to a user who has just signed in. */
function useEnter() {
  const router = useRouter();
  return (me: components["schemas"]["Me"], to: string) => {
    queryClient.clear();
    queryClient.setQueryData(meQuery.queryKey, me);
    router.history.push(router.history.createHref(`/ui${to}`));
  };
}

function PasswordSignIn({ to, isFirst }: { to: string | undefined; isFirst: boolean }) {
  const enter = useEnter();
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const login = useMutation({
    mutationFn: () => unwrap(api.POST("/login", { body: { username, password } })),
    onSuccess: (me) => enter(me, to ?? "/search"),
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        login.mutate();
      }}
    >
      <Stack gap="md">
        <TextInput
          label="User name"
          autoComplete="username"
          autoFocus={isFirst}
          required
          value={username}
          onChange={(event) => setUsername(event.currentTarget.value)}
        />
        <PasswordInput
          label="Password"
          autoComplete="current-password"
          required
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
        />
        {login.isError && <ErrorNotice error={login.error} />}
        <Button type="submit" loading={login.isPending}>
          Sign in
        </Button>
      </Stack>
    </form>
  );
}
