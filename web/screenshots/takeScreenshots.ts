import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type BrowserContext, chromium, type Page } from "playwright-core";
import { signIn, trackRequests } from "../e2e/pages";
import { Session } from "../e2e/session";
import {
  createServiceAccount,
  type Fixture,
  HEIGHTS,
  openView,
  THEMES,
  type UserKind,
  VIEWS,
  WIDTHS,
} from "../e2e/views";

function requiredVariable(name: string): string {
  const value = process.env[name] ?? "";
  if (value === "") {
    throw new Error(`${name} is not set; \`cargo xtask screenshots\` sets all variables`);
  }
  return value;
}

/** A user who has never signed in, who is created for the screenshots and removed afterwards. */
const NEWCOMER = "newcomer";

interface Summary {
  trace_id: string;
  root_name: string | null;
  root_service: string | null;
  error_count: number;
  span_count: number;
}

interface Accounts {
  admin: { username: string; password: string };
  reader: { username: string; password: string };
  newcomer: { username: string; password: string };
}

/** Takes a screenshot of each view in each theme and width: `<view>-<theme>-<width>.png`. */
export async function takeScreenshots(): Promise<void> {
  const serviceUrl = requiredVariable("TRACEWARDEN_URL").replace(/\/+$/, "");
  const folder = requiredVariable("TRACEWARDEN_SCREENSHOTS");
  const onlyViews = process.argv.slice(2);
  mkdirSync(folder, { recursive: true });
  const { accounts, fixture, admin } = await collectFixture(serviceUrl);
  const browser = await chromium.launch({
    executablePath: requiredVariable("CHROMIUM"),
    chromiumSandbox: process.getuid?.() !== 0,
  });
  const failures: string[] = [];
  try {
    for (const theme of THEMES) {
      for (const width of WIDTHS) {
        for (const userKind of new Set(VIEWS.map((view) => view.userKind))) {
          const views = VIEWS.filter(
            (view) => view.userKind === userKind && (onlyViews.length === 0 || onlyViews.includes(view.name)),
          );
          if (views.length === 0) {
            continue;
          }
          const context = await browser.newContext({
            baseURL: serviceUrl,
            colorScheme: theme,
            viewport: { width, height: HEIGHTS[width] },
            locale: "en-GB",
            timezoneId: "Europe/Berlin",
            reducedMotion: "reduce",
          });
          try {
            const page = await openAs(context, userKind, accounts);
            for (const view of views) {
              const name = `${view.name}-${theme}-${width}`;
              await openView(page, view, fixture).catch((error: unknown) =>
                failures.push(`${name}: ${String(error)}`),
              );
              await takeScreenshot(page, width, join(folder, `${name}.png`));
              console.log(name);
            }
          } finally {
            await context.close();
          }
        }
      }
    }
  } finally {
    await browser.close();
    await admin.call("DELETE", `/users/${NEWCOMER}`);
  }
  if (failures.length > 0) {
    throw new Error(
      `Some views could not be reached; their screenshots show the last state:\n${failures.join("\n")}`,
    );
  }
}

/** Maximum height of a screenshot. */
const MAX_HEIGHT = 1_400;

/** Takes a screenshot of the whole page in a window of its height, because browsers lay out only the visible part. */
async function takeScreenshot(page: Page, width: (typeof WIDTHS)[number], path: string): Promise<void> {
  const pageHeight = await page.evaluate(() => document.documentElement.scrollHeight);
  await page.setViewportSize({ width, height: Math.min(Math.max(pageHeight, HEIGHTS[width]), MAX_HEIGHT) });
  await page.waitForTimeout(150);
  await page.screenshot({ path });
  await page.setViewportSize({ width, height: HEIGHTS[width] });
}

/** Collects the users and the data for the views. */
async function collectFixture(
  serviceUrl: string,
): Promise<{ accounts: Accounts; fixture: Fixture; admin: Session }> {
  const logins = JSON.parse(requiredVariable("TRACEWARDEN_DEMO_LOGINS")) as Record<string, string>;
  const administrator = { username: "admin", password: requiredVariable("TRACEWARDEN_ADMIN_PASSWORD") };
  const readers = Object.entries(logins).filter(([username]) => username !== "admin");
  // Select the user whose traces have the greatest variety.
  let [reader, traces]: [Accounts["reader"] | null, Summary[]] = [null, []];
  for (const [username, password] of readers) {
    const asReader = await signInSession(serviceUrl, username, password);
    const page = await asReader.call<{ traces: Summary[] }>("POST", "/traces/query", {
      view: "summary",
      limit: 200,
    });
    const variety = (summaries: Summary[]) =>
      new Set(summaries.map((trace) => `${trace.root_service} ${trace.root_name}`)).size;
    if (reader === null || variety(page.traces) > variety(traces)) {
      [reader, traces] = [{ username, password }, page.traces];
    }
  }
  if (reader === null) {
    throw new Error("TRACEWARDEN_DEMO_LOGINS has no user except the administrator");
  }
  const admin = await signInSession(serviceUrl, administrator.username, administrator.password);
  // Select a trace with errors and many spans.
  const [best] = traces.toSorted(
    (a, b) => Number(b.error_count > 0) - Number(a.error_count > 0) || b.span_count - a.span_count,
  );
  const { roles } = await admin.call<{ roles: string[] }>(
    "GET",
    `/users/${encodeURIComponent(reader.username)}`,
  );
  const { binding } = await admin.call<{ binding: { database: string; table: string } | null }>(
    "GET",
    "/schema",
  );
  if (best === undefined || roles[0] === undefined || binding === null) {
    throw new Error("the demo has no trace for its users, no role or no table");
  }
  const fixture: Fixture = {
    trace: best.trace_id,
    role: roles[0],
    user: reader.username,
    serviceAccount: await createServiceAccount(admin, reader.username, roles[0]),
    database: binding.database,
    table: binding.table,
  };
  await admin.request("DELETE", `/users/${NEWCOMER}`);
  const createdUser = await admin.call<{ initial_password: string }>("POST", "/users", {
    username: NEWCOMER,
  });
  const newcomer = { username: NEWCOMER, password: createdUser.initial_password };
  return { accounts: { admin: administrator, reader, newcomer }, fixture, admin };
}

async function signInSession(serviceUrl: string, username: string, password: string): Promise<Session> {
  const signedIn = await Session.signIn(serviceUrl, username, password);
  if (signedIn === null) {
    throw new Error(`${username} cannot sign in with the given password`);
  }
  return signedIn;
}

/** Opens a page and signs in. */
async function openAs(context: BrowserContext, userKind: UserKind, accounts: Accounts): Promise<Page> {
  const page = await context.newPage();
  trackRequests(page);
  if (userKind === "newcomer") {
    const { username, password } = accounts.newcomer;
    await page.goto("/ui/login");
    await page.getByLabel("User name", { exact: true }).fill(username);
    await page.getByLabel("Password", { exact: true }).fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL("**/ui/password**");
  } else if (userKind !== "anonymous") {
    const { username, password } = userKind === "reader" ? accounts.reader : accounts.admin;
    await signIn(page, username, password);
  }
  if (userKind === "previewing") {
    await page.evaluate(async (username) => {
      await fetch("/me/preview", {
        method: "PUT",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ username }),
      });
    }, accounts.reader.username);
  }
  return page;
}
