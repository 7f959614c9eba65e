import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { type Visitor, visitor } from "./browser";
import { at, logIn, quiet, shown } from "./pages";
import { EVERYTHING, ensureSetUp, person, READER } from "./service";
import type { Session } from "./session";

/** Sees traces with errors. Is not an administrator, and must not see expressions of policies. */
const SEES = "sees-errors";
/** Has a policy with two conditions, of which spans with an error match one. */
const BLIND = "sees-half";
/** Sees all traces, and is an administrator. */
const BOTH = "sees-and-administers";

const TITLE = "Traces with an error";
const DESCRIPTION = "Whatever failed, of all services";
const EXPRESSION = 'StatusCode == "Error"';
const HALF = 'ServiceName == "no such service" && StatusCode == "Error"';

interface Span {
  SpanId: string;
  SpanName: string;
  ServiceName: string;
  StatusCode: string;
  Timestamp: string;
}

let admin: Session;
let id: string;
let failed: Span[];

beforeAll(async () => {
  admin = await ensureSetUp();
  // The setup test may have assigned a role that grants access to traces.
  await admin.call("PATCH", "/users/admin", { roles: ["admin"] });
  await admin.call("PUT", `/roles/${SEES}`, {
    policies: [
      { title: TITLE, description: DESCRIPTION, expression: EXPRESSION },
      { title: "Nothing", expression: HALF },
    ],
  });
  await admin.call("PUT", `/roles/${BLIND}`, { policies: [{ title: "Half", expression: HALF }] });
  const reader = await person(admin, READER, [EVERYTHING]);
  await person(admin, SEES, [SEES]);
  await person(admin, BLIND, [BLIND]);
  await person(admin, BOTH, ["admin", EVERYTHING]);
  const { traces } = await reader.call<{ traces: { trace_id: string; span_count: number }[] }>(
    "POST",
    "/traces/query",
    {
      view: "summary",
      limit: 200,
      filter: { conditions: [{ name: "StatusCode", op: "eq", value: "Error" }] },
    },
  );
  // A small trace, so that all its rows are in the document.
  const found = traces.find(({ span_count }) => span_count > 5 && span_count < 20);
  if (found === undefined) {
    throw new Error("ClickHouse has no small trace with an error");
  }
  id = found.trace_id;
  const { spans } = await reader.call<{ spans: Span[] }>("GET", `/traces/${id}`);
  failed = spans.filter(({ StatusCode }) => StatusCode === "Error");
});

const badge = (page: Page) => page.getByRole("button", { name: /^Why do I see this\?/ });
const panel = (page: Page) => page.getByRole("region", { name: /^(Why do I see|Who sees) this/ });
const grid = (page: Page) => page.getByRole("treegrid", { name: "Spans" });
const marks = (page: Page, name: string) => grid(page).getByRole("img", { name, exact: true });
/** The card of a policy, by its heading. */
const policy = (page: Page, name: RegExp) => page.getByRole("article", { name });

/** Opens a page and waits until it is idle. */
async function open(page: Page, path: string): Promise<void> {
  await page.goto(at(path));
  await quiet(page);
}

