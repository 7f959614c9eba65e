import { beforeAll, describe, expect, test } from "vitest";
import { newVisitor, type Visitor } from "./browser";
import {
  copyText,
  copyToolCall,
  pagePath,
  resultIds,
  signIn,
  waitUntilIdle,
  waitUntilVisible,
} from "./pages";
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
async function apiIds(filter: object, session = reader, order = "newest"): Promise<string[]> {
  const { traces } = await session.call<{ traces: { trace_id: string }[] }>("POST", "/traces/query", {
    view: "summary",
    limit: 200,
    from: iso(RANGE_START),
    to: iso(RANGE_END),
    filter,
    order,
  });
  return traces.map(({ trace_id }) => trace_id);
}

async function expectSameAsApi(conditions: unknown[], more: object = {}): Promise<void> {
  const allIds = await apiIds({ conditions, ...more });
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

  test("by exclusion of a service, typed or with one click", async () => {
    const isFirst = { name: "ServiceName", op: "eq", value: services[1] };
    await openSearch();
    await addCondition(`not ServiceName = ${services[1]}`);
    await expectSameAsApi([], { none: [isFirst] });
    await openSearch();
    await addCondition(`ServiceName = ${services[1]}`);
    const exclude = visitor.page.getByRole("button", {
      name: `Exclude traces with ServiceName = ${services[1]}`,
    });
    await exclude.click();
    await waitUntilIdle(visitor.page);
    await expectSameAsApi([], { none: [isFirst] });
    expect(await exclude.getAttribute("aria-pressed")).toBe("true");
    await exclude.click();
    await waitUntilIdle(visitor.page);
    await expectSameAsApi([isFirst]);
  });

  test("by conditions that one span satisfies together", async () => {
    const group = [
      { name: "ServiceName", op: "eq", value: services[1] },
      { name: "Duration", op: "gt", value: 1_000_000 },
    ];
    await openSearch();
    await addCondition(`(ServiceName = ${services[1]} and Duration > 1ms)`);
    await expectSameAsApi([], { same_span: [group] });
    // The suggestions help inside the brackets, too.
    await openSearch();
    await entry().fill("(ServiceName = ");
    await visitor.page
      .getByRole("option", { name: services[1] ?? "", exact: false })
      .first()
      .click();
    await entry().press("End");
    await entry().pressSequentially("and Duration > 1ms)");
    await visitor.page.keyboard.press("Enter");
    await waitUntilIdle(visitor.page);
    await expectSameAsApi([], { same_span: [group] });
  });

  test("by an element of a list", async () => {
    await openSearch();
    await addCondition("Events.Name has exception");
    await expectSameAsApi([{ name: "Events.Name", op: "has", value: "exception" }]);
  });

  test("in another order: of all traces, not only of the loaded ones", async () => {
    await openSearch();
    const { page } = visitor;
    const order = page.getByRole("combobox", { name: "Order of the results" });
    await order.selectOption("Longest first");
    await waitUntilIdle(page);
    const longest = await apiIds({}, reader, "longest");
    expect(longest).not.toEqual(await apiIds({}));
    const shownIds = await resultIds(page);
    expect(shownIds).toEqual(longest.slice(0, shownIds.length));
    await waitUntilVisible(page.getByText(`Showing the ${shownIds.length} longest; more available`));
    await page.getByRole("button", { name: "Load more" }).click();
    await waitUntilIdle(page);
    expect(await resultIds(page)).toEqual(longest.slice(0, 2 * shownIds.length));
    // A column header selects the order too, and the URL keeps it.
    await page.getByRole("columnheader", { name: "Errors" }).getByRole("button").click();
    await waitUntilIdle(page);
    expect(new URL(page.url()).searchParams.get("sort")).toBe("errors");
    const mostErrors = await apiIds({}, reader, "most_errors");
    expect(await resultIds(page)).toEqual(mostErrors.slice(0, shownIds.length));
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

  test("opens a pasted trace id, UUID, traceparent or link with one Enter", async () => {
    const { page } = visitor;
    await openSearch();
    const id = (await resultIds(page))[0] ?? "";
    const uuid = id.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
    for (const text of [
      id,
      uuid,
      `00-${id}-0123456789abcdef-01`,
      new URL(`${pagePath("/trace/")}${id}`, page.url()).href,
    ]) {
      await openSearch();
      await entry().fill(text);
      await page.keyboard.press("Enter");
      await page.waitForURL((url) => url.pathname.includes("/trace/"));
      await waitUntilVisible(page.getByText(id).first());
    }
  });

  test("starts from a value of a span, with one click", async () => {
    const { page } = visitor;
    await openSearch();
    await addCondition(`ServiceName = ${services[1]}`);
    const id = (await resultIds(page))[0] ?? "";
    for (const without of [false, true]) {
      await page.goto(pagePath(`/trace/${id}`));
      await page.getByRole("treegrid", { name: "Spans" }).focus();
      await page.keyboard.press("Enter");
      const panel = page.getByRole("region", { name: "Span details" });
      const label = without ? /^Search, excluding traces with ServiceName = / : /^Search for ServiceName = /;
      const link = panel.getByRole("link", { name: label });
      const service = ((await link.getAttribute("aria-label")) ?? "").replace(/^.* = /, "");
      await link.click();
      await waitUntilIdle(page);
      const name = `Edit condition ${without ? "not " : ""}ServiceName = ${service}`;
      await page.getByRole("button", { name, exact: true }).waitFor();
      const isService = { name: "ServiceName", op: "eq", value: service };
      const body = without ? { conditions: [], none: [isService] } : { conditions: [isService] };
      expect((await resultIds(page)).slice(0, 5)).toEqual((await apiIds(body)).slice(0, 5));
    }
  });

  test("of a bare word takes the best suggestion, without waiting for it", async () => {
    await openSearch();
    const service = services[1] ?? "";
    await entry().pressSequentially(service.toUpperCase());
    await visitor.page.keyboard.press("Enter");
    await visitor.page.getByRole("button", { name: `Edit condition ServiceName = ${service}` }).waitFor();
    await waitUntilIdle(visitor.page);
    await expectSameAsApi([{ name: "ServiceName", op: "eq", value: service }]);
    await openSearch();
    await entry().fill("error");
    await waitUntilVisible(visitor.page.getByRole("option", { name: /^StatusCode = Error/ }));
    await visitor.page.keyboard.press("Enter");
    await waitUntilIdle(visitor.page);
    await expectSameAsApi([{ name: "StatusCode", op: "eq", value: "Error" }]);
    await openSearch();
    await entry().fill("nothing-has-this-value");
    await visitor.page.keyboard.press("Enter");
    await waitUntilVisible(visitor.page.getByRole("alert"));
  });

  test("shows at least 20 results in a window of 1440 × 900", async () => {
    const { page } = visitor;
    const before = page.viewportSize();
    await page.setViewportSize({ width: 1440, height: 900 });
    await openSearch();
    const boxes = await page
      .getByRole("table", { name: "Traces found" })
      .locator("tbody tr")
      .evaluateAll((rows) => rows.map((row) => row.getBoundingClientRect().bottom));
    expect(boxes.filter((bottom) => bottom <= 900).length).toBeGreaterThanOrEqual(20);
    await page.setViewportSize(before ?? { width: 1280, height: 720 });
  });

  test("that fails keeps the earlier results, and is tried again by itself", async () => {
    const { page } = visitor;
    await openSearch();
    const earlier = await resultIds(page);
    await page.route("**/traces/query", (route) => route.abort());
    await entry().fill(`ServiceName = ${services[1]}`);
    await page.keyboard.press("Enter");
    await waitUntilVisible(page.getByText("The search failed; showing the results of the previous search"));
    expect(await resultIds(page)).toEqual(earlier);
    await page.unroute("**/traces/query");
    await page.getByText("Retrying automatically.").waitFor({ state: "detached" });
    await waitUntilIdle(page);
    await expectSameAsApi([{ name: "ServiceName", op: "eq", value: services[1] }]);
  });

  test("has a histogram of the whole range, which selects a part of it", async () => {
    const { page } = visitor;
    await openSearch();
    const chart = page.getByRole("img", { name: "Traces over time" });
    await waitUntilVisible(chart);
    const stats = await reader.call<{ total: { traces: number; errors: number } }>("POST", "/traces/stats", {
      from: iso(RANGE_START),
      to: iso(RANGE_END),
      per: "trace",
    });
    const [traces, errors] = [stats.total.traces, stats.total.errors].map((count) =>
      count.toLocaleString("en"),
    );
    await waitUntilVisible(page.getByText(`${traces} traces, ${errors} with errors`));
    const box = await chart.boundingBox();
    if (box === null) {
      throw new Error("the histogram has no size");
    }
    await page.mouse.move(box.x + box.width * 0.5, box.y + 20);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.8, box.y + 20, { steps: 5 });
    await page.mouse.up();
    await waitUntilVisible(page.getByRole("button", { name: /^Back to/ }));
    const { searchParams } = new URL(page.url());
    const [from, to] = [searchParams.get("from"), searchParams.get("to")].map((time) =>
      Date.parse(time ?? ""),
    );
    expect(from).toBeGreaterThan(RANGE_START.getTime());
    expect(to).toBeLessThan(RANGE_END.getTime());
    await waitUntilIdle(page);
  });

  test("counts the values of fields over all traces, and searches for one with a click", async () => {
    const { page } = visitor;
    const before = page.viewportSize();
    await page.setViewportSize({ width: 1440, height: 900 });
    await openSearch();
    const [facet] = await reader
      .call<{ facets: { values: { value: string; traces: number }[] }[] }>("POST", "/traces/stats", {
        from: iso(RANGE_START),
        to: iso(RANGE_END),
        per: "trace",
        facets: ["ServiceName"],
      })
      .then(({ facets }) => facets);
    const first = facet?.values[0];
    if (first === undefined) {
      throw new Error("there is no service");
    }
    const section = page.getByRole("region", { name: "ServiceName" });
    const value = section.getByRole("button", {
      name: `${first.value} ${first.traces.toLocaleString("en")}`,
    });
    await value.click();
    await waitUntilIdle(page);
    await expectSameAsApi([{ name: "ServiceName", op: "eq", value: first.value }]);
    // A second click takes it back; the other button excludes it.
    await section.getByRole("button", { name: new RegExp(`^${first.value} `), pressed: true }).click();
    await waitUntilIdle(page);
    await section.getByRole("button", { name: `Exclude ${first.value}` }).click();
    await waitUntilIdle(page);
    expect(new URL(page.url()).searchParams.get("where")).toContain("not ");
    await page.setViewportSize(before ?? { width: 1280, height: 720 });
  });

  test("is shared as a link to the same time range", async () => {
    const { page } = visitor;
    await page.goto(pagePath("/search?last=24h"));
    await waitUntilIdle(page);
    const found = await resultIds(page);
    const link = await copyText(page, async () => {
      await page.getByRole("button", { name: "Share" }).click();
      await page.getByRole("menuitem", { name: "Link with this time range" }).click();
    });
    expect(new URL(link).searchParams.has("last")).toBe(false);
    await page.goto(link);
    await waitUntilIdle(page);
    expect(await resultIds(page)).toEqual(found);
  });

  test("with an invalid range in the link is reported once, and searches nothing", async () => {
    const { page } = visitor;
    for (const [query, text] of [
      ["last=abc", "“abc” in the link is not a length of time"],
      ["from=2026-11-21T10:00:00Z&to=2026-11-21T09:00:00Z", "must end after it starts"],
    ]) {
      await page.goto(pagePath(`/search?${query}`));
      await waitUntilVisible(page.getByText("This search is invalid"));
      expect(await page.getByText(text ?? "").count()).toBe(1);
      expect(await page.getByRole("table", { name: "Traces found" }).count()).toBe(0);
      await page.getByRole("button", { name: /^Search the last/ }).click();
      await waitUntilIdle(page);
      expect(await page.getByText("This search is invalid").count()).toBe(0);
    }
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

  test("shows the operations of all traces found, and leads to the traces of one", async () => {
    const { page } = visitor;
    await openSearch(`&where=${encodeURIComponent(`ServiceName = ${services[1]}`)}`);
    await page.getByRole("radiogroup", { name: "Results" }).getByText("Operations").click();
    const table = page.getByRole("table", { name: "Operations of the matching traces" });
    await waitUntilVisible(table);
    await waitUntilIdle(page);
    const byMeasure = (measure: string) =>
      reader.call<{ groups: { values: [string, string]; spans: number; errors: number }[] }>(
        "POST",
        "/traces/stats",
        {
          from: iso(RANGE_START),
          to: iso(RANGE_END),
          filter: { conditions: [{ name: "ServiceName", op: "eq", value: services[1] }] },
          per: "span",
          group_by: ["ServiceName", "SpanName"],
          measure,
          limit: 100,
        },
      );
    const rows = () =>
      table
        .locator("tbody tr")
        .evaluateAll((all) =>
          all.map((row) => [0, 1, 2, 4].map((cell) => row.children[cell]?.textContent?.trim())),
        );
    const asShown = ({ groups }: Awaited<ReturnType<typeof byMeasure>>) =>
      groups.map(({ values, spans, errors }) => [
        ...values,
        spans.toLocaleString("en"),
        errors.toLocaleString("en"),
      ]);
    const byCount = await byMeasure("count");
    expect(byCount.groups.length).toBeGreaterThan(3);
    expect(await rows()).toEqual(asShown(byCount));
    await table.getByRole("button", { name: "Errors" }).click();
    await waitUntilIdle(page);
    expect(await rows()).toEqual(asShown(await byMeasure("errors")));
    const [service, operation] = (await byMeasure("errors")).groups[0]?.values ?? [];
    await table
      .getByRole("button", { name: operation ?? "", exact: true })
      .first()
      .click();
    await waitUntilVisible(page.getByRole("table", { name: "Traces found" }));
    await waitUntilIdle(page);
    await expectSameAsApi([{ name: "ServiceName", op: "eq", value: services[1] }], {
      same_span: [
        [
          { name: "ServiceName", op: "eq", value: service },
          { name: "SpanName", op: "eq", value: operation },
        ],
      ],
    });
  });
});
