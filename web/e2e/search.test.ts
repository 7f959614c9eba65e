import { beforeAll, describe, expect, test } from "vitest";
import { type Visitor, visitor } from "./browser";
import { at, copiedCall, listed, logIn, quiet, shown } from "./pages";
import { EVERYTHING, ensureSetUp, person, READER } from "./service";
import { OWN_PASSWORD, type Session } from "./session";

/** A day that ends now, in whole seconds, so that the page and the API use the same window. */
const TO = new Date(Math.floor(Date.now() / 1000) * 1000);
const FROM = new Date(TO.getTime() - 24 * 3_600_000);
const iso = (date: Date) => date.toISOString().replace(".000Z", "Z");

let reader: Session;
let visit: Visitor;
let services: string[];

beforeAll(async () => {
  const admin = await ensureSetUp();
  reader = await person(admin, READER, [EVERYTHING]);
  const { values } = await reader.call<{ values: { value: string }[] }>(
    "GET",
    "/filter/values?ref=ServiceName&limit=10",
  );
  services = values.map(({ value }) => value).filter((value) => /^[\w-]+$/.test(value));
  visit = await visitor("searching");
  await logIn(visit.page, READER);
});

const open = async (query = "") => {
  await visit.page.goto(at(`/search?from=${iso(FROM)}&to=${iso(TO)}${query}`));
  await quiet(visit.page);
};

const entry = () =>
  visit.page
    .getByRole("combobox", { name: "Add a condition" })
    .or(visit.page.getByRole("textbox", { name: "Add a condition" }))
    .first();

/** Types a condition in full, and waits for the results. */
async function add(condition: string): Promise<void> {
  await entry().fill(condition);
  await visit.page.keyboard.press("Enter");
  await expect.poll(() => entry().inputValue()).toBe("");
  await quiet(visit.page);
}

/** Ids of the traces that the API returns, in order. */
async function answered(conditions: unknown[], session = reader): Promise<string[]> {
  const { traces } = await session.call<{ traces: { trace_id: string }[] }>("POST", "/traces/query", {
    view: "summary",
    limit: 200,
    from: iso(FROM),
    to: iso(TO),
    filter: { conditions },
  });
  return traces.map(({ trace_id }) => trace_id);
}

async function agrees(conditions: unknown[]): Promise<void> {
  const all = await answered(conditions);
  expect(all.length).toBeGreaterThan(0);
  const shown = await listed(visit.page);
  expect(shown.length).toBeGreaterThanOrEqual(Math.min(all.length, 20));
  expect(shown).toEqual(all.slice(0, shown.length));
}

describe("a search finds the traces that the API returns", () => {
  test("without conditions", async () => {
    await open();
    await agrees([]);
  });

  test("by an equal text", async () => {
    await open();
    await add(`ServiceName = ${services[0]}`);
    await agrees([{ name: "ServiceName", op: "eq", value: services[0] }]);
  });

  test("by one of several texts", async () => {
    await open();
    await add(`ServiceName in ${services[1]}, ${services[2]}`);
    await agrees([{ name: "ServiceName", op: "in", values: [services[1], services[2]] }]);
  });

  test("by a prefix", async () => {
    await open();
    await add("SpanName starts with POST");
    await agrees([{ name: "SpanName", op: "prefix", value: "POST" }]);
  });

  test("by a number, written as a duration", async () => {
    await open();
    await add("Duration > 100ms");
    await agrees([{ name: "Duration", op: "gt", value: 100_000_000 }]);
  });

  test("by a boolean attribute, and by a status code", async () => {
    await open();
    await add("app.order.express = true");
    await add("http.response.status_code >= 500");
    await agrees([
      { map: "SpanAttributes", name: "app.order.express", op: "eq", value: true },
      { map: "SpanAttributes", name: "http.response.status_code", op: "gte", value: 500 },
    ]);
  });

  test("by an element of a list", async () => {
    await open();
    await add("Events.Name has exception");
    await agrees([{ name: "Events.Name", op: "has", value: "exception" }]);
  });

  test("by existence, selected from the suggestions with the keyboard alone", async () => {
    await open();
    const { page } = visit;
    // On a fresh page, the keyboard shortcut focuses the search entry.
    await page.getByRole("heading", { name: "Search", level: 1 }).click();
    await page.keyboard.press("/");
    await page.keyboard.type("tenant.id");
    await shown(page.getByRole("option", { name: /tenant\.id/ }));
    await page.keyboard.press("Enter");
    await page.keyboard.type("exi");
    await shown(page.getByRole("option", { name: /exists/ }));
    await page.keyboard.press("Enter");
    await quiet(page);
    await agrees([{ map: "SpanAttributes", name: "tenant.id", op: "exists" }]);
  });
});

describe("a search", () => {
  test("is in the URL: another user finds the same with the link", async () => {
    await open();
    await add(`ServiceName = ${services[0]}`);
    const found = await listed(visit.page);
    const other = await visitor("with the link");
    await other.page.goto(visit.page.url());
    await other.page.getByLabel("User name", { exact: true }).fill(READER);
    await other.page.getByLabel("Password", { exact: true }).fill(OWN_PASSWORD);
    await other.page.getByRole("button", { name: "Sign in" }).click();
    await other.page.waitForURL((url) => url.searchParams.has("where"));
    await quiet(other.page);
    const links = other.page.getByRole("table", { name: "Traces found" }).getByRole("row").getByRole("link");
    expect(await links.count()).toBe(found.length);
    await other.context.close();
  });

  test("is copied as an equivalent tool call", async () => {
    await open();
    await add(`ServiceName = ${services[0]}`);
    const conditions = [{ name: "ServiceName", op: "eq", value: services[0] }];
    expect(await copiedCall(visit.page)).toEqual({
      name: "svc_query_traces",
      arguments: { conditions, from: iso(FROM), to: iso(TO) },
    });
    // A relative range stays relative: a later call searches the time before that call.
    await visit.page.goto(at("/search?last=24h"));
    await quiet(visit.page);
    expect(await copiedCall(visit.page)).toEqual({
      name: "svc_query_traces",
      arguments: { conditions: [], last: "1d" },
    });
  });

  test("that is invalid shows an error, and keeps the typed text", async () => {
    await open();
    await entry().fill("Duration > soon");
    await visit.page.keyboard.press("Enter");
    await shown(visit.page.getByRole("alert"));
    expect(
      await visit.page.getByRole("combobox").or(visit.page.getByRole("textbox")).first().inputValue(),
    ).toBe("Duration > soon");
  });

  test("without results shows a notice", async () => {
    await visit.page.goto(at("/search?last=1s"));
    await quiet(visit.page);
    await shown(visit.page.getByRole("heading", { name: /Nothing found/ }));
  });

  test("suggests values from the visible traces", async () => {
    await open();
    await entry().fill("ServiceName = ");
    await shown(visit.page.getByRole("option", { name: services[0] ?? "" }));
    await visit.page.keyboard.press("Escape");
  });
});
