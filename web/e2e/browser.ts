import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from "playwright-core";
import { inject } from "vitest";
import { environment } from "./environment";
import { countRequests } from "./pages";

/** Directory for the artefacts of failed tests. */
const FAILURES = join(import.meta.dirname, "failures");

let connected: Promise<Browser> | undefined;

/** A separate browser profile with its own cookies and storage. */
export interface Visitor {
  context: BrowserContext;
  page: Page;
}

interface Watched {
  name: string;
  page: Page;
  problems: string[];
  console: string[];
}

const watched: Watched[] = [];

/** Opens a new browser profile with a page. Any error on the page fails the running test. */
export async function visitor(name: string, options: BrowserContextOptions = {}): Promise<Visitor> {
  connected ??= chromium.connect(inject("browser"));
  const browser = await connected;
  const context = await browser.newContext({
    baseURL: environment().url,
    viewport: { width: 1280, height: 800 },
    locale: "en-GB",
    timezoneId: "Europe/Berlin",
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
    ...options,
  });
  context.setDefaultTimeout(15_000);
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      console.error(
        `content security policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`,
      );
    });
  });
  context.on("page", (page) => watch(name, page));
  return { context, page: await context.newPage() };
}

function watch(name: string, page: Page): void {
  const one: Watched = { name, page, problems: [], console: [] };
  watched.push(one);
  countRequests(page);
  page.on("console", (message) => {
    const text = `${message.type()}: ${message.text()}`;
    one.console.push(text);
    // Chromium logs an error for every failed request. Failures are checked below by their responses instead.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) {
      one.problems.push(`console ${text} (${page.url()})`);
    }
  });
  page.on("pageerror", (error) =>
    one.problems.push(`uncaught ${error.stack ?? error.message} (${page.url()})`),
  );
  page.on("crash", () => one.problems.push("the page crashed"));
  page.on("response", (response) => {
    const path = new URL(response.url()).pathname;
    if (response.status() >= 500 || (response.status() >= 400 && path.startsWith("/ui/"))) {
      one.problems.push(`${response.status()} for ${response.request().method()} ${response.url()}`);
    }
  });
  page.on("dialog", async (dialog) => {
    // The browser's own dialog before unsaved input is lost.
    if (dialog.type() === "beforeunload") {
      await dialog.accept();
      return;
    }
    one.problems.push(`a dialog opened: ${dialog.message()}`);
    await dialog.dismiss();
  });
}

/** Must be called after each test. Fails the test if a page reported an error, and saves the state of the pages after a
 * failure. */
export async function examine(failed: string | null): Promise<void> {
  const problems = watched.flatMap(({ name, problems }) =>
    problems.splice(0).map((problem) => `${name}: ${problem}`),
  );
  const label = failed ?? (problems.length > 0 ? "errors in a page" : null);
  if (label !== null) {
    await Promise.all(watched.map((one) => save(label, one)));
  }
  if (problems.length > 0) {
    throw new Error(`Pages reported errors:\n${problems.join("\n")}`);
  }
}

async function save(label: string, { name, page, console }: Watched): Promise<void> {
  if (page.isClosed()) {
    return;
  }
  mkdirSync(FAILURES, { recursive: true });
  const file = join(FAILURES, `${label} ${name}`.replaceAll(/[^\w.-]+/g, "-").slice(0, 150));
  const text = await page
    .locator("body")
    .ariaSnapshot({ timeout: 2_000 })
    .catch(() => "");
  writeFileSync(`${file}.txt`, `${page.url()}\n\n${text}\n\n${console.join("\n")}\n`);
  await page.screenshot({ path: `${file}.png`, timeout: 5_000 }).catch(() => undefined);
}

export async function closeAll(): Promise<void> {
  watched.splice(0);
  const browser = await connected;
  connected = undefined;
  await browser?.close();
}
