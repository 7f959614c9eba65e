import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { newVisitor, type Visitor } from "./browser";
import { pagePath, signIn, waitUntilIdle, waitUntilVisible } from "./pages";
import { EVERYTHING, ensureSetUp, ensureUser, READER } from "./service";
import type { Session } from "./session";

/** Sees traces with errors. Is not an administrator, and must not see expressions of policies. */
const ERRORS_USER = "sees-errors";
/** Has a policy with two conditions, of which spans with an error match one. */
const NO_MATCH_USER = "sees-half";
/** Sees all traces, and is an administrator. */
const ADMIN_WITH_ACCESS = "sees-and-administers";

const TITLE = "Traces with an error";
const DESCRIPTION = "Whatever failed, of all services";
const EXPRESSION = 'StatusCode == "Error"';
const UNSATISFIED_EXPRESSION = 'ServiceName == "no such service" && StatusCode == "Error"';

interface Span {
  SpanId: string;
  SpanName: string;
  ServiceName: string;
  StatusCode: string;
  Timestamp: string;
}

let admin: Session;
let id: string;
let errorSpans: Span[];

beforeAll(async () => {
  admin = await ensureSetUp();
  // The setup test may have assigned a role that grants access to traces.
  await admin.call("PATCH", "/users/admin", { roles: ["admin"] });
  await admin.call("PUT", `/roles/${ERRORS_USER}`, {
    policies: [
      { title: TITLE, description: DESCRIPTION, expression: EXPRESSION },
      { title: "Nothing", expression: UNSATISFIED_EXPRESSION },
    ],
  });
  await admin.call("PUT", `/roles/${NO_MATCH_USER}`, {
    policies: [{ title: "Half", expression: UNSATISFIED_EXPRESSION }],
  });
  const reader = await ensureUser(admin, READER, [EVERYTHING]);
  await ensureUser(admin, ERRORS_USER, [ERRORS_USER]);
  await ensureUser(admin, NO_MATCH_USER, [NO_MATCH_USER]);
  await ensureUser(admin, ADMIN_WITH_ACCESS, ["admin", EVERYTHING]);
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
  const candidate = traces.find(({ span_count }) => span_count > 5 && span_count < 20);
  if (candidate === undefined) {
    throw new Error("ClickHouse has no small trace with an error");
  }
  id = candidate.trace_id;
  const { spans } = await reader.call<{ spans: Span[] }>("GET", `/traces/${id}`);
  errorSpans = spans.filter(({ StatusCode }) => StatusCode === "Error");
});

const badge = (page: Page) => page.getByRole("button", { name: /^Why do I see this\?/ });
const panel = (page: Page) => page.getByRole("region", { name: /^(Why do I see|Who sees) this/ });
const grid = (page: Page) => page.getByRole("treegrid", { name: "Spans" });
const accessMarks = (page: Page, name: string) => grid(page).getByRole("img", { name, exact: true });
/** The card of a policy, by its heading. */
const policy = (page: Page, name: RegExp) => page.getByRole("article", { name });

/** Opens a page and waits until it is idle. */
async function openPage(page: Page, path: string): Promise<void> {
  await page.goto(pagePath(path));
  await waitUntilIdle(page);
}

