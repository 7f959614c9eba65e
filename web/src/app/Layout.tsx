import {
  Anchor,
  AppShell,
  Burger,
  Group,
  Menu,
  NavLink,
  ScrollArea,
  Text,
  UnstyledButton,
  VisuallyHidden,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import {
  IconChevronDown,
  IconClipboardList,
  IconDatabase,
  IconHistory,
  IconId,
  IconLogout,
  IconSearch,
  IconShieldLock,
  IconUser,
  IconUsers,
} from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, Outlet, useRouter, useRouterState } from "@tanstack/react-router";
import { useEffect } from "react";
import { ApiError, api, unwrap } from "../api/client";
import { signInMethodsQuery } from "../api/queries";
import { notifyError } from "../components/notifyError";
import { DisplaySwitches } from "./DisplaySwitches";
import { HelpButton } from "./HelpButton";
import classes from "./Layout.module.css";
import { PreviewBar } from "./PreviewBar";
import { SessionEndedDialog } from "./SessionEndedDialog";
import { leave } from "./signOut";
import { useMe } from "./useMe";

const PAGES = [
  { to: "/search", label: "Search", icon: IconSearch, admin: false },
  { to: "/source", label: "Trace source", icon: IconDatabase, admin: true },
  { to: "/roles", label: "Roles", icon: IconShieldLock, admin: true },
  { to: "/users", label: "Users", icon: IconUsers, admin: true },
  { to: "/identity", label: "Identity", icon: IconId, admin: true },
  { to: "/history", label: "Model history", icon: IconHistory, admin: true },
  { to: "/audit", label: "Audit", icon: IconClipboardList, admin: true },
] as const;

/** Frame around every page for signed-in users. */
export function Layout() {
  const me = useMe();
  const [opened, { toggle, close }] = useDisclosure();
  const path = useRouterState({ select: (state) => state.location.pathname });
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page closes the menu
  useEffect(close, [path, close]);
  const { data: methods } = useQuery({ ...signInMethodsQuery, enabled: me.is_admin });
  const hasProviders = (methods?.providers.length ?? 0) > 0;
  const pages = PAGES.filter((page) => me.is_admin || !page.admin)
    .filter((page) => hasProviders || page.to !== "/identity")
    .filter(() => !me.must_change_password);
  return (
    <AppShell
      header={{ height: me.preview === null ? 48 : 48 + 36 }}
      navbar={{ width: 200, breakpoint: "md", collapsed: { mobile: !opened, desktop: true } }}
      padding={{ base: "sm", sm: "md" }}
    >
      <AppShell.Header>
        <a className={classes.skip} href="#content">
          Skip to the content
        </a>
        {me.preview !== null && <PreviewBar preview={me.preview} />}
        <Group h={48} px="md" justify="space-between" wrap="nowrap" gap="xs">
          <Group gap="sm" wrap="nowrap">
            <Burger hiddenFrom="md" size="sm" opened={opened} onClick={toggle} aria-label="Menu" />
            <Anchor component={Link} to="/search" className={classes.brand} underline="never">
              <img src={`${import.meta.env.BASE_URL}icon.svg`} alt="" width={22} height={22} />
              <Text span fw={650} visibleFrom="xs">
                Tracewarden
              </Text>
              <VisuallyHidden>Tracewarden, start page</VisuallyHidden>
            </Anchor>
            <Group component="nav" aria-label="Pages" gap={4} visibleFrom="md" wrap="nowrap">
              {pages.map(({ to, label }) => (
                <Link key={to} to={to} className={classes.page} activeProps={{ "data-active": true }}>
                  {label}
                </Link>
              ))}
            </Group>
          </Group>
          <Group gap={4} wrap="nowrap">
            <DisplaySwitches />
            <HelpButton />
            <AccountMenu />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" hiddenFrom="md" aria-label="Pages">
        <ScrollArea>
          {pages.map(({ to, label, icon: Icon }) => (
            <NavLink
              key={to}
              component={Link}
              to={to}
              label={label}
              leftSection={<Icon size={18} aria-hidden />}
            />
          ))}
        </ScrollArea>
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1} className={classes.main}>
        <Outlet />
      </AppShell.Main>
      <SessionEndedDialog />
    </AppShell>
  );
}

function AccountMenu() {
  const me = useMe();
  const router = useRouter();
  const logout = useMutation({
    mutationFn: () => unwrap(api.POST("/logout")),
    onSuccess: () => leave(router, me.provider),
    onError: (error) => {
      // The session has already ended, or is of another user.
      if (error instanceof ApiError && ["unauthenticated", "user_mismatch"].includes(error.code)) {
        return leave(router);
      }
      notifyError("You are still signed in: try to sign out again", error);
    },
  });
  return (
    <Menu position="bottom-end" width={220}>
      <Menu.Target>
        <UnstyledButton className={classes.account} aria-label={`Account of ${me.username}`}>
          <IconUser size={18} aria-hidden />
          <Text span size="sm" visibleFrom="sm">
            {me.username}
          </Text>
          <IconChevronDown size={14} aria-hidden />
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          {me.username} · {me.roles.length === 0 ? "no roles" : me.roles.join(", ")}
        </Menu.Label>
        {!me.must_change_password && (
          <Menu.Item component={Link} to="/account" leftSection={<IconUser size={16} aria-hidden />}>
            Account, sessions, API keys
          </Menu.Item>
        )}
        <Menu.Item leftSection={<IconLogout size={16} aria-hidden />} onClick={() => logout.mutate()}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