describe("why a reader sees a trace", () => {
  let visit: Visitor;

  beforeAll(async () => {
    visit = await visitor("asking why");
    await logIn(visit.page, SEES);
  });

  test("is shown on its page, by role and policy", async () => {
    const { page } = visit;
    await open(page, `/trace/${id}`);
    expect(await badge(page).innerText()).toMatch(new RegExp(`${SEES}\\s*/\\s*${TITLE}`));
    expect(await marks(page, "Grants access to this trace").count()).toBe(failed.length);
  });

  test("is explained without expressions, at its own URL", async () => {
    const { page } = visit;
    await open(page, `/trace/${id}`);
    await badge(page).click();
    await page.waitForURL((url) => url.searchParams.get("why") === "own");
    await page.reload();
    await quiet(page);
    const opening = policy(page, new RegExp(TITLE));
    await shown(opening.getByText(DESCRIPTION));
    expect(await opening.innerText()).toMatch(/In words\s+StatusCode is "Error"/);
    expect(await opening.getByRole("listitem").count()).toBe(failed.length);
    // Only administrators see expressions of policies.
    expect(await panel(page).innerText()).not.toContain("==");
    expect(await panel(page).getByRole("radio").count()).toBe(0);
    const other = policy(page, /Nothing/);
    expect(await other.innerText()).toContain("no match");
  });

  test("lists the matching spans", async () => {
    const { page } = visit;
    await open(page, `/trace/${id}?why=own&view=groups`);
    const spans = await policy(page, new RegExp(TITLE)).getByRole("listitem").getByRole("button").all();
    expect(spans.length).toBe(failed.length);
    for (const span of spans) {
      await span.click();
      const current = grid(page).getByRole("row", { selected: true });
      await expect
        .poll(() => current.getByRole("img", { name: "Grants access to this trace" }).count())
        .toBe(1);
    }
    await grid(page).focus();
    await page.keyboard.press("Enter");
    await shown(page.getByRole("region", { name: "Span details" }).getByText(`${SEES} / ${TITLE}`));
  });

  test("is replaced by a span's details, and closed with Escape", async () => {
    const { page } = visit;
    await open(page, `/trace/${id}?why=own`);
    await grid(page).focus();
    await page.keyboard.press("Enter");
    await shown(page.getByRole("region", { name: "Span details" }));
    expect(await panel(page).count()).toBe(0);
    await page.keyboard.press("w");
    await shown(panel(page));
    await page.keyboard.press("Escape");
    await expect.poll(() => panel(page).count()).toBe(0);
    await page.waitForURL((url) => !url.searchParams.has("why"));
  });

  test("is closed in a narrow window when a span is selected", async () => {
    const { page, context } = await visitor("asking on a telephone", {
      viewport: { width: 400, height: 860 },
    });
    await logIn(page, SEES);
    await open(page, `/trace/${id}?why=own`);
    await policy(page, new RegExp(TITLE)).getByRole("listitem").getByRole("button").first().click();
    await expect.poll(() => panel(page).count()).toBe(0);
    const current = grid(page).getByRole("row", { selected: true });
    await expect
      .poll(() => current.getByRole("img", { name: "Grants access to this trace" }).count())
      .toBe(1);
    const box = await current.boundingBox();
    expect(box === null ? -1 : box.y).toBeGreaterThanOrEqual(0);
    expect(box === null ? 860 : box.y + box.height).toBeLessThanOrEqual(860);
    await context.close();
  });

  test("does not block the trace when it fails", async () => {
    const { page } = visit;
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route("**/explain*", async (route) => {
      await released;
      await route.abort();
    });
    await page.goto(at(`/trace/${id}?why=own`));
    await shown(grid(page).getByRole("row").nth(3));
    expect(await badge(page).innerText()).toBe("Why do I see this?");
    release();
    await shown(panel(page).getByRole("alert"));
    await shown(grid(page).getByRole("row").nth(3));
    await page.unroute("**/explain*");
    await panel(page).getByRole("button", { name: "Try again" }).click();
    await shown(policy(page, new RegExp(TITLE)));
    expect(await badge(page).innerText()).toContain(TITLE);
  });
});

