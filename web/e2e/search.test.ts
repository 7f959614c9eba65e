import { beforeAll, describe, expect, test } from "vitest";
import { newVisitor, type Visitor } from "./browser";
import { copyToolCall, pagePath, resultIds, signIn, waitUntilIdle, waitUntilVisible } from "./pages";
import { EVERYTHING, ensureSetUp, ensureUser, READER } from "./service";
import { OWN_PASSWORD, type Session } from "./session";

/** A day that ends now, in whole seconds, so that the page and the API use the same window. */
const RANGE_END = new Date(Math.floor(Date.now() / 1000) * 1000);
const RANGE_START = new Date(RANGE_END.getTime() - 24 * 3_600_000);
const iso = (date: Date) => date.toISOString().replace(".000Z", "Z");

let reader: Session;
let visitor: Visitor;
let services: string[];

beforeAll(async () => {
  const admin = await ensureSetUp();
  reader = await ensureUser(admin, READER, [EVERYTHING]);
  const { values } = await reader.call<{ values: { value: string }[] }>(
    "GET",
    "/filter/values?ref=ServiceName&limit=10",
  );
  services = values.map(({ value }) => value).filter((value) => /^[\w-]+$/.test(value));
  visitor = await newVisitor("searching");
  await signIn(visitor.page, READER);
});

const openSearch = async (query = "") => {
  await visitor.page.goto(pagePath(`/search?from=${iso(RANGE_START)}&to=${iso(RANGE_END)}${query}`));
  await waitUntilIdle(visitor.page);
};

const entry = () =>
  visitor.page
    .getByRole("combobox", { name: "Add a condition" })
    .or(visitor.page.getByRole("textbox", { name: "Add a condition" }))
    .first();

/** Types a condition in full, and waits for the results. */
async function addCondition(condition: string): Promise<void> {
  await entry().fill(condition);
  await visitor.page.keyboard.press("Enter");
  await expect.poll(() => entry().inputValue()).toBe("");
  await waitUntilIdle(visitor.page);
}

/** Ids of the traces that the API returns, in order. */
async function apiIds(conditions: unknown[], session = reader): Promise<string[]> {
  const { traces } = await session.call<{ traces: { trace_id: string }[] }>("POST", "/traces/query", {
    view: "summary",
    limit: 200,
    from: iso(RANGE_START),
    to: iso(RANGE_END),
    filter: { conditions },
  });
  return traces.map(({ trace_id }) => trace_id);
}

async function expectSameAsApi(conditions: unknown[]): Promise<void> {
  const allIds = await apiIds(conditions);
  expect(allIds.length).toBeGreaterThan(0);
  const shownIds = await resultIds(visitor.page);
  expect(shownIds.length).toBeGreaterThanOrEqual(Math.min(allIds.length, 20));
  expect(shownIds).toEqual(allIds.slice(0, shownIds.length));
}

