import type { Locator, Page, Request } from "playwright-core";
import type { ToolCall } from "./mcp";
import { OWN_PASSWORD } from "./session";

/** Path of a page of the application. */
export const pagePath = (path: string): string => `/ui${path}`;

/** Fills in and submits the sign-in form of the current page. */
export async function submitSignIn(page: Page, username: string, password = OWN_PASSWORD): Promise<void> {
  await page.getByLabel("User name", { exact: true }).fill(username);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
}

/** Signs in and waits for the search page. */
export async function signIn(page: Page, username: string, password = OWN_PASSWORD): Promise<void> {
  await page.goto(pagePath("/login"));
  await submitSignIn(page, username, password);
  await page.waitForURL("**/ui/search**");
  await waitUntilIdle(page);
}

/** Reads the text of the clipboard. */
export const clipboard = (page: Page): Promise<string> => page.evaluate(() => navigator.clipboard.readText());

/** Performs an action that copies text, and returns that text. The action returns before the text is in the clipboard, so that
 * the clipboard is emptied first and polled afterwards. */
export async function copyText(page: Page, action: () => Promise<void>): Promise<string> {
  await page.evaluate(() => navigator.clipboard.writeText(""));
  await action();
  await page.waitForFunction(async () => (await navigator.clipboard.readText()) !== "");
  return clipboard(page);
}

/** Copies the current search as a tool call, and returns it. */
export async function copyToolCall(page: Page): Promise<ToolCall> {
  const call = await copyText(page, async () => {
    await page.getByRole("button", { name: "Share" }).click();
    await page.getByRole("menuitem", { name: /^MCP call/ }).click();
  });
  return JSON.parse(call) as ToolCall;
}

/** Ids of the traces in the search results, in order. */
export const resultIds = (page: Page): Promise<string[]> =>
  page
    .getByRole("table", { name: "Traces found" })
    .getByRole("row")
    .getByRole("link")
    .evaluateAll((links) =>
      links
        .map((link) => /\/trace\/([^?]+)/.exec(link.getAttribute("href") ?? "")?.[1] ?? "")
        .filter(Boolean),
    );

export const waitUntilVisible = (locator: Locator, timeout = 15_000): Promise<void> =>
  locator.first().waitFor({ timeout });

export const waitUntilDetached = (locator: Locator, timeout = 15_000): Promise<void> =>
  locator.first().waitFor({ state: "detached", timeout });

interface Requests {
  pending: Set<Request>;
  started: number;
}

const requestsByPage = new WeakMap<Page, Requests>();

/** Tracks the page's requests for {@link waitUntilIdle}. Must be called before the page is first opened. */
export function trackRequests(page: Page): void {
  const requests: Requests = { pending: new Set(), started: 0 };
  requestsByPage.set(page, requests);
  page.on("request", (request) => {
    requests.pending.add(request);
    requests.started += 1;
  });
  page.on("requestfinished", (request) => requests.pending.delete(request));
  page.on("requestfailed", (request) => requests.pending.delete(request));
}

/** Time in milliseconds for which an idle page neither changes nor sends a request. */
const QUIET_TIME = 200;

/** Waits until the page is idle: no pending request, no loading indicator, and no change. */
export async function waitUntilIdle(page: Page, timeout = 30_000): Promise<void> {
  const deadline = Date.now() + timeout;
  for (;;) {
    const requests = requestsByPage.get(page);
    const started = requests?.started;
    const [pending] = requests?.pending ?? [];
    const reason = pending?.url() ?? (await page.evaluate(busyReason, QUIET_TIME).catch(navigationReason));
    if (reason === null && requests?.started === started && requests?.pending.size === 0) {
      return;
    }
    if (Date.now() > deadline) {
      throw new Error(`the page waits for ${reason ?? "requests"} after ${timeout} ms: ${page.url()}`);
    }
    if (pending !== undefined) {
      await page.waitForTimeout(20);
    }
  }
}

/** A navigation ends what runs in the page. */
function navigationReason(error: unknown): string {
  if (error instanceof Error && /context was destroyed|navigat/.test(error.message)) {
    return "a navigation";
  }
  throw error;
}

/** Runs in the page: waits for this time, and returns why the page is not quiet, or `null`. */
async function busyReason(milliseconds: number): Promise<string | null> {
  await document.fonts.ready;
  let change: string | null = null;
  const observer = new MutationObserver(([first]) => {
    change ??= `a change of ${first?.target.nodeName ?? "an element"}`;
  });
  observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
  await new Promise((resolve) => setTimeout(resolve, milliseconds));
  observer.disconnect();
  if (document.querySelector("main, [role=main]") === null) {
    return "its main element";
  }
  const loading = '[aria-busy="true"], .mantine-Loader-root, .mantine-Skeleton-root, [data-loading]';
  return document.querySelector(loading)?.outerHTML.slice(0, 200) ?? change;
}

/** Time of a performance mark in milliseconds since the page was opened. */
export async function performanceMark(page: Page, name: string, timeout: number): Promise<number> {
  const handle = await page.waitForFunction(
    (wanted) => performance.getEntriesByName(wanted).at(-1)?.startTime ?? null,
    name,
    { timeout, polling: 50 },
  );
  return (await handle.jsonValue()) ?? Number.NaN;
}

/** Measures the main thread's long tasks and the distance between frames during an action. */
export async function measureSmoothness(
  page: Page,
  action: () => Promise<void>,
): Promise<{ longTasks: number[]; p95: number; frames: number }> {
  const recorder = await page.evaluateHandle(() => {
    const longTasks: number[] = [];
    const times: number[] = [];
    let running = true;
    const observer = new PerformanceObserver((list) => {
      longTasks.push(...list.getEntries().map((entry) => entry.duration));
    });
    observer.observe({ entryTypes: ["longtask"] });
    const frame = (time: number) => {
      times.push(time);
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
  await action();
  const { longTasks, times } = await recorder.evaluate((recording) => recording.end());
  const gaps = times.slice(1).map((time, index) => time - (times[index] ?? time));
  gaps.sort((a, b) => a - b);
  return { longTasks, p95: gaps[Math.floor(gaps.length * 0.95)] ?? Number.NaN, frames: gaps.length };
}
