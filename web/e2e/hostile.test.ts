import { beforeAll, describe, expect, test } from "vitest";
import { newVisitor, type Visitor } from "./browser";
import { environment } from "./environment";
import { expectNoHiddenCharacters, expectNothingExecuted, foreignRequests } from "./hostile";
import { pagePath, signIn, waitUntilIdle, waitUntilVisible } from "./pages";
import { EVERYTHING, ensureSetUp, ensureUser, READER } from "./service";
import type { Session } from "./session";

const { traceHostile } = environment();

let reader: Session;
let visitor: Visitor;
let foreignUrls: readonly string[];

beforeAll(async () => {
  const admin = await ensureSetUp();
  reader = await ensureUser(admin, READER, [EVERYTHING]);
  visitor = await newVisitor("hostile texts");
  foreignUrls = foreignRequests(visitor.page);
  await signIn(visitor.page, READER);
});

const expectNothingElse = async () => {
  await expectNothingExecuted(visitor.page, foreignUrls);
  await expectNoHiddenCharacters(visitor.page);
};
const grid = () => visitor.page.getByRole("treegrid", { name: "Spans" });

describe("a trace with hostile texts", () => {
  test("is shown as text, with the names of invisible characters", async () => {
    await visitor.page.goto(pagePath(`/trace/${traceHostile}`));
    await waitUntilIdle(visitor.page);
    await expectNothingElse();
    await waitUntilVisible(grid().getByText("<script>", { exact: false }));
    await waitUntilVisible(grid().getByText("U+202E", { exact: true }));
  });

  test("is explained as text", async () => {
    const { page } = visitor;
    await page.goto(pagePath(`/trace/${traceHostile}?why=own`));
    await waitUntilIdle(page);
    const panel = page.getByRole("region", { name: "Why do I see this?" });
    expect(await panel.getByRole("listitem").count()).toBeGreaterThan(3);
    await expectNothingElse();
    await page.getByRole("button", { name: "Close the explanation" }).click();
    await expect.poll(() => panel.count()).toBe(0);
  });

  test("shows all details of its spans as text", { timeout: 240_000 }, async () => {
    const { page } = visitor;
    await grid().focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("Enter");
    const panel = page.getByRole("region", { name: "Span details" });
    await waitUntilVisible(panel);
    const { spans } = await reader.call<{ spans: unknown[] }>("GET", `/traces/${traceHostile}`);
    for (let step = 0; step < Math.min(spans.length, 40); step += 1) {
      // Each tab contains texts, long ones behind a button. Only the content of the active tab is in the document.
      const tabs = await panel.getByRole("tab").all();
      expect(tabs.length).toBeGreaterThan(3);
      for (const tab of tabs) {
        await tab.click();
        // Each click removes such a button or shows another part of a text.
        const showMore = panel.getByRole("button", { name: /^Show (all|more)/ });
        for (
          let remaining = await showMore.count();
          remaining > 0 && (await showMore.count()) > 0;
          remaining -= 1
        ) {
          await showMore.first().click({ timeout: 5_000 });
        }
        await expectNothingElse();
      }
      await grid().focus();
      await page.keyboard.press("ArrowDown");
    }
  });

  test("is searched as text, and shown as text in every view", async () => {
    const { page } = visitor;
    await page.goto(pagePath(`/trace/${traceHostile}?find=${encodeURIComponent("<script>")}`));
    await waitUntilIdle(page);
    await expectNothingElse();
    for (const view of ["flame", "groups"]) {
      await page.goto(pagePath(`/trace/${traceHostile}?view=${view}`));
      await waitUntilIdle(page);
      await expectNothingElse();
    }
  });

  test("is shown as text in search results and suggested values", async () => {
    const { page } = visitor;
    await page.goto(
      pagePath(`/search?last=24h&where=${encodeURIComponent('SpanName starts with "<script>"')}`),
    );
    await waitUntilIdle(page);
    await waitUntilVisible(page.getByRole("table", { name: "Traces found" }));
    await expectNothingElse();
    const entry = page
      .getByRole("textbox", { name: "Add a condition" })
      .or(page.getByRole("combobox", { name: "Add a condition" }));
    await entry.first().fill("SpanName = <");
    await waitUntilVisible(page.getByRole("option", { name: /<script>/ }));
    await expectNothingElse();
  });
});
