import { beforeAll, describe, expect, test } from "vitest";
import { newVisitor, type Visitor } from "./browser";
import { pagePath, resultIds, signIn, waitUntilIdle, waitUntilVisible } from "./pages";
import { EVERYTHING, ensureSetUp, ensureUser, READER } from "./service";
import type { Session } from "./session";

let reader: Session;
let visitor: Visitor;

beforeAll(async () => {
  const admin = await ensureSetUp();
  reader = await ensureUser(admin, READER, [EVERYTHING]);
  visitor = await newVisitor("first use", { viewport: { width: 1440, height: 900 } });
  await signIn(visitor.page, READER);
});

describe("a user who does not know field names", () => {
  const act = async (action: Promise<unknown>) => {
    await action;
    await waitUntilIdle(visitor.page);
  };
  const start = async () => {
    await visitor.page.goto(pagePath("/search?last=24h"));
    await waitUntilIdle(visitor.page);
  };
  const paste = async (text: string) => {
    await visitor.page.evaluate((copied) => navigator.clipboard.writeText(copied), text);
    await visitor.page.keyboard.press("ControlOrMeta+v");
  };
  const firstResult = () =>
    visitor.page.getByRole("table", { name: "Traces found" }).getByRole("row").getByRole("link").first();

  test("finds the cause of a failing checkout in five actions", async () => {
    const { page } = visitor;
    await start();
    await act(paste("checkout"));
    await act(page.keyboard.press("Enter"));
    const condition = page.getByRole("button", {
      name: "Edit condition ServiceName = checkout",
      exact: true,
    });
    await waitUntilVisible(condition);
    await act(page.getByRole("switch", { name: "Errors only" }).click({ force: true }));
    await act(firstResult().click());
    await act(page.keyboard.press("e"));
    const panel = page.getByRole("region", { name: "Span details" });
    await waitUntilVisible(panel.getByText(/^(Error|Exception)/).first());
  });

  test("finds the slowest request of a tenant in four", async () => {
    const { page } = visitor;
    await start();
    const { values } = await reader.call<{ values: { value: string }[] }>(
      "GET",
      `/filter/values?ref=${encodeURIComponent('SpanAttributes["tenant.id"]')}&limit=1`,
    );
    const tenant = values[0]?.value ?? "";
    await act(paste(tenant));
    await act(page.keyboard.press("Enter"));
    await waitUntilVisible(page.getByRole("button", { name: /^Edit condition .*tenant\.id.* = / }));
    await act(page.getByRole("columnheader", { name: "Duration" }).getByRole("button").click());
    await act(firstResult().click());
    const { traces } = await reader.call<{ traces: { trace_id: string }[] }>("POST", "/traces/query", {
      view: "summary",
      limit: 1,
      order: "longest",
      from: new Date(Date.now() - 24 * 3_600_000).toISOString(),
      to: new Date().toISOString(),
      filter: { conditions: [{ map: "SpanAttributes", name: "tenant.id", op: "eq", value: tenant }] },
    });
    expect(page.url()).toContain(`/trace/${traces[0]?.trace_id}`);
  });

  test("opens a trace by pasting its id", async () => {
    const { page } = visitor;
    await start();
    const id = (await resultIds(page))[0] ?? "";
    await act(paste(id));
    await page.waitForURL((url) => url.pathname.endsWith(`/trace/${id}`));
  });

  test("pastes without losing what is typed, also after a click on a switch", async () => {
    const { page } = visitor;
    await start();
    const entry = page.getByRole("combobox", { name: "Add a condition" });
    await entry.fill("Duration > 1s and");
    await page.getByRole("heading", { name: "Search", level: 1 }).click();
    await act(paste("ServiceName\n= checkout"));
    expect(await entry.inputValue()).toBe("Duration > 1s and ServiceName = checkout");
    await start();
    await act(page.getByRole("switch", { name: "Errors only" }).click({ force: true }));
    const id = (await resultIds(page))[0] ?? "";
    await act(paste(id));
    await page.waitForURL((url) => url.pathname.endsWith(`/trace/${id}`));
  });
});
