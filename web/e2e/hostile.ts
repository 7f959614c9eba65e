import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";
import { environment } from "./environment";
import { waitUntilVisible } from "./pages";

/** Returns the URLs of other hosts that the page requests, which are added as they occur. Must be called before the page is first
 * opened. */
export function foreignRequests(page: Page): string[] {
  const { url: service } = environment();
  const foreignUrls: string[] = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(service) && !/^(blob|data):/.test(request.url())) {
      foreignUrls.push(request.url());
    }
  });
  return foreignUrls;
}

/** Checks that no text was interpreted as markup or code.
 *
 * Reports of the Content-Security-Policy, scripts and dialogs fail every test through `browser.ts`. */
export async function expectNothingExecuted(page: Page, foreign: readonly string[]): Promise<void> {
  const findings = await page.evaluate(() => {
    // Dialogs and option lists are rendered outside the main element.
    const selectAll = (selector: string) =>
      ["main", "[data-portal]"].flatMap((container) => [
        ...document.querySelectorAll(`${container} ${selector}`),
      ]);
    return {
      ran: "hostile" in window || "pwned" in window,
      polluted: "polluted" in {} || Object.keys(Object.prototype).length > 0,
      elements: ["iframe", "script", "object", "embed", "img[src=x]"]
        .flatMap(selectAll)
        .map((element) => element.outerHTML.slice(0, 200)),
      handlers: selectAll("*")
        .filter((element) => [...element.attributes].some(({ name }) => /^on/i.test(name)))
        .map((element) => element.outerHTML.slice(0, 200)),
      links: selectAll("a[href]")
        .map((link) => link.getAttribute("href") ?? "")
        .filter((href) => !href.startsWith("/") && !href.startsWith("#")),
      // Tooltips and accessible names cannot contain an element that isolates bidirectional text.
      names: [...document.querySelectorAll("[title], [aria-label]")]
        .flatMap((element) => [element.getAttribute("title"), element.getAttribute("aria-label")])
        .filter((text) => text !== null && /\p{Cf}|(?![\t\n])\p{Cc}/u.test(text))
        .map((text) => text?.slice(0, 100)),
    };
  });
  expect(findings).toEqual({ ran: false, polluted: false, elements: [], handlers: [], links: [], names: [] });
  expect(foreign).toEqual([]);
}

/** Checks that the text outside of isolating elements has no bidirectional controls and no invisible characters. */
export async function expectNoHiddenCharacters(page: Page): Promise<void> {
  expect(await page.title()).not.toMatch(/\p{Cf}|\p{Cc}/u);
  const unisolated = await page.evaluate(() =>
    (document.body.innerText.match(/.{0,40}(?:\p{Cf}|(?!\ufe0f)\p{DI}|\u2800|(?![\t\n])\p{Cc})/gu) ?? []).map(
      (text) => JSON.stringify(text),
    ),
  );
  expect(unisolated).toEqual([]);
}

/** Waits until each of the texts is visible, and checks that they are plain text. */
export async function expectPlainTexts(
  page: Page,
  foreign: readonly string[],
  ...texts: Locator[]
): Promise<void> {
  for (const text of texts) {
    await waitUntilVisible(text.filter({ visible: true }));
  }
  await expectNothingExecuted(page, foreign);
  await expectNoHiddenCharacters(page);
}
