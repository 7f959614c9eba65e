import { beforeAll, describe, expect, test } from "vitest";
import { newVisitor } from "./browser";
import { pagePath, signIn, waitUntilIdle, waitUntilVisible } from "./pages";
import { EVERYTHING, ensureSetUp, ensureUser, READER } from "./service";

beforeAll(async () => {
  await ensureUser(await ensureSetUp(), READER, [EVERYTHING]);
});

describe("a search", () => {
  test("is suggested again until the user signs out", async () => {
    const { context, page } = await newVisitor("searching again");
    await signIn(page, READER);
    const name = "Edit condition ServiceName = checkout";
    const suggestion = page.getByRole("option", { name: /ServiceName = .* recent search/ });
    await page.goto(pagePath(`/search?last=24h&where=${encodeURIComponent("ServiceName = checkout")}`));
    await waitUntilIdle(page);
    await page.goto(pagePath("/search?last=24h"));
    await waitUntilIdle(page);
    await page.keyboard.press("/");
    await suggestion.click();
    await page.getByRole("button", { name, exact: true }).waitFor();
    await waitUntilIdle(page);
    await page.getByRole("button", { name: READER }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await page.waitForURL("**/ui/login**");
    await signIn(page, READER);
    await page.keyboard.press("/");
    await waitUntilVisible(page.getByRole("listbox", { name: "Suggestions" }).getByRole("option"));
    expect(await suggestion.count()).toBe(0);
    await context.close();
  });

  test("runs again every ten seconds while it is live, until the window is idle", async () => {
    const { context, page } = await newVisitor("watching");
    await signIn(page, READER);
    await page.clock.install();
    await page.goto(pagePath("/search?last=24h"));
    await waitUntilVisible(page.getByRole("table", { name: "Traces found" }));
    let searches = 0;
    page.on("request", (request) => {
      searches += request.url().endsWith("/traces/query") ? 1 : 0;
    });
    const live = page.getByRole("switch", { name: "Live" });
    await live.check({ force: true });
    await page.clock.runFor(10_500);
    await expect.poll(() => searches).toBe(1);
    await waitUntilVisible(page.getByRole("table", { name: "Traces found" }));
    const expectNoSearch = async (milliseconds: number) => {
      // While statistics are computed, no search is due anyway.
      await expect.poll(() => page.locator("[aria-busy=true]").count()).toBe(0);
      await new Promise((resolve) => setTimeout(resolve, 500));
      const before = searches;
      await page.clock.runFor(milliseconds);
      // A request that was sent is reported a little later.
      await new Promise((resolve) => setTimeout(resolve, 500));
      expect(searches).toBe(before);
    };
    // Neither the focus on a result is taken away, nor are further pages.
    await page
      .getByRole("table", { name: "Traces found" })
      .getByRole("row")
      .getByRole("link")
      .first()
      .focus();
    await expectNoSearch(25_000);
    await page.evaluate(() => document.activeElement instanceof HTMLElement && document.activeElement.blur());
    await page.evaluate(() =>
      Object.defineProperty(document, "hidden", { configurable: true, get: () => true }),
    );
    await expectNoSearch(25_000);
    await page.evaluate(() =>
      Object.defineProperty(document, "hidden", { configurable: true, get: () => false }),
    );
    await page.clock.runFor(10_500);
    await expect.poll(() => searches).toBe(2);
    await page.clock.fastForward(11 * 60_000);
    await expect.poll(() => live.isChecked()).toBe(false);
    await expectNoSearch(30_000);
    // A fixed range does not change.
    await page.goto(pagePath("/search?from=2026-11-21T10:00:00Z&to=2026-11-21T11:00:00Z"));
    await expect.poll(() => live.isDisabled()).toBe(true);
    await context.close();
  });
});