describe("why a reader sees a trace", () => {
  let visitor: Visitor;

  beforeAll(async () => {
    visitor = await newVisitor("asking why");
    await signIn(visitor.page, ERRORS_USER);
  });

  test("is shown on its page, by role and policy", async () => {
    const { page } = visitor;
    await openPage(page, `/trace/${id}`);
    expect(await badge(page).innerText()).toMatch(new RegExp(`${ERRORS_USER}\\s*/\\s*${TITLE}`));
    expect(await accessMarks(page, "Grants access to this trace").count()).toBe(errorSpans.length);
  });

  test("is explained without expressions, at its own URL", async () => {
    const { page } = visitor;
    await openPage(page, `/trace/${id}`);
    await badge(page).click();
    await page.waitForURL((url) => url.searchParams.get("why") === "own");
    await page.reload();
    await waitUntilIdle(page);
    const grantingPolicy = policy(page, new RegExp(TITLE));
    await waitUntilVisible(grantingPolicy.getByText(DESCRIPTION));
    expect(await grantingPolicy.innerText()).toMatch(/In words\s+StatusCode is "Error"/);
    expect(await grantingPolicy.getByRole("listitem").count()).toBe(errorSpans.length);
    // Only administrators see expressions of policies.
    expect(await panel(page).innerText()).not.toContain("==");
    expect(await panel(page).getByRole("radio").count()).toBe(0);
    const otherPolicy = policy(page, /Nothing/);
    expect(await otherPolicy.innerText()).toContain("no match");
  });

  test("lists the matching spans", async () => {
    const { page } = visitor;
    await openPage(page, `/trace/${id}?why=own&view=groups`);
    const spans = await policy(page, new RegExp(TITLE)).getByRole("listitem").getByRole("button").all();
    expect(spans.length).toBe(errorSpans.length);
    for (const span of spans) {
      await span.click();
      const current = grid(page).getByRole("row", { selected: true });
      await expect
        .poll(() => current.getByRole("img", { name: "Grants access to this trace" }).count())
        .toBe(1);
    }
    await grid(page).focus();
    await page.keyboard.press("Enter");
    await waitUntilVisible(
      page.getByRole("region", { name: "Span details" }).getByText(`${ERRORS_USER} / ${TITLE}`),
    );
  });

  test("is replaced by a span's details, and closed with Escape", async () => {
    const { page } = visitor;
    await openPage(page, `/trace/${id}?why=own`);
    await grid(page).focus();
    await page.keyboard.press("Enter");
    await waitUntilVisible(page.getByRole("region", { name: "Span details" }));
    expect(await panel(page).count()).toBe(0);
    const details = page.getByRole("region", { name: "Span details" });
    const heading = await details.getByRole("heading").first().innerText();
    await page.keyboard.press("w");
    await waitUntilVisible(panel(page));
    // The span stays open behind it.
    await page.keyboard.press("w");
    await expect.poll(() => details.getByRole("heading").first().innerText()).toBe(heading);
    await page.keyboard.press("w");
    await waitUntilVisible(panel(page));
    await page.keyboard.press("Escape");
    await expect.poll(() => panel(page).count()).toBe(0);
    await page.waitForURL((url) => !url.searchParams.has("why"));
  });

  test("is closed in a narrow window when a span is selected", async () => {
    const { page, context } = await newVisitor("asking on a telephone", {
      viewport: { width: 400, height: 860 },
    });
    await signIn(page, ERRORS_USER);
    await openPage(page, `/trace/${id}?why=own`);
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
    const { page } = visitor;
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route("**/explain*", async (route) => {
      await released;
      await route.abort();
    });
    await page.goto(pagePath(`/trace/${id}?why=own`));
    await waitUntilVisible(grid(page).getByRole("row").nth(3));
    expect(await badge(page).innerText()).toBe("Why do I see this?");
    release();
    await waitUntilVisible(panel(page).getByRole("alert"));
    await waitUntilVisible(grid(page).getByRole("row").nth(3));
    await page.unroute("**/explain*");
    await panel(page).getByRole("button", { name: "Try again" }).click();
    await waitUntilVisible(policy(page, new RegExp(TITLE)));
    expect(await badge(page).innerText()).toContain(TITLE);
  });
});

