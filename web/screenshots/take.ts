import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type BrowserContext, chromium, type Page } from "playwright-core";
import { countRequests, logIn } from "../e2e/pages";
import { Session } from "../e2e/session";
import { HEIGHTS, look, THEMES, VIEWS, type Who, WIDTHS, type World } from "../e2e/views";

function needed(name: string): string {
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

interface People {
  admin: { username: string; password: string };
  reader: { username: string; password: string };
  newcomer: { username: string; password: string };
}

/** Takes a screenshot of each view in each theme and width: `<view>-<theme>-<width>.png`. */
export async function take(): Promise<void> {
  const service = needed("TRACEWARDEN_URL").replace(/\/+$/, "");
  const folder = needed("TRACEWARDEN_SCREENSHOTS");
  const only = process.argv.slice(2);
  mkdirSync(folder, { recursive: true });
  const { people, world, admin } = await meet(service);
  const browser = await chromium.launch({
    executablePath: needed("CHROMIUM"),
    chromiumSandbox: process.getuid?.() !== 0,
  });
  const failures: string[] = [];
  try {
    for (const theme of THEMES) {
      for (const width of WIDTHS) {
        for (const who of new Set(VIEWS.map((view) => view.who))) {
          const views = VIEWS.filter(
            (view) => view.who === who && (only.length === 0 || only.includes(view.name)),
          );
          if (views.length === 0) {
            continue;
          }
          const context = await browser.newContext({
            baseURL: service,
            colorScheme: theme,
            viewport: { width, height: HEIGHTS[width] },
            locale: "en-GB",
            timezoneId: "Europe/Berlin",
            reducedMotion: "reduce",
          });
          try {
            const page = await enter(context, who, people);
            for (const view of views) {
              const name = `${view.name}-${theme}-${width}`;
              await look(page, view, world).catch((error: unknown) =>
                failures.push(`${name}: ${String(error)}`),
              );
              await picture(page, width, join(folder, `${name}.png`));
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
const TALLEST = 1_400;

/** Takes a screenshot of the whole page in a window of its height, because browsers lay out only the visible part. */
async function picture(page: Page, width: (typeof WIDTHS)[number], path: string): Promise<void> {
  const tall = await page.evaluate(() => document.documentElement.scrollHeight);
  await page.setViewportSize({ width, height: Math.min(Math.max(tall, HEIGHTS[width]), TALLEST) });
  await page.waitForTimeout(150);
  await page.screenshot({ path });
  await page.setViewportSize({ width, height: HEIGHTS[width] });
}

/** Collects the users and the data for the views. */
async function meet(service: string): Promise<{ people: People; world: World; admin: Session }> {
  const logins = JSON.parse(needed("TRACEWARDEN_DEMO_LOGINS")) as Record<string, string>;
  const administrator = { username: "admin", password: needed("TRACEWARDEN_ADMIN_PASSWORD") };
  const readers = Object.entries(logins).filter(([username]) => username !== "admin");
  // Select the user whose traces have the greatest variety.
  let [reader, traces]: [People["reader"] | null, Summary[]] = [null, []];
  for (const [username, password] of readers) {
    const asReader = await session(service, username, password);
    const page = await asReader.call<{ traces: Summary[] }>("POST", "/traces/query", {
      view: "summary",
      limit: 200,
    });
    const variety = (of: Summary[]) =>
      new Set(of.map((trace) => `${trace.root_service} ${trace.root_name}`)).size;
    if (reader === null || variety(page.traces) > variety(traces)) {
      [reader, traces] = [{ username, password }, page.traces];
    }
  }
  if (reader === null) {
    throw new Error("TRACEWARDEN_DEMO_LOGINS has no user except the administrator");
  }
  const admin = await session(service, administrator.username, administrator.password);
  // Select a trace with errors and many spans.
  const [best] = traces.toSorted(
    (one, other) =>
      Number(other.error_count > 0) - Number(one.error_count > 0) || other.span_count - one.span_count,
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
  const world: World = {
    trace: best.trace_id,
    role: roles[0],
    user: reader.username,
    database: binding.database,
    table: binding.table,
  };
  await admin.ask("DELETE", `/users/${NEWCOMER}`);
  const made = await admin.call<{ initial_password: string }>("POST", "/users", { username: NEWCOMER });
  const newcomer = { username: NEWCOMER, password: made.initial_password };
  return { people: { admin: administrator, reader, newcomer }, world, admin };
}

async function session(service: string, username: string, password: string): Promise<Session> {
  const found = await Session.logIn(service, username, password);
  if (found === null) {
    throw new Error(`${username} cannot sign in with the given password`);
  }
  return found;
}

/** Opens a page and signs in. */
async function enter(context: BrowserContext, who: Who, people: People): Promise<Page> {
  const page = await context.newPage();
  countRequests(page);
  if (who === "newcomer") {
    const { username, password } = people.newcomer;
    await page.goto("/ui/login");
    await page.getByLabel("User name", { exact: true }).fill(username);
    await page.getByLabel("Password", { exact: true }).fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL("**/ui/password**");
  } else if (who !== "anonymous") {
    const { username, password } = who === "reader" ? people.reader : people.admin;
    await logIn(page, username, password);
  }
  if (who === "previewing") {
    await page.evaluate(async (username) => {
      await fetch("/me/preview", {
        method: "PUT",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ username }),
      });
    }, people.reader.username);
  }
  return page;
}
