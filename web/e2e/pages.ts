import type { Locator, Page, Request } from "playwright-core";
import type { ToolCall } from "./mcp";
import { OWN_PASSWORD } from "./session";

/** The path of a page of the application. */
export const at = (path: string): string => `/ui${path}`;

/** Fills the log-in form of the page that is shown, and sends it. */
export async function submitLogIn(page: Page, username: string, password = OWN_PASSWORD): Promise<void> {
  await page.getByLabel("User name", { exact: true }).fill(username);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Log in" }).click();
}

/** Logs in and waits for the search page. */
export async function logIn(page: Page, username: string, password = OWN_PASSWORD): Promise<void> {
  await page.goto(at("/login"));
  await submitLogIn(page, username, password);
  await page.waitForURL("**/ui/search**");
  await quiet(page);
}

/** What was copied last. */
export const clipboard = (page: Page): Promise<string> => page.evaluate(() => navigator.clipboard.readText());

/** What is copied by a click. It returns before the text is there, and until then one would read what was copied before. */
export async function copied(page: Page, act: () => Promise<void>): Promise<string> {
  await page.evaluate(() => navigator.clipboard.writeText(""));
  await act();
  await page.waitForFunction(async () => (await navigator.clipboard.readText()) !== "");
  return clipboard(page);
}

/** Copies the search that is shown as the call of a tool, and reads what was copied. */
export async function copiedCall(page: Page): Promise<ToolCall> {
  const call = await copied(page, async () => {
    await page.getByRole("button", { name: "Copy as" }).click();
    await page.getByRole("menuitem", { name: /^MCP call/ }).click();
  });
  return JSON.parse(call) as ToolCall;
}

/** The ids of the traces that a search shows, in their order. */
export const listed = (page: Page): Promise<string[]> =>
  page
    .getByRole("table", { name: "Traces found" })
    .getByRole("row")
    .getByRole("link")
    .evaluateAll((links) =>
      links
        .map((link) => /\/trace\/([^?]+)/.exec(link.getAttribute("href") ?? "")?.[1] ?? "")
        .filter(Boolean),
    );

export const shown = (locator: Locator, timeout = 15_000): Promise<void> =>
  locator.first().waitFor({ timeout });

export const gone = (locator: Locator, timeout = 15_000): Promise<void> =>
  locator.first().waitFor({ state: "detached", timeout });

const underWay = new WeakMap<Page, Set<Request>>();

/** Counts the page's requests, for {@link quiet}; to be called before the page is first opened. */
export function countRequests(page: Page): void {
  const requests = new Set<Request>();
  underWay.set(page, requests);
  page.on("request", (request) => requests.add(request));
  page.on("requestfinished", (request) => requests.delete(request));
  page.on("requestfailed", (request) => requests.delete(request));
}

/** How often in a row, and how far apart in milliseconds, a page must be found waiting for nothing. */
const CALM = { times: 5, apart: 60 };

/** Waits until the page waits for nothing: no request under way, nothing that says that it is loading. */
export async function quiet(page: Page, timeout = 30_000): Promise<void> {
  const end = Date.now() + timeout;
  for (let calm = 0; calm < CALM.times; ) {
    const waiting = await whatFor(page);
    if (Date.now() > end) {
      throw new Error(`the page waits for ${waiting} after ${timeout} ms: ${page.url()}`);
    }
    calm = waiting === null ? calm + 1 : 0;
    await page.waitForTimeout(CALM.apart);
  }
  await page.evaluate(() => document.fonts.ready.then(() => undefined));
}

async function whatFor(page: Page): Promise<string | null> {
  const [request] = underWay.get(page) ?? [];
  if (request !== undefined) {
    return request.url();
  }
  return page.evaluate(() => {
    if (document.querySelector("main, [role=main]") === null) {
      return "something to show";
    }
    const loading = '[aria-busy="true"], .mantine-Loader-root, .mantine-Skeleton-root, [data-loading]';
    return document.querySelector(loading)?.outerHTML.slice(0, 200) ?? null;
  });
}

/** A page's marks and measures, in milliseconds since it was opened. */
export async function mark(page: Page, name: string, timeout: number): Promise<number> {
  const handle = await page.waitForFunction(
    (wanted) => performance.getEntriesByName(wanted).at(-1)?.startTime ?? null,
    name,
    { timeout, polling: 50 },
  );
  return (await handle.jsonValue()) ?? Number.NaN;
}

/** How long the main thread was busy at a time, and how far apart frames were, while something was done. */
export async function smoothness(
  page: Page,
  act: () => Promise<void>,
): Promise<{ longTasks: number[]; p95: number; frames: number }> {
  const recorder = await page.evaluateHandle(() => {
    const longTasks: number[] = [];
    const times: number[] = [];
    let running = true;
    const observer = new PerformanceObserver((list) => {
      longTasks.push(...list.getEntries().map((entry) => entry.duration));
    });
    observer.observe({ entryTypes: ["longtask"] });
    const frame = (now: number) => {
      times.push(now);
      if (running) {
        requestAnimationFrame(frame);
      }
    };
    requestAnimationFrame(frame);
    return {
      end: () => {
        running = false;
        longTasks.push(...observer.takeRecords().map((entry) => entry.duration));
        observer.disconnect();
        return { longTasks, times };
      },
    };
  });
  await act();
  const { longTasks, times } = await recorder.evaluate((recording) => recording.end());
  const gaps = times.slice(1).map((time, place) => time - (times[place] ?? time));
  gaps.sort((one, other) => one - other);
  return { longTasks, p95: gaps[Math.floor(gaps.length * 0.95)] ?? Number.NaN, frames: gaps.length };
}
