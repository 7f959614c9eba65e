import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";
import { environment } from "./environment";
import { shown } from "./pages";

/** The addresses of other hosts that a page asks for, as they come; to be called before it is first opened. */
export function foreignRequests(page: Page): string[] {
  const { url: service } = environment();
  const foreign: string[] = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(service) && !/^(blob|data):/.test(request.url())) {
      foreign.push(request.url());
    }
  });
  return foreign;
}

/** What texts would have achieved if one of them had become more than text.
 *
 * Reports of the policy, scripts and dialogs fail every test of every page, in `browser.ts`. */
export async function nothingHappened(page: Page, foreign: readonly string[]): Promise<void> {
  const found = await page.evaluate(() => {
    // Dialogs and lists of options stand beside what they belong to.
    const all = (selector: string) =>
      ["main", "[data-portal]"].flatMap((place) => [...document.querySelectorAll(`${place} ${selector}`)]);
    return {
      ran: "hostile" in window || "pwned" in window,
      polluted: "polluted" in {} || Object.keys(Object.prototype).length > 0,
      elements: ["iframe", "script", "object", "embed", "img[src=x]"]
        .flatMap(all)
        .map((element) => element.outerHTML.slice(0, 200)),
      handlers: all("*")
        .filter((element) => [...element.attributes].some(({ name }) => /^on/i.test(name)))
        .map((element) => element.outerHTML.slice(0, 200)),
      links: all("a[href]")
        .map((link) => link.getAttribute("href") ?? "")
        .filter((href) => !href.startsWith("/") && !href.startsWith("#")),
      // What is read out or shown on hovering has no element that would isolate it.
      names: [...document.querySelectorAll("[title], [aria-label]")]
        .flatMap((element) => [element.getAttribute("title"), element.getAttribute("aria-label")])
        .filter((text) => text !== null && /\p{Cf}|(?![\t\n])\p{Cc}/u.test(text))
        .map((text) => text?.slice(0, 100)),
    };
  });
  expect(found).toEqual({ ran: false, polluted: false, elements: [], handlers: [], links: [], names: [] });
  expect(foreign).toEqual([]);
}

/** Outside of elements that isolate it, no text can turn what stands beside it around; and none of it is unseen. */
export async function nothingUnseen(page: Page): Promise<void> {
  expect(await page.title()).not.toMatch(/\p{Cf}|\p{Cc}/u);
  const bare = await page.evaluate(() =>
    (document.body.innerText.match(/.{0,40}(?:\p{Cf}|(?!\ufe0f)\p{DI}|\u2800|(?![\t\n])\p{Cc})/gu) ?? []).map(
      (text) => JSON.stringify(text),
    ),
  );
  expect(bare).toEqual([]);
}

/** Waits until each of the texts is to be seen, and looks that they are texts and nothing else. */
export async function areTexts(page: Page, foreign: readonly string[], ...texts: Locator[]): Promise<void> {
  for (const text of texts) {
    await shown(text.filter({ visible: true }));
  }
  await nothingHappened(page, foreign);
  await nothingUnseen(page);
}
