import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { newVisitor, type Visitor } from "./browser";
import { environment } from "./environment";
import { clipboard, pagePath, signIn, waitUntilIdle, waitUntilVisible } from "./pages";
import { EVERYTHING, ensureSetUp, ensureUser, READER } from "./service";
import type { Session } from "./session";

const { clickhouseUrl, clickhousePassword, trace10k } = environment();

interface Span {
  TraceId: string;
  SpanId: string;
  ParentSpanId: string;
  SpanName: string;
  ServiceName: string;
  StatusCode: string;
  Duration: number;
  SpanAttributes: Record<string, string>;
}

let reader: Session;
let visitor: Visitor;
let id: string;
let spans: Span[];

beforeAll(async () => {
  const admin = await ensureSetUp();
  reader = await ensureUser(admin, READER, [EVERYTHING]);
  const { traces } = await reader.call<{
    traces: { trace_id: string; error_count: number; span_count: number; root_name: string }[];
  }>("POST", "/traces/query", {
    view: "summary",
    limit: 200,
    filter: { conditions: [{ name: "StatusCode", op: "eq", value: "Error" }] },
  });
  const candidate = traces.find(
    ({ error_count, span_count, root_name }) =>
      error_count > 1 && span_count > 10 && span_count < 100 && !root_name.includes("<"),
  );
  if (candidate === undefined) {
    throw new Error("ClickHouse has no trace with several spans and errors");
  }
  id = candidate.trace_id;
  ({ spans } = await reader.call<{ spans: Span[] }>("GET", `/traces/${id}`));
  visitor = await newVisitor("looking at a trace");
  await signIn(visitor.page, READER);
});

const grid = (page: Page = visitor.page) => page.getByRole("treegrid", { name: "Spans" });
const currentRow = () => grid().getByRole("row", { selected: true });
const rowCount = async () => Number(await grid().getAttribute("aria-rowcount")) - 1;

const openTrace = async () => {
  await visitor.page.goto(pagePath(`/trace/${id}`));
  await waitUntilIdle(visitor.page);
  await grid().focus();
};

