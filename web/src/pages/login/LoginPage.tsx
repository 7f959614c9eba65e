import { Button, Center, Group, Paper, PasswordInput, Stack, TextInput, Title } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { api, unwrap } from "../../api/client";
import { meQuery, queryClient } from "../../api/queries";
import { ErrorNotice } from "../../components/ErrorNotice";

const route = getRouteApi("/login");

/** Sign-in page. It returns to the page that required the sign-in. */
export function LoginPage() {
  const { to } = route.useSearch();
  const router = useRouter();
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  useEffect(() => {
    document.title = "Sign in – Tracewarden";
  }, []);
  const login = useMutation({
    mutationFn: () => unwrap(api.POST("/login", { body: { username, password } })),
    onSuccess: (me) => {
      queryClient.clear();
      queryClient.setQueryData(meQuery.queryKey, me);
      router.history.push(router.history.createHref(`/ui${to ?? "/search"}`));
    },
  });
  return (
    <Center component="main" mih="100vh" p="md" bg="var(--tw-background)">
      <Paper withBorder p="xl" w={380} maw="100%">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            login.mutate();
          }}
        >
          <Stack gap="md">
            <Group gap="sm">
              <img src={`${import.meta.env.BASE_URL}icon.svg`} alt="" width={30} height={30} />
              <Title order={1}>Tracewarden</Title>
            </Group>
            <TextInput
              label="User name"
              autoComplete="username"
              autoFocus
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
      </Paper>
    </Center>
  );
}