describe("an administrator who sees the trace", () => {
  let visit: Visitor;

  beforeAll(async () => {
    visit = await visitor("administering");
    await logIn(visit.page, BOTH);
  });

  test("sees the decisive parts of an expression", async () => {
    const { page } = visit;
    await open(page, `/trace/${id}?why=own`);
    const opening = policy(page, /Every trace/);
    await shown(opening.locator("mark[data-outcome=true]").filter({ hasText: "true" }));
  });

  test("sees for another user the part that failed, and the nearest span", async () => {
    const { page } = visit;
    await open(page, `/trace/${id}`);
    await badge(page).click();
    await page.getByText("Another user", { exact: true }).click();
    await page.getByRole("combobox", { name: "Explain for another user" }).fill(BLIND);
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.searchParams.get("user") === BLIND);
    await quiet(page);
    await shown(panel(page).getByText("No policy matches"));
    const half = policy(page, /Half/);
    await shown(half.locator("mark[data-outcome=false]").filter({ hasText: "ServiceName" }));
    expect(await half.innerText()).toContain("meets 50 % of the policy");
    expect(await marks(page, `Grants ${BLIND} access to this trace`).count()).toBe(0);
    await half.getByRole("button").last().click();
    const current = grid(page).getByRole("row", { selected: true });
    await expect.poll(() => current.getByRole("img", { name: "Error" }).count()).toBe(1);
  });

  test("sees the matching spans of another user in the waterfall", async () => {
    const { page } = visit;
    await open(page, `/trace/${id}?why=user&user=${SEES}`);
    expect(await marks(page, `Grants ${SEES} access to this trace`).count()).toBe(failed.length);
    expect(await policy(page, new RegExp(TITLE)).innerText()).toContain(EXPRESSION);
  });

  test("sees the same users who can read the trace themselves", async () => {
    const { page } = visit;
    await open(page, `/trace/${id}?why=viewers`);
    const names = await page
      .getByRole("list", { name: "Users who can see this trace" })
      .getByRole("link")
      .allInnerTexts();
    for (const [name, role] of [
      [READER, EVERYTHING],
      [SEES, SEES],
      [BLIND, BLIND],
    ] as const) {
      const own = await person(admin, name, [role]);
      expect([name, names.includes(name)]).toEqual([name, (await own.ask("GET", `/traces/${id}`)).ok]);
    }
    expect(names).not.toContain("admin");
    await page.getByRole("button", { name: `Explain for ${SEES}` }).click();
    await shown(policy(page, new RegExp(TITLE)));
    await shown(panel(page).getByText("Access granted"));
  });

  test("sees an error for an unknown user", async () => {
    const { page } = visit;
    await open(page, `/trace/${id}?why=user&user=nobody-of-that-name`);
    await shown(panel(page).getByRole("alert"));
  });
});

describe("an administrator who does not see the trace", () => {
  test("sees only counts of why others see it, and nothing of its spans", async () => {
    const { page } = await visitor("administering blindly");
    await logIn(page, "admin");
    await open(page, `/trace/${id}`);
    await shown(page.getByRole("heading", { name: "This trace does not exist, or you may not see it" }));
    await page.getByRole("combobox", { name: "Explain for another user" }).fill(SEES);
    await page.getByRole("button", { name: "Explain", exact: true }).click();
    const opening = policy(page, new RegExp(TITLE));
    await shown(opening);
    const count = failed.length === 1 ? "1 span matches" : `${failed.length} spans match`;
    expect(await opening.innerText()).toContain(count);
    expect(await opening.getByRole("listitem").count()).toBe(0);
    const text = await page.getByRole("main").innerText();
    for (const { SpanId, SpanName } of failed) {
      expect(text).not.toContain(SpanId);
      expect(text).not.toContain(SpanName);
    }
    await page.getByText("Who can see it", { exact: true }).click();
    await shown(
      page.getByRole("list", { name: "Users who can see this trace" }).getByRole("link", { name: SEES }),
    );
  });

  test("sees that there is nothing to explain for a trace that does not exist", async () => {
    const { page } = await visitor("administering nothing");
    await logIn(page, "admin");
    await open(page, `/trace/${"0".repeat(29)}bad?why=user&user=${SEES}`);
    await shown(page.getByRole("alert").filter({ hasText: "There is nothing to explain" }));
  });
});

describe("a user's page", () => {
  test("describes their access in words, and leads to their traces", async () => {
    const { page } = await visitor("looking at a user");
    await logIn(page, BOTH);
    await open(page, `/users/${SEES}`);
    const access = page.getByRole("region", { name: "Effective access" });
    await shown(access.getByText('StatusCode is "Error"'));
    await shown(access.getByText(EXPRESSION, { exact: true }));
    await page.getByRole("button", { name: "See their traces" }).click();
    await page.waitForURL("**/ui/search**");
    await shown(page.getByRole("status").filter({ hasText: `You see traces as ${SEES}` }));
    await page.getByRole("button", { name: "End preview" }).click();
    await expect.poll(() => page.getByRole("button", { name: "End preview" }).count()).toBe(0);
  });
});