describe("the waterfall", () => {
  test("shows every span in ClickHouse", async () => {
    await openTrace();
    const response = await fetch(`${clickhouseUrl}/`, {
      method: "POST",
      headers: { "X-ClickHouse-User": "default", "X-ClickHouse-Key": clickhousePassword },
      body: `SELECT count() FROM otel.otel_traces WHERE TraceId = '${id}'`,
    });
    const count = Number(await response.text());
    expect(count).toBe(spans.length);
    expect(await rowCount()).toBe(count);
  });

  test("shows at least 28 spans in a window of 1440 × 900, and 10 at a zoom of 200 %", async () => {
    const { page } = visitor;
    const before = page.viewportSize();
    const visibleRows = () =>
      grid().evaluate((element) => {
        const { top, bottom } = element.getBoundingClientRect();
        const scale = element.querySelector("[role=row]")?.getBoundingClientRect();
        return [...element.querySelectorAll("[id^=span-]")].filter((row) => {
          const box = row.getBoundingClientRect();
          const from = Math.max(0, top, scale?.bottom ?? 0);
          return box.top >= from - 1 && box.bottom <= Math.min(bottom, window.innerHeight) + 1;
        }).length;
      });
    const openLarge = async (width: number, height: number) => {
      await page.setViewportSize({ width, height });
      await page.goto(pagePath(`/trace/${trace10k}`));
      await waitUntilIdle(page);
    };
    await openLarge(1440, 900);
    expect(await visibleRows()).toBeGreaterThanOrEqual(28);
    await openLarge(720, 450);
    await grid().evaluate((element) => element.scrollIntoView({ block: "end" }));
    expect(await visibleRows()).toBeGreaterThanOrEqual(10);
    await page.setViewportSize(before ?? { width: 1280, height: 720 });
  });

  test("has the sizes and colours of the theme and of its own style sheet", async () => {
    await openTrace();
    const { page } = visitor;
    const styles = await page.evaluate(() => {
      const facts = document.querySelector("header dl");
      const root = getComputedStyle(document.documentElement);
      return {
        factSize: facts === null ? "" : getComputedStyle(facts).fontSize,
        small: root.getPropertyValue("--mantine-font-size-sm"),
        hasOutline: document.querySelector(".outline") !== null,
      };
    });
    // The component library's are 14 px.
    expect(styles).toEqual({
      factSize: "13px",
      small: expect.stringContaining("0.8125rem"),
      hasOutline: false,
    });
    const [tag, size] = await page
      .getByRole("treegrid", { name: "Spans" })
      .locator("[role=row] [role=gridcell]")
      .first()
      .evaluate((cell) => [cell.tagName, getComputedStyle(cell).fontSize]);
    expect([tag, size]).toEqual(["DIV", "13px"]);
  });

  test("gives each service its own colour", async () => {
    // On other pages, these two have one hue.
    const isService = (value: string) => ({ name: "ServiceName", op: "eq", value });
    const { traces } = await reader.call<{ traces: { trace_id: string }[] }>("POST", "/traces/query", {
      view: "summary",
      limit: 1,
      filter: { conditions: [isService("inventory"), isService("shipping")] },
    });
    await visitor.page.goto(pagePath(`/trace/${traces[0]?.trace_id}`));
    await waitUntilIdle(visitor.page);
    const colours = await visitor.page
      .getByRole("region", { name: "Self time by service" })
      .getByRole("button")
      .evaluateAll((items) =>
        items.map((item) => {
          const dot = item.querySelector("[aria-hidden]");
          return dot === null ? "" : getComputedStyle(dot).backgroundColor;
        }),
      );
    expect(colours.length).toBeGreaterThanOrEqual(2);
    expect(new Set(colours).size).toBe(colours.length);
  });

  test("is navigated with the keyboard", async () => {
    await openTrace();
    const { page } = visitor;
    const root = await currentRow().innerText();
    await page.keyboard.press("ArrowDown");
    await expect.poll(() => currentRow().innerText()).not.toBe(root);
    await page.keyboard.press("k");
    await expect.poll(() => currentRow().innerText()).toBe(root);
    await page.keyboard.press("End");
    await expect.poll(() => currentRow().getAttribute("aria-rowindex")).toBe(String((await rowCount()) + 1));
    await page.keyboard.press("Home");
    await expect.poll(() => currentRow().getAttribute("aria-rowindex")).toBe("2");
  });

  test("exposes the current row to screen readers", async () => {
    const active = await grid().getAttribute("aria-activedescendant");
    expect(await currentRow().getAttribute("id")).toBe(active);
  });

  test("collapses and expands, by row and by level", async () => {
    await openTrace();
    const { page } = visitor;
    const allRows = await rowCount();
    await page.keyboard.press("ArrowLeft");
    await expect.poll(rowCount).toBe(1);
    expect(await currentRow().getAttribute("aria-expanded")).toBe("false");
    await waitUntilVisible(currentRow().getByText(`${allRows - 1} more`));
    await page.keyboard.press("ArrowRight");
    await expect.poll(rowCount).toBe(allRows);
    await page.keyboard.press("c");
    await expect.poll(rowCount).toBeLessThan(allRows);
    await page.keyboard.press("x");
    await expect.poll(rowCount).toBe(allRows);
    await page.getByRole("button", { name: "Collapse one level" }).click();
    await expect.poll(rowCount).toBeLessThan(allRows);
  });

  test("moves between errors", async () => {
    await openTrace();
    const { page } = visitor;
    const error = () => currentRow().getByRole("img", { name: "Error" }).count();
    const matchPosition = async () => Number(await currentRow().getAttribute("aria-rowindex"));
    await page.keyboard.press("e");
    await expect.poll(error).toBe(1);
    const first = await matchPosition();
    await page.keyboard.press("e");
    await expect.poll(matchPosition).not.toBe(first);
    expect(await error()).toBe(1);
    await page.keyboard.press("Shift+E");
    await expect.poll(matchPosition).toBe(first);
    await page.getByRole("button", { name: "Next error" }).click();
    await expect.poll(matchPosition).not.toBe(first);
  });

  test("moves to an error inside a collapsed span", async () => {
    await openTrace();
    await visitor.page.keyboard.press("ArrowLeft");
    await expect.poll(rowCount).toBe(1);
    await visitor.page.keyboard.press("e");
    await expect.poll(() => currentRow().getByRole("img", { name: "Error" }).count()).toBe(1);
  });

  test("finds spans by name and by id", async () => {
    await openTrace();
    const { page } = visitor;
    const wantedSpan = spans.find(({ ParentSpanId }) => ParentSpanId !== "") ?? spans[0];
    await page.keyboard.press("/");
    const field = page.getByRole("textbox", { name: "Find in this trace" });
    await expect.poll(() => field.evaluate((element) => element === document.activeElement)).toBe(true);
    await page.keyboard.type(wantedSpan?.SpanId ?? "");
    await page.keyboard.press("Enter");
    await waitUntilVisible(page.getByRole("status").filter({ hasText: "1 of 1" }));
    await expect.poll(() => currentRow().innerText()).toContain(wantedSpan?.SpanName);
    await field.fill(wantedSpan?.SpanName ?? "");
    const matchingSpans = spans.filter((span) => span.SpanName.includes(wantedSpan?.SpanName ?? "")).length;
    // The text search includes attributes, so that at least the spans of that name match.
    const shownText = page.getByRole("toolbar", { name: "Trace" }).getByRole("status");
    await expect
      .poll(async () => Number(/\d+$/.exec(await shownText.innerText())?.[0] ?? 0))
      .toBeGreaterThanOrEqual(matchingSpans);
  });

  test("opens a span's details, which are in the URL", async () => {
    await openTrace();
    const { page } = visitor;
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    const panel = page.getByRole("region", { name: "Span details" });
    await waitUntilVisible(panel);
    await page.waitForURL((url) => url.searchParams.has("span"));
    // An id that consists of digits is quoted in the URL.
    const shownId = (new URL(page.url()).searchParams.get("span") ?? "").replaceAll('"', "");
    const span = spans.find(({ SpanId }) => SpanId === shownId);
    expect(span).toBeDefined();
    await waitUntilVisible(panel.getByRole("heading", { name: span?.SpanName ?? "" }));
    for (const [key, value] of Object.entries(span?.SpanAttributes ?? {}).slice(0, 3)) {
      await waitUntilVisible(panel.getByText(key, { exact: true }));
      await waitUntilVisible(panel.getByText(value, { exact: true }));
    }
    await page.reload();
    await waitUntilIdle(page);
    await waitUntilVisible(panel.getByRole("heading", { name: span?.SpanName ?? "" }));
    await page.keyboard.press("Escape");
    await expect.poll(() => panel.count()).toBe(0);
  });

  test("leads to another page right after a key, before that changed the URL", async () => {
    const { page } = visitor;
    // The next page loads for longer than the change of the URL is delayed.
    const code = "**/SearchPage-*.js";
    await page.route(code, async (route) => {
      await page.waitForTimeout(1_000);
      await route.continue();
    });
    await openTrace();
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: "Search", exact: true }).first().click();
    await page.waitForURL((url) => url.pathname.endsWith("/search"));
    await waitUntilIdle(page);
    await waitUntilVisible(page.getByRole("heading", { name: "Search", level: 1 }));
    await page.unroute(code);
  });

  test("zooms", async () => {
    await openTrace();
    const { page } = visitor;
    const overview = () => page.getByRole("img", { name: /^Overview/ }).getAttribute("aria-label");
    expect(await overview()).toContain("the whole trace");
    await page.keyboard.press("+");
    await expect.poll(overview).not.toContain("the whole trace");
    await page.keyboard.press("0");
    await expect.poll(overview).toContain("the whole trace");
  });
});

