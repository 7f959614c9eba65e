import { beforeAll, describe, expect, test } from "vitest";
import { type Visitor, visitor } from "./browser";
import { environment } from "./environment";
import { foreignRequests, nothingHappened, nothingUnseen } from "./hostile";
import { at, logIn, quiet, shown } from "./pages";
import { EVERYTHING, ensureSetUp, person, READER } from "./service";
import type { Session } from "./session";

const { traceHostile } = environment();

let reader: Session;
let visit: Visitor;
let foreign: readonly string[];

beforeAll(async () => {
  const admin = await ensureSetUp();
  reader = await person(admin, READER, [EVERYTHING]);
  visit = await visitor("hostile texts");
  foreign = foreignRequests(visit.page);
  await logIn(visit.page, READER);
});

const nothingElse = async () => {
  await nothingHappened(visit.page, foreign);
  await nothingUnseen(visit.page);
};
const grid = () => visit.page.getByRole("treegrid", { name: "Spans" });

describe("a trace with hostile texts", () => {
  test("is shown as text, with the names of invisible characters", async () => {
    await visit.page.goto(at(`/trace/${traceHostile}`));
    await quiet(visit.page);
    await nothingElse();
    await shown(grid().getByText("<script>", { exact: false }));
    await shown(grid().getByText("U+202E", { exact: true }));
  });

  test("is explained as text", async () => {
    const { page } = visit;
    await page.goto(at(`/trace/${traceHostile}?why=own`));
    await quiet(page);
    const panel = page.getByRole("region", { name: "Why do I see this?" });
    expect(await panel.getByRole("listitem").count()).toBeGreaterThan(3);
    await nothingElse();
    await page.getByRole("button", { name: "Close the explanation" }).click();
    await expect.poll(() => panel.count()).toBe(0);
  });

  test("shows all details of its spans as text", { timeout: 240_000 }, async () => {
    const { page } = visit;
    await grid().focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("Enter");
    const panel = page.getByRole("region", { name: "Span details" });
    await shown(panel);
    const { spans } = await reader.call<{ spans: unknown[] }>("GET", `/traces/${traceHostile}`);
    for (let step = 0; step < Math.min(spans.length, 40); step += 1) {
      // Each tab contains texts, long ones behind a button. Only the content of the active tab is in the document.
      const tabs = await panel.getByRole("tab").all();
      expect(tabs.length).toBeGreaterThan(3);
      for (const tab of tabs) {
        await tab.click();
        // Each click removes such a button or shows another part of a text.
        const cut = panel.getByRole("button", { name: /^Show (all|more)/ });
        for (let presses = await cut.count(); presses > 0 && (await cut.count()) > 0; presses -= 1) {
          await cut.first().click({ timeout: 5_000 });
        }
        await nothingElse();
      }
      await grid().focus();
      await page.keyboard.press("ArrowDown");
    }
  });

  test("is searched as text, and shown as text in every view", async () => {
    const { page } = visit;
    await page.goto(at(`/trace/${traceHostile}?find=${encodeURIComponent("<script>")}`));
    await quiet(page);
    await nothingElse();
    for (const view of ["flame", "groups"]) {
      await page.goto(at(`/trace/${traceHostile}?view=${view}`));
      await quiet(page);
      await nothingElse();
    }
  });

  test("is shown as text in search results and suggested values", async () => {
    const { page } = visit;
    await page.goto(at(`/search?last=24h&where=${encodeURIComponent('SpanName starts with "<script>"')}`));
    await quiet(page);
    await shown(page.getByRole("table", { name: "Traces found" }));
    await nothingElse();
    const entry = page
      .getByRole("textbox", { name: "Add a condition" })
      .or(page.getByRole("combobox", { name: "Add a condition" }));
    await entry.first().fill("SpanName = <");
    await shown(page.getByRole("option", { name: /<script>/ }));
    await nothingElse();
  });
});
