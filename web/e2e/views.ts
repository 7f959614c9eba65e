import type { Page } from "playwright-core";
import { quiet, shown } from "./pages";

/** User of a view. */
export type Who = "anonymous" | "newcomer" | "reader" | "admin" | "previewing";

/** Names and ids that the views use. */
export interface World {
  /** A trace that the reader may see. */
  trace: string;
  /** A role with members, and one of its members. */
  role: string;
  user: string;
  /** The bound table. */
  database: string;
  table: string;
}

/** A page in a certain state. */
export interface View {
  name: string;
  who: Who;
  path: (world: World) => string;
  /** Actions on the page that lead to the state. */
  act?: (page: Page, world: World) => Promise<void>;
}

/** An id that no trace has. */
export const MISSING = "00000000000000000000000000000bad";

const setup = ({ database, table }: World) =>
  `database=${encodeURIComponent(database)}&table=${encodeURIComponent(table)}`;

/** All pages, in the states that users encounter. */
export const VIEWS: readonly View[] = [
  { name: "log-in", who: "anonymous", path: () => "/login" },
  {
    name: "log-in-refused",
    who: "anonymous",
    path: () => "/login",
    act: async (page) => {
      await page.getByLabel("User name", { exact: true }).fill("nobody");
      await page.getByLabel("Password", { exact: true }).fill("no password of anybody");
      await page.getByRole("button", { name: "Sign in" }).click();
      await shown(page.getByRole("alert"));
    },
  },
  { name: "password", who: "newcomer", path: () => "/password" },
  { name: "search", who: "reader", path: () => "/search" },
  { name: "search-empty", who: "reader", path: () => "/search?last=1s" },
  { name: "search-day", who: "reader", path: () => "/search?last=24h" },
  {
    name: "search-entry",
    who: "reader",
    path: () => "/search?last=24h",
    act: async (page) => {
      await page.keyboard.press("/");
      await page.keyboard.type("ServiceName = ");
      await shown(page.getByRole("listbox", { name: "Suggestions" }).getByRole("option"));
    },
  },
  {
    name: "search-problem",
    who: "reader",
    path: () => "/search?last=24h",
    act: async (page) => {
      await page.keyboard.press("/");
      await page.keyboard.type("Duration > soon");
      await page.keyboard.press("Enter");
      await shown(page.getByRole("alert"));
    },
  },
  {
    name: "search-copy",
    who: "reader",
    path: () => "/search",
    act: async (page) => {
      await page.getByRole("button", { name: "Share" }).click();
      await shown(page.getByRole("menu"));
    },
  },
  { name: "search-nothing-visible", who: "admin", path: () => "/search" },
  { name: "search-previewing", who: "previewing", path: () => "/search" },
  {
    name: "keys",
    who: "reader",
    path: () => "/search",
    act: async (page) => {
      await page.getByRole("button", { name: "Keyboard shortcuts" }).click();
      await shown(page.getByRole("dialog"));
    },
  },
  { name: "trace", who: "reader", path: ({ trace }) => `/trace/${trace}` },
  {
    name: "trace-span",
    who: "reader",
    path: ({ trace }) => `/trace/${trace}`,
    act: async (page) => {
      await page.getByRole("treegrid", { name: "Spans" }).focus();
      // A span with an error has the most details.
      await page.keyboard.press("e");
      await page.keyboard.press("Enter");
      await shown(page.getByRole("region", { name: "Span details" }));
    },
  },
  { name: "trace-flame", who: "reader", path: ({ trace }) => `/trace/${trace}?view=flame` },
  { name: "trace-groups", who: "reader", path: ({ trace }) => `/trace/${trace}?view=groups` },
  { name: "trace-found", who: "reader", path: ({ trace }) => `/trace/${trace}?find=error` },
  {
    name: "trace-why",
    who: "reader",
    path: ({ trace }) => `/trace/${trace}?why=own`,
    act: (page) => shown(page.getByText("Access granted", { exact: true })),
  },
  {
    name: "trace-why-user",
    who: "previewing",
    path: ({ trace, user }) => `/trace/${trace}?why=user&user=${encodeURIComponent(user)}`,
    act: (page) => shown(page.locator("mark")),
  },
  {
    name: "trace-viewers",
    who: "previewing",
    path: ({ trace }) => `/trace/${trace}?why=viewers`,
    act: (page) => shown(page.getByRole("list", { name: "Users who can see this trace" })),
  },
  { name: "trace-missing", who: "reader", path: () => `/trace/${MISSING}` },
  {
    name: "trace-not-seen",
    who: "admin",
    path: ({ trace, user }) => `/trace/${trace}?why=user&user=${encodeURIComponent(user)}`,
    act: (page) => shown(page.getByText("Counts only")),
  },
  { name: "source", who: "admin", path: () => "/source" },
  { name: "source-binding", who: "admin", path: () => "/source?tab=binding" },
  { name: "source-speed", who: "admin", path: () => "/source?tab=speed" },
  { name: "setup-table", who: "admin", path: () => "/source/setup" },
  { name: "setup-columns", who: "admin", path: (world) => `/source/setup?step=columns&${setup(world)}` },
  { name: "setup-fields", who: "admin", path: (world) => `/source/setup?step=fields&${setup(world)}` },
  { name: "setup-role", who: "admin", path: (world) => `/source/setup?step=role&${setup(world)}` },
  { name: "setup-speed", who: "admin", path: (world) => `/source/setup?step=speed&${setup(world)}` },
  { name: "roles", who: "admin", path: () => "/roles" },
  { name: "role", who: "admin", path: ({ role }) => `/roles/${encodeURIComponent(role)}` },
  { name: "role-new", who: "admin", path: () => "/new-role" },
  {
    name: "role-error",
    who: "admin",
    path: () => "/new-role",
    act: async (page) => {
      await page.getByRole("textbox", { name: "Name" }).fill("checkout-on-call");
      await page.getByRole("button", { name: "Add a policy" }).click();
      await page.getByRole("textbox", { name: "Title" }).fill("The checkout");
      await page.getByRole("textbox", { name: "Expression" }).click();
      await page.keyboard.insertText('ServiceNam == "checkout" && user.attributes.team != "billing"');
      await shown(page.getByRole("button", { name: /^1:1, error/ }));
    },
  },
  {
    name: "role-review",
    who: "admin",
    path: ({ role }) => `/roles/${encodeURIComponent(role)}`,
    act: async (page) => {
      await page.getByRole("textbox", { name: "Expression" }).first().click();
      await page.keyboard.press("ControlOrMeta+a");
      await page.keyboard.insertText('StatusCode == "Error"');
      await shown(page.getByRole("status").filter({ hasText: /^Valid/ }));
      await page.getByRole("button", { name: "Review and save" }).click();
      await shown(page.getByRole("heading", { name: "Role in isolation" }));
    },
  },
  {
    name: "role-delete",
    who: "admin",
    path: ({ role }) => `/roles/${encodeURIComponent(role)}`,
    act: async (page) => {
      await page.getByRole("button", { name: "Delete role" }).click();
      await shown(page.getByRole("heading", { name: "Role in isolation" }));
    },
  },
  {
    name: "role-sharing",
    who: "admin",
    path: ({ role }) => `/roles/${encodeURIComponent(role)}`,
    act: async (page) => {
      const section = page.getByRole("region", { name: "Collateral access" });
      await section.getByText("24 h", { exact: true }).click();
      await section.getByRole("button", { name: "Count", exact: true }).click();
      await shown(section.getByText("Counting read"));
    },
  },
  { name: "history", who: "admin", path: () => "/history" },
  { name: "history-change", who: "admin", path: () => "/history/2" },
  {
    name: "history-restore",
    who: "admin",
    path: () => "/history/2",
    act: async (page) => {
      await page.getByRole("button", { name: "Restore this version" }).click();
      await shown(page.getByRole("heading", { name: "Differences" }));
    },
  },
  {
    name: "history-apply",
    who: "admin",
    path: () => "/history/apply",
    act: async (page) => {
      const file = "binding: null\nfields: []\nroles: []\n";
      await page.getByRole("textbox", { name: "Text of the file" }).fill(file);
      await page.getByRole("button", { name: "Compare with the current version" }).click();
      await shown(page.getByRole("heading", { name: "Differences" }));
    },
  },
  { name: "users", who: "admin", path: () => "/users" },
  {
    name: "user-new",
    who: "admin",
    path: () => "/users",
    act: async (page) => {
      await page.getByRole("button", { name: "Create user" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Add attribute" }).click();
    },
  },
  {
    name: "view-as-roles",
    who: "admin",
    path: () => "/users",
    act: async (page) => {
      await page.getByRole("button", { name: /^View as roles/ }).click();
      await shown(page.getByRole("dialog"));
    },
  },
  { name: "user", who: "admin", path: ({ user }) => `/users/${encodeURIComponent(user)}` },
  {
    name: "user-delete",
    who: "admin",
    path: ({ user }) => `/users/${encodeURIComponent(user)}`,
    act: async (page) => {
      await page.getByRole("button", { name: "Delete", exact: true }).click();
      await shown(page.getByRole("dialog"));
    },
  },
  { name: "audit", who: "admin", path: () => "/audit" },
  {
    name: "audit-record",
    who: "admin",
    path: () => "/audit",
    act: async (page) => {
      await page
        .getByRole("button", { name: /open the record/ })
        .first()
        .click();
      await shown(page.getByRole("table", { name: "The record" }));
    },
  },
  { name: "account", who: "reader", path: () => "/account" },
  {
    name: "account-key",
    who: "reader",
    path: () => "/account",
    act: async (page) => {
      await page.getByRole("button", { name: "Create API key" }).click();
      await shown(page.getByRole("dialog"));
    },
  },
  {
    name: "account-key-tools",
    who: "reader",
    path: () => "/account",
    act: async (page) => {
      await page.getByRole("button", { name: "Create API key" }).click();
      await page.getByRole("switch", { name: "Restrict the key to some tools" }).click();
      await shown(page.getByRole("group", { name: "Tools" }));
    },
  },
  {
    name: "account-key-made",
    who: "reader",
    path: () => "/account",
    act: async (page) => {
      await page.getByRole("button", { name: "Create API key" }).click();
      await page.getByRole("textbox", { name: "Name" }).fill("agent");
      await page.getByRole("button", { name: "Create key" }).click();
      await shown(page.getByRole("dialog", { name: "The key was created" }));
    },
  },
  {
    name: "menu",
    who: "reader",
    path: () => "/account",
    act: async (page) => {
      await page.getByRole("button", { name: /^Account of/ }).click();
      await shown(page.getByRole("menu"));
    },
  },
  { name: "for-administrators", who: "reader", path: () => "/users" },
  { name: "no-such-page", who: "reader", path: () => "/nowhere" },
];

/** Opens a view and waits until it is idle. */
export async function look(page: Page, view: View, world: World): Promise<void> {
  await page.goto(`/ui${view.path(world)}`);
  await quiet(page);
  if (view.act !== undefined) {
    await view.act(page, world);
    await quiet(page);
  }
}

/** Themes and widths in which each view is checked. */
export const THEMES = ["light", "dark"] as const;
export const WIDTHS = [1280, 400] as const;
export const HEIGHTS: Readonly<Record<(typeof WIDTHS)[number], number>> = { 1280: 800, 400: 860 };