describe("other views", () => {
  test("flame graph, and spans by operation", async () => {
    await openTrace();
    const { page } = visitor;
    await page.getByRole("radio", { name: "Waterfall" }).focus();
    await page.keyboard.press("ArrowRight");
    await waitUntilVisible(page.getByRole("application", { name: /^Flame/ }));
    await page.getByRole("radio", { name: "Flame" }).focus();
    await page.keyboard.press("ArrowRight");
    const operations = page.getByRole("table", { name: "Operations" });
    await waitUntilVisible(operations);
    const names = new Set(spans.map(({ ServiceName, SpanName }) => `${ServiceName} ${SpanName}`));
    expect(await operations.getByRole("row").count()).toBe(names.size + 1);
    // Finding text shows the operations with matches only, and how many.
    const service = spans[0]?.ServiceName ?? "";
    const ofService = spans.filter(({ ServiceName }) => ServiceName === service);
    await page.getByRole("textbox", { name: /^Find/ }).or(page.getByRole("searchbox")).first().fill(service);
    await waitUntilVisible(operations.getByRole("columnheader", { name: "Matches" }));
    const operationsOfService = new Set(ofService.map(({ SpanName }) => SpanName)).size;
    const rows = operations.getByRole("row");
    await expect.poll(() => rows.count()).toBeGreaterThanOrEqual(operationsOfService + 1);
    expect(await rows.count()).toBeLessThan(names.size + 1);
  });
});