describe("an administrator who sees the trace", () => {
  let visitor: Visitor;

  beforeAll(async () => {
    visitor = await newVisitor("administering");
    await signIn(visitor.page, ADMIN_WITH_ACCESS);
  });

  test("sees the decisive parts of an expression", async () => {
    const { page } = visitor;
    await openPage(page, `/trace/${id}?why=own`);
    const grantingPolicy = policy(page, /Every trace/);
    await waitUntilVisible(grantingPolicy.locator("mark[data-outcome=true]").filter({ hasText: "true" }));
  });

  test("sees for another user the part that failed, and the nearest span", async () => {
    const { page } = visitor;
    await openPage(page, `/trace/${id}`);
    await badge(page).click();
    await page.getByText("Another user", { exact: true }).click();
    await page.getByRole("combobox", { name: "Explain for another user" }).fill(NO_MATCH_USER);
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.searchParams.get("user") === NO_MATCH_USER);
    await waitUntilIdle(page);
    await waitUntilVisible(panel(page).getByText("No policy matches"));
    const partialRole = policy(page, /Half/);
    await waitUntilVisible(
      partialRole.locator("mark[data-outcome=false]").filter({ hasText: "ServiceName" }),
    );
    expect(await partialRole.innerText()).toContain("meets 50 % of the policy");
    expect(await accessMarks(page, `Grants ${NO_MATCH_USER} access to this trace`).count()).toBe(0);
    await partialRole.getByRole("button").last().click();
    const current = grid(page).getByRole("row", { selected: true });
    await expect.poll(() => current.getByRole("img", { name: "Error" }).count()).toBe(1);
  });

  test("sees the matching spans of another user in the waterfall", async () => {
    const { page } = visitor;
    await openPage(page, `/trace/${id}?why=user&user=${ERRORS_USER}`);
    expect(await accessMarks(page, `Grants ${ERRORS_USER} access to this trace`).count()).toBe(
      errorSpans.length,
    );
    expect(await policy(page, new RegExp(TITLE)).innerText()).toContain(EXPRESSION);
  });

  test("sees the same users who can read the trace themselves", async () => {
    const { page } = visitor;
    await openPage(page, `/trace/${id}?why=viewers`);
    const names = await page
      .getByRole("list", { name: "Users who can see this trace" })
      .getByRole("link")
      .allInnerTexts();
    for (const [name, role] of [
      [READER, EVERYTHING],
      [ERRORS_USER, ERRORS_USER],
      [NO_MATCH_USER, NO_MATCH_USER],
    ] as const) {
      const ownCount = await ensureUser(admin, name, [role]);
      expect([name, names.includes(name)]).toEqual([
        name,
        (await ownCount.request("GET", `/traces/${id}`)).ok,
      ]);
    }
    expect(names).not.toContain("admin");
    await page.getByRole("button", { name: `Explain for ${ERRORS_USER}` }).click();
    await waitUntilVisible(policy(page, new RegExp(TITLE)));
    await waitUntilVisible(panel(page).getByText("Access granted"));
  });

  test("sees an error for an unknown user", async () => {
    const { page } = visitor;
    await openPage(page, `/trace/${id}?why=user&user=unknown-user`);
    await waitUntilVisible(panel(page).getByRole("alert"));
  });
});

describe("an administrator who does not see the trace", () => {
  test("sees only counts of why others see it, and nothing of its spans", async () => {
    const { page } = await newVisitor("administering blindly");
    await signIn(page, "admin");
    await openPage(page, `/trace/${id}`);
    await waitUntilVisible(
      page.getByRole("heading", { name: "This trace does not exist, or you may not see it" }),
    );
    await page.getByRole("combobox", { name: "Explain for another user" }).fill(ERRORS_USER);
    await page.getByRole("button", { name: "Explain", exact: true }).click();
    const grantingPolicy = policy(page, new RegExp(TITLE));
    await waitUntilVisible(grantingPolicy);
    const count = errorSpans.length === 1 ? "1 span matches" : `${errorSpans.length} spans match`;
    expect(await grantingPolicy.innerText()).toContain(count);
    expect(await grantingPolicy.getByRole("listitem").count()).toBe(0);
    const text = await page.getByRole("main").innerText();
    for (const { SpanId, SpanName } of errorSpans) {
      expect(text).not.toContain(SpanId);
      expect(text).not.toContain(SpanName);
    }
    await page.getByText("Who can see it", { exact: true }).click();
    await waitUntilVisible(
      page
        .getByRole("list", { name: "Users who can see this trace" })
        .getByRole("link", { name: ERRORS_USER }),
    );
  });

  test("sees that there is nothing to explain for a trace that does not exist", async () => {
    const { page } = await newVisitor("administering nothing");
    await signIn(page, "admin");
    await openPage(page, `/trace/${"0".repeat(29)}bad?why=user&user=${ERRORS_USER}`);
    await waitUntilVisible(page.getByRole("alert").filter({ hasText: "There is nothing to explain" }));
  });
});

describe("a user's page", () => {
  test("describes their access in words, and leads to their traces", async () => {
    const { page } = await newVisitor("looking at a user");
    await signIn(page, ADMIN_WITH_ACCESS);
    await openPage(page, `/users/${ERRORS_USER}`);
    const access = page.getByRole("region", { name: "Effective access" });
    await waitUntilVisible(access.getByText('StatusCode is "Error"'));
    await waitUntilVisible(access.getByText(EXPRESSION, { exact: true }));
    await page.getByRole("button", { name: "See their traces" }).click();
    await page.waitForURL("**/ui/search**");
    await waitUntilVisible(page.getByRole("status").filter({ hasText: `You see traces as ${ERRORS_USER}` }));
    await page.getByRole("button", { name: "End preview" }).click();
    await expect.poll(() => page.getByRole("button", { name: "End preview" }).count()).toBe(0);
  });
});