describe("a search finds the traces that the API returns", () => {
  test("without conditions", async () => {
    await openSearch();
    await expectSameAsApi([]);
  });

  test("by an equal text", async () => {
    await openSearch();
    await addCondition(`ServiceName = ${services[0]}`);
    await expectSameAsApi([{ name: "ServiceName", op: "eq", value: services[0] }]);
  });

  test("by one of several texts", async () => {
    await openSearch();
    await addCondition(`ServiceName in ${services[1]}, ${services[2]}`);
    await expectSameAsApi([{ name: "ServiceName", op: "in", values: [services[1], services[2]] }]);
  });

  test("by a prefix", async () => {
    await openSearch();
    await addCondition("SpanName starts with POST");
    await expectSameAsApi([{ name: "SpanName", op: "prefix", value: "POST" }]);
  });

  test("by a number, written as a duration", async () => {
    await openSearch();
    await addCondition("Duration > 100ms");
    await expectSameAsApi([{ name: "Duration", op: "gt", value: 100_000_000 }]);
  });

  test("by a boolean attribute, and by a status code", async () => {
    await openSearch();
    await addCondition("app.order.express = true");
    await addCondition("http.response.status_code >= 500");
    await expectSameAsApi([
      { map: "SpanAttributes", name: "app.order.express", op: "eq", value: true },
      { map: "SpanAttributes", name: "http.response.status_code", op: "gte", value: 500 },
    ]);
  });

  test("by an element of a list", async () => {
    await openSearch();
    await addCondition("Events.Name has exception");
    await expectSameAsApi([{ name: "Events.Name", op: "has", value: "exception" }]);
  });

  test("by existence, selected from the suggestions with the keyboard alone", async () => {
    await openSearch();
    const { page } = visitor;
    // On a fresh page, the keyboard shortcut focuses the search entry.
    await page.getByRole("heading", { name: "Search", level: 1 }).click();
    await page.keyboard.press("/");
    await page.keyboard.type("tenant.id");
    await waitUntilVisible(page.getByRole("option", { name: /tenant\.id/ }));
    await page.keyboard.press("Enter");
    await page.keyboard.type("exi");
    await waitUntilVisible(page.getByRole("option", { name: /exists/ }));
    await page.keyboard.press("Enter");
    await waitUntilIdle(page);
    await expectSameAsApi([{ map: "SpanAttributes", name: "tenant.id", op: "exists" }]);
  });
});

describe("a search", () => {
  test("is in the URL: another user finds the same with the link", async () => {
    await openSearch();
    await addCondition(`ServiceName = ${services[0]}`);
    const foundIds = await resultIds(visitor.page);
    const other = await newVisitor("with the link");
    await other.page.goto(visitor.page.url());
    await other.page.getByLabel("User name", { exact: true }).fill(READER);
    await other.page.getByLabel("Password", { exact: true }).fill(OWN_PASSWORD);
    await other.page.getByRole("button", { name: "Sign in" }).click();
    await other.page.waitForURL((url) => url.searchParams.has("where"));
    await waitUntilIdle(other.page);
    const links = other.page.getByRole("table", { name: "Traces found" }).getByRole("row").getByRole("link");
    expect(await links.count()).toBe(foundIds.length);
    await other.context.close();
  });

  test("is copied as an equivalent tool call", async () => {
    await openSearch();
    await addCondition(`ServiceName = ${services[0]}`);
    const conditions = [{ name: "ServiceName", op: "eq", value: services[0] }];
    expect(await copyToolCall(visitor.page)).toEqual({
      name: "svc_query_traces",
      arguments: { conditions, from: iso(RANGE_START), to: iso(RANGE_END) },
    });
    // A relative range stays relative: a later call searches the time before that call.
    await visitor.page.goto(pagePath("/search?last=24h"));
    await waitUntilIdle(visitor.page);
    expect(await copyToolCall(visitor.page)).toEqual({
      name: "svc_query_traces",
      arguments: { conditions: [], last: "1d" },
    });
  });

  test("that is invalid shows an error, and keeps the typed text", async () => {
    await openSearch();
    await entry().fill("Duration > soon");
    await visitor.page.keyboard.press("Enter");
    await waitUntilVisible(visitor.page.getByRole("alert"));
    expect(
      await visitor.page.getByRole("combobox").or(visitor.page.getByRole("textbox")).first().inputValue(),
    ).toBe("Duration > soon");
  });

  test("without results shows a notice", async () => {
    await visitor.page.goto(pagePath("/search?last=1s"));
    await waitUntilIdle(visitor.page);
    await waitUntilVisible(visitor.page.getByRole("heading", { name: /Nothing found/ }));
  });

  test("suggests values from the visible traces", async () => {
    await openSearch();
    await entry().fill("ServiceName = ");
    await waitUntilVisible(visitor.page.getByRole("option", { name: services[0] ?? "" }));
    await visitor.page.keyboard.press("Escape");
  });
});
