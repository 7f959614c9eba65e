import type { Page } from "playwright-core";
import { waitUntilIdle, waitUntilVisible } from "./pages";
import type { Session } from "./session";

/** User of a view. */
export type UserKind = "anonymous" | "newcomer" | "reader" | "admin" | "previewing";

/** Names and ids that the views use. */
export interface Fixture {
  /** A trace that the reader may see. */
  trace: string;
  /** A role with members, and one of its members. */
  role: string;
  user: string;
  serviceAccount: string;
  /** The bound table. */
  database: string;
  table: string;
}

/** A page in a certain state. */
export interface View {
  name: string;
  userKind: UserKind;
  path: (world: Fixture) => string;
  /** Actions on the page that lead to the state. */
  action?: (page: Page, world: Fixture) => Promise<void>;
}

/** Creates a service account with two keys, of which one expires soon. */
export async function createServiceAccount(admin: Session, owner: string, role: string): Promise<string> {
  const username = `nightly-report-${Date.now()}`;
  await admin.call("POST", "/users", { username, roles: [role], service: { owner, owner_role: role } });
  for (const days of [3, 100]) {
    const expires_at = new Date(Date.now() + days * 86_400_000).toISOString();
    await admin.call("POST", `/users/${username}/api-keys`, { name: "report of the night", expires_at });
  }
  return username;
}

/** An id that no trace has. */
export const MISSING_TRACE_ID = "00000000000000000000000000000bad";

const setupParams = ({ database, table }: Fixture) =>
  `database=${encodeURIComponent(database)}&table=${encodeURIComponent(table)}`;

