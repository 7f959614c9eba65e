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
import { trackRequests } from "./pages";

/** Directory for the artefacts of failed tests. */
const FAILURES_DIRECTORY = join(import.meta.dirname, "failures");

let browserConnection: Promise<Browser> | undefined;

/** A separate browser profile with its own cookies and storage. */
export interface Visitor {
  context: BrowserContext;
  page: Page;
}

interface WatchedPage {
  name: string;
  page: Page;
  errors: string[];
  console: string[];
}

const watchedPages: WatchedPage[] = [];

/** Opens a new browser profile with a page. Any error on the page fails the running test. */
export async function newVisitor(name: string, options: BrowserContextOptions = {}): Promise<Visitor> {
  browserConnection ??= chromium.connect(inject("browser"));
  const browser = await browserConnection;
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
  context.on("page", (page) => watchPage(name, page));
  return { context, page: await context.newPage() };
}

function watchPage(name: string, page: Page): void {
  const watchedPage: WatchedPage = { name, page, errors: [], console: [] };
  watchedPages.push(watchedPage);
  trackRequests(page);
  page.on("console", (message) => {
    const text = `${message.type()}: ${message.text()}`;
    watchedPage.console.push(text);
    // Chromium logs an error for every failed request. Failures are checked below by their responses instead.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) {
      watchedPage.errors.push(`console ${text} (${page.url()})`);
    }
  });
  page.on("pageerror", (error) =>
    watchedPage.errors.push(`uncaught ${error.stack ?? error.message} (${page.url()})`),
  );
  page.on("crash", () => watchedPage.errors.push("the page crashed"));
  page.on("response", (response) => {
    const path = new URL(response.url()).pathname;
    if (response.status() >= 500 || (response.status() >= 400 && path.startsWith("/ui/"))) {
      watchedPage.errors.push(`${response.status()} for ${response.request().method()} ${response.url()}`);
    }
  });
  page.on("dialog", async (dialog) => {
    // The browser's own dialog before unsaved input is lost.
    if (dialog.type() === "beforeunload") {
      await dialog.accept();
      return;
    }
    watchedPage.errors.push(`a dialog opened: ${dialog.message()}`);
    await dialog.dismiss();
  });
}

/** Must be called after each test. Fails the test if a page reported an error, and saves the state of the pages after a
 * failure. */
export async function checkPages(failedTest: string | null): Promise<void> {
  const errors = watchedPages.flatMap(({ name, errors }) =>
    errors.splice(0).map((error) => `${name}: ${error}`),
  );
  const label = failedTest ?? (errors.length > 0 ? "errors in a page" : null);
  if (label !== null) {
    await Promise.all(watchedPages.map((watchedPage) => saveState(label, watchedPage)));
  }
  if (errors.length > 0) {
    throw new Error(`Pages reported errors:\n${errors.join("\n")}`);
  }
}

async function saveState(label: string, { name, page, console }: WatchedPage): Promise<void> {
  if (page.isClosed()) {
    return;
  }
  mkdirSync(FAILURES_DIRECTORY, { recursive: true });
  const file = join(FAILURES_DIRECTORY, `${label} ${name}`.replaceAll(/[^\w.-]+/g, "-").slice(0, 150));
  const text = await page
    .locator("body")
    .ariaSnapshot({ timeout: 2_000 })
    .catch(() => "");
  writeFileSync(`${file}.txt`, `${page.url()}\n\n${text}\n\n${console.join("\n")}\n`);
  await page.screenshot({ path: `${file}.png`, timeout: 5_000 }).catch(() => undefined);
}

export async function closeBrowser(): Promise<void> {
  watchedPages.splice(0);
  const browser = await browserConnection;
  browserConnection = undefined;
  await browser?.close();
}