describe("copies", () => {
  test("a tool call that reads the same trace", async () => {
    await openTrace();
    const { page } = visitor;
    await page.getByRole("button", { name: "MCP call" }).click();
    await expect.poll(() => clipboard(page)).toContain("svc_get_trace");
    expect(JSON.parse(await clipboard(page))).toEqual({
      name: "svc_get_trace",
      arguments: { trace_id: id },
    });
  });
});

describe("exports", () => {
  const exported = async (item: RegExp | string) => {
    const { page } = visitor;
    await page.getByRole("button", { name: "Export" }).click();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("menuitem", { name: item }).click(),
    ]);
    const folder = await mkdtemp(join(tmpdir(), "tracewarden-export-"));
    const path = join(folder, "exported");
    await download.saveAs(path);
    const text = await readFile(path, "utf8");
    await rm(folder, { recursive: true });
    return { name: download.suggestedFilename(), text };
  };

  test("JSON, as returned by the API", async () => {
    await openTrace();
    const { name, text } = await exported(/^JSON/);
    expect(name).toBe(`trace-${id}.json`);
    const { spans, ...rest } = await reader.call<{ spans: Span[] }>("GET", `/traces/${id}`);
    const { spans: candidate, ...foundRest } = JSON.parse(text) as { spans: Span[] };
    expect(foundRest).toEqual(rest);
    const byId = (a: Span, b: Span) => a.SpanId.localeCompare(b.SpanId);
    expect(candidate.toSorted(byId)).toEqual(spans.toSorted(byId));
  });

  test("OTLP JSON, with every span", async () => {
    const { name, text } = await exported("OTLP JSON");
    expect(name).toBe(`trace-${id}.otlp.json`);
    const { resourceSpans } = JSON.parse(text) as { resourceSpans: OtlpResource[] };
    const candidate = resourceSpans.flatMap(({ resource, scopeSpans }) =>
      scopeSpans.flatMap(({ spans }) => spans.map((span) => ({ span, resource }))),
    );
    expect(candidate.map(({ span }) => span.spanId).sort()).toEqual(spans.map(({ SpanId }) => SpanId).sort());
    for (const { span, resource } of candidate) {
      const stored = spans.find(({ SpanId }) => SpanId === span.spanId);
      expect(span.traceId).toBe(id);
      expect(span.name).toBe(stored?.SpanName);
      expect(span.parentSpanId ?? "").toBe(stored?.ParentSpanId);
      expect(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano)).toBe(
        BigInt(stored?.Duration ?? -1),
      );
      expect(span.status?.code ?? 0).toBe({ Error: 2, Ok: 1, Unset: 0 }[stored?.StatusCode ?? ""]);
      const service = resource.attributes.find(({ key }) => key === "service.name");
      expect(service?.value).toEqual({ stringValue: stored?.ServiceName });
    }
  });
});

interface OtlpResource {
  resource: { attributes: { key: string; value: unknown }[] };
  scopeSpans: {
    spans: {
      traceId: string;
      spanId: string;
      parentSpanId?: string;
      name: string;
      startTimeUnixNano: string;
      endTimeUnixNano: string;
      status?: { code?: number };
    }[];
  }[];
}