/** All pages, in the states that users encounter. */
export const VIEWS: readonly View[] = [
  { name: "sign-in", userKind: "anonymous", path: () => "/login" },
  {
    name: "sign-in-error",
    userKind: "anonymous",
    path: () => "/login",
    action: async (page) => {
      await page.getByLabel("User name", { exact: true }).fill("unknown-user");
      await page.getByLabel("Password", { exact: true }).fill("no password of anybody");
      await page.getByRole("button", { name: "Sign in" }).click();
      await waitUntilVisible(page.getByRole("alert"));
    },
  },
  { name: "sign-in-refused", userKind: "anonymous", path: () => "/login?failed=no_role" },
  { name: "signed-out", userKind: "anonymous", path: () => "/login?signed_out=company" },
  {
    name: "sign-in-link",
    userKind: "anonymous",
    path: () => "/login#link=not-a-link",
    action: async (page) => {
      await page.getByRole("button", { name: "Sign in with this link" }).click();
      await waitUntilVisible(page.getByRole("alert"));
    },
  },
  { name: "password", userKind: "newcomer", path: () => "/password" },
  { name: "search", userKind: "reader", path: () => "/search" },
  { name: "search-empty", userKind: "reader", path: () => "/search?last=1s" },
  { name: "search-day", userKind: "reader", path: () => "/search?last=24h" },
  { name: "search-operations", userKind: "reader", path: () => "/search?last=24h&view=operations" },
  {
    name: "search-entry",
    userKind: "reader",
    path: () => "/search?last=24h",
    action: async (page) => {
      await page.keyboard.press("/");
      await page.keyboard.type("ServiceName = ");
      await waitUntilVisible(page.getByRole("listbox", { name: "Suggestions" }).getByRole("option"));
    },
  },
  {
    name: "search-error",
    userKind: "reader",
    path: () => "/search?last=24h",
    action: async (page) => {
      await page.keyboard.press("/");
      await page.keyboard.type("Duration > soon");
      await page.keyboard.press("Enter");
      await waitUntilVisible(page.getByRole("alert"));
    },
  },
  {
    name: "search-share",
    userKind: "reader",
    path: () => "/search",
    action: async (page) => {
      await page.getByRole("button", { name: "Share" }).click();
      await waitUntilVisible(page.getByRole("menu"));
    },
  },
  { name: "search-nothing-visible", userKind: "admin", path: () => "/search" },
  { name: "search-previewing", userKind: "previewing", path: () => "/search" },
  {
    name: "keyboard-shortcuts",
    userKind: "reader",
    path: () => "/search",
    action: async (page) => {
      await page.getByRole("button", { name: "Keyboard shortcuts" }).click();
      await waitUntilVisible(page.getByRole("dialog"));
    },
  },
  { name: "trace", userKind: "reader", path: ({ trace }) => `/trace/${trace}` },
  {
    name: "trace-span",
    userKind: "reader",
    path: ({ trace }) => `/trace/${trace}`,
    action: async (page) => {
      await page.getByRole("treegrid", { name: "Spans" }).focus();
      // A span with an error has the most details.
      await page.keyboard.press("e");
      await page.keyboard.press("Enter");
      await waitUntilVisible(page.getByRole("region", { name: "Span details" }));
    },
  },
  { name: "trace-flame", userKind: "reader", path: ({ trace }) => `/trace/${trace}?view=flame` },
  { name: "trace-groups", userKind: "reader", path: ({ trace }) => `/trace/${trace}?view=groups` },
  { name: "trace-find", userKind: "reader", path: ({ trace }) => `/trace/${trace}?find=error` },
  {
    name: "trace-why",
    userKind: "reader",
    path: ({ trace }) => `/trace/${trace}?why=own`,
    action: (page) => waitUntilVisible(page.getByText("Access granted", { exact: true })),
  },
  {
    name: "trace-why-user",
    userKind: "previewing",
    path: ({ trace, user }) => `/trace/${trace}?why=user&user=${encodeURIComponent(user)}`,
    action: (page) => waitUntilVisible(page.locator("mark")),
  },
  {
    name: "trace-viewers",
    userKind: "previewing",
    path: ({ trace }) => `/trace/${trace}?why=viewers`,
    action: (page) => waitUntilVisible(page.getByRole("list", { name: "Users who can see this trace" })),
  },
  { name: "trace-missing", userKind: "reader", path: () => `/trace/${MISSING_TRACE_ID}` },
  {
    name: "trace-not-visible",
    userKind: "admin",
    path: ({ trace, user }) => `/trace/${trace}?why=user&user=${encodeURIComponent(user)}`,
    action: (page) => waitUntilVisible(page.getByText("Counts only")),
  },
  { name: "source", userKind: "admin", path: () => "/source" },
  { name: "source-binding", userKind: "admin", path: () => "/source?tab=binding" },
  { name: "source-speed", userKind: "admin", path: () => "/source?tab=speed" },
  { name: "setup-table", userKind: "admin", path: () => "/source/setup" },
  {
    name: "setup-columns",
    userKind: "admin",
    path: (world) => `/source/setup?step=columns&${setupParams(world)}`,
  },
  {
    name: "setup-fields",
    userKind: "admin",
    path: (world) => `/source/setup?step=fields&${setupParams(world)}`,
  },
  { name: "setup-role", userKind: "admin", path: (world) => `/source/setup?step=role&${setupParams(world)}` },
  {
    name: "setup-speed",
    userKind: "admin",
    path: (world) => `/source/setup?step=speed&${setupParams(world)}`,
  },
  { name: "roles", userKind: "admin", path: () => "/roles" },
  { name: "role", userKind: "admin", path: ({ role }) => `/roles/${encodeURIComponent(role)}` },
  { name: "role-new", userKind: "admin", path: () => "/new-role" },
  {
    name: "role-error",
    userKind: "admin",
    path: () => "/new-role",
    action: async (page) => {
      await page.getByRole("textbox", { name: "Name" }).fill("checkout-on-call");
      await page.getByRole("button", { name: "Add a policy" }).click();
      await page.getByRole("textbox", { name: "Title" }).fill("The checkout");
      await page.getByRole("textbox", { name: "Expression" }).click();
      await page.keyboard.insertText('ServiceNam == "checkout" && user.attributes.team != "billing"');
      await waitUntilVisible(page.getByRole("button", { name: /^1:1, error/ }));
    },
  },
  {
    name: "role-review",
    userKind: "admin",
    path: ({ role }) => `/roles/${encodeURIComponent(role)}`,
    action: async (page) => {
      await page.getByRole("textbox", { name: "Expression" }).first().click();
      await page.keyboard.press("ControlOrMeta+a");
      await page.keyboard.insertText('StatusCode == "Error"');
      await waitUntilVisible(page.getByRole("status").filter({ hasText: /^Valid/ }));
      await page.getByRole("button", { name: "Review and save" }).click();
      await waitUntilVisible(page.getByRole("heading", { name: "Role in isolation" }));
    },
  },
  {
    name: "role-delete",
    userKind: "admin",
    path: ({ role }) => `/roles/${encodeURIComponent(role)}`,
    action: async (page) => {
      await page.getByRole("button", { name: "Delete role" }).click();
      await waitUntilVisible(page.getByRole("heading", { name: "Role in isolation" }));
    },
  },
  {
    name: "role-collateral-access",
    userKind: "admin",
    path: ({ role }) => `/roles/${encodeURIComponent(role)}`,
    action: async (page) => {
      const section = page.getByRole("region", { name: "Collateral access" });
      await section.getByText("24 h", { exact: true }).click();
      await section.getByRole("button", { name: "Count", exact: true }).click();
      await waitUntilVisible(section.getByText("Counting read"));
    },
  },
  { name: "history", userKind: "admin", path: () => "/history" },
  { name: "history-version", userKind: "admin", path: () => "/history/2" },
  {
    name: "history-restore",
    userKind: "admin",
    path: () => "/history/2",
    action: async (page) => {
      await page.getByRole("button", { name: "Restore this version" }).click();
      await waitUntilVisible(page.getByRole("heading", { name: "Differences" }));
    },
  },
  {
    name: "history-import",
    userKind: "admin",
    path: () => "/history/apply",
    action: async (page) => {
      const file = "binding: null\nfields: []\nroles: []\n";
      await page.getByRole("textbox", { name: "Text of the file" }).fill(file);
      await page.getByRole("button", { name: "Compare with the current version" }).click();
      await waitUntilVisible(page.getByRole("heading", { name: "Differences" }));
    },
  },
  { name: "users", userKind: "admin", path: () => "/users" },
  {
    name: "user-new",
    userKind: "admin",
    path: () => "/users",
    action: async (page) => {
      await page.getByRole("button", { name: "Create user" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Add attribute" }).click();
    },
  },
  {
    name: "view-as-roles",
    userKind: "admin",
    path: () => "/users",
    action: async (page) => {
      await page.getByRole("button", { name: /^View as roles/ }).click();
      await waitUntilVisible(page.getByRole("dialog"));
    },
  },
  { name: "service-accounts", userKind: "admin", path: () => "/users?kind=service" },
  {
    name: "service-account-new",
    userKind: "admin",
    path: () => "/users",
    action: async (page) => {
      await page.getByRole("button", { name: "Create user" }).click();
      await page
        .getByRole("dialog")
        .getByRole("switch", { name: /Service account/ })
        .check();
    },
  },
  {
    name: "service-account",
    userKind: "admin",
    path: ({ serviceAccount }) => `/users/${encodeURIComponent(serviceAccount)}`,
  },
  {
    name: "find-key",
    userKind: "admin",
    path: () => "/users",
    action: async (page) => {
      await page.getByRole("button", { name: /^Find an API key/ }).click();
      await waitUntilVisible(page.getByRole("dialog"));
    },
  },
  { name: "user", userKind: "admin", path: ({ user }) => `/users/${encodeURIComponent(user)}` },
  {
    name: "user-delete",
    userKind: "admin",
    path: ({ user }) => `/users/${encodeURIComponent(user)}`,
    action: async (page) => {
      await page.getByRole("button", { name: "Delete", exact: true }).click();
      await waitUntilVisible(page.getByRole("dialog"));
    },
  },
  { name: "identity", userKind: "admin", path: () => "/identity" },
  { name: "audit", userKind: "admin", path: () => "/audit" },
  {
    name: "audit-record",
    userKind: "admin",
    path: () => "/audit",
    action: async (page) => {
      await page
        .getByRole("button", { name: /open the record/ })
        .first()
        .click();
      await waitUntilVisible(page.getByRole("table", { name: "The record" }));
    },
  },
  { name: "account", userKind: "reader", path: () => "/account" },
  {
    name: "account-key",
    userKind: "reader",
    path: () => "/account",
    action: async (page) => {
      await page.getByRole("button", { name: "Create API key" }).click();
      await waitUntilVisible(page.getByRole("dialog"));
    },
  },
  {
    name: "account-key-tools",
    userKind: "reader",
    path: () => "/account",
    action: async (page) => {
      await page.getByRole("button", { name: "Create API key" }).click();
      await page.getByRole("switch", { name: "Restrict the key to some tools" }).click();
      await waitUntilVisible(page.getByRole("group", { name: "Tools" }));
    },
  },
  {
    name: "account-key-created",
    userKind: "reader",
    path: () => "/account",
    action: async (page) => {
      await page.getByRole("button", { name: "Create API key" }).click();
      await page.getByRole("textbox", { name: "Name" }).fill("agent");
      await page.getByRole("button", { name: "Create key" }).click();
      await waitUntilVisible(page.getByRole("dialog", { name: "The key was created" }));
    },
  },
  {
    name: "account-menu",
    userKind: "reader",
    path: () => "/account",
    action: async (page) => {
      await page.getByRole("button", { name: /^Account of/ }).click();
      await waitUntilVisible(page.getByRole("menu"));
    },
  },
  { name: "for-administrators", userKind: "reader", path: () => "/users" },
  { name: "not-found", userKind: "reader", path: () => "/nowhere" },
];

/** Opens a view and waits until it is idle. */
export async function openView(page: Page, view: View, fixture: Fixture): Promise<void> {
  await page.goto(`/ui${view.path(fixture)}`);
  await waitUntilIdle(page);
  if (view.action !== undefined) {
    await view.action(page, fixture);
    await waitUntilIdle(page);
  }
}

/** Themes and widths in which each view is checked. */
export const THEMES = ["light", "dark"] as const;
export const WIDTHS = [1280, 400] as const;
export const HEIGHTS: Readonly<Record<(typeof WIDTHS)[number], number>> = { 1280: 800, 400: 860 };
