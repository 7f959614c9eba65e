import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { type Visitor, visitor } from "./browser";
import { environment } from "./environment";
import { at, clipboard, logIn, quiet, shown } from "./pages";
import { EVERYTHING, ensureSetUp, person, READER } from "./service";
import type { Session } from "./session";

const { storeUrl, storePassword } = environment();

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
let visit: Visitor;
let id: string;
let spans: Span[];

beforeAll(async () => {
  const admin = await ensureSetUp();
  reader = await person(admin, READER, [EVERYTHING]);
  const { traces } = await reader.call<{
    traces: { trace_id: string; error_count: number; span_count: number; root_name: string }[];
  }>("POST", "/traces/query", {
    view: "summary",
    limit: 200,
    filter: { conditions: [{ name: "StatusCode", op: "eq", value: "Error" }] },
  });
  const found = traces.find(
    ({ error_count, span_count, root_name }) =>
      error_count > 1 && span_count > 10 && span_count < 100 && !root_name.includes("<"),
  );
  if (found === undefined) {
    throw new Error("ClickHouse has no trace with several spans and errors");
  }
  id = found.trace_id;
  ({ spans } = await reader.call<{ spans: Span[] }>("GET", `/traces/${id}`));
  visit = await visitor("looking at a trace");
  await logIn(visit.page, READER);
});

const grid = (page: Page = visit.page) => page.getByRole("treegrid", { name: "Spans" });
const current = () => grid().getByRole("row", { selected: true });
const rows = async () => Number(await grid().getAttribute("aria-rowcount")) - 1;

const open = async () => {
  await visit.page.goto(at(`/trace/${id}`));
  await quiet(visit.page);
  await grid().focus();
};

describe("the waterfall", () => {
  test("shows every span in ClickHouse", async () => {
    await open();
    const answer = await fetch(`${storeUrl}/`, {
      method: "POST",
      headers: { "X-ClickHouse-User": "default", "X-ClickHouse-Key": storePassword },
      body: `SELECT count() FROM otel.otel_traces WHERE TraceId = '${id}'`,
    });
    const count = Number(await answer.text());
    expect(count).toBe(spans.length);
    expect(await rows()).toBe(count);
  });

  test("is navigated with the keyboard", async () => {
    await open();
    const { page } = visit;
    const root = await current().innerText();
    await page.keyboard.press("ArrowDown");
    await expect.poll(() => current().innerText()).not.toBe(root);
    await page.keyboard.press("k");
    await expect.poll(() => current().innerText()).toBe(root);
    await page.keyboard.press("End");
    await expect.poll(() => current().getAttribute("aria-rowindex")).toBe(String((await rows()) + 1));
    await page.keyboard.press("Home");
    await expect.poll(() => current().getAttribute("aria-rowindex")).toBe("2");
  });

  test("exposes the current row to screen readers", async () => {
    const active = await grid().getAttribute("aria-activedescendant");
    expect(await current().getAttribute("id")).toBe(active);
  });

  test("collapses and expands, by row and by level", async () => {
    await open();
    const { page } = visit;
    const all = await rows();
    await page.keyboard.press("ArrowLeft");
    await expect.poll(rows).toBe(1);
    expect(await current().getAttribute("aria-expanded")).toBe("false");
    await shown(current().getByText(`${all - 1} more`));
    await page.keyboard.press("ArrowRight");
    await expect.poll(rows).toBe(all);
    await page.keyboard.press("c");
    await expect.poll(rows).toBeLessThan(all);
    await page.keyboard.press("x");
    await expect.poll(rows).toBe(all);
    await page.getByRole("button", { name: "Collapse one level" }).click();
    await expect.poll(rows).toBeLessThan(all);
  });

  test("moves between errors", async () => {
    await open();
    const { page } = visit;
    const error = () => current().getByRole("img", { name: "Error" }).count();
    const place = async () => Number(await current().getAttribute("aria-rowindex"));
    await page.keyboard.press("e");
    await expect.poll(error).toBe(1);
    const first = await place();
    await page.keyboard.press("e");
    await expect.poll(place).not.toBe(first);
    expect(await error()).toBe(1);
    await page.keyboard.press("Shift+E");
    await expect.poll(place).toBe(first);
    await page.getByRole("button", { name: "Next error" }).click();
    await expect.poll(place).not.toBe(first);
  });

  test("moves to an error inside a collapsed span", async () => {
    await open();
    await visit.page.keyboard.press("ArrowLeft");
    await expect.poll(rows).toBe(1);
    await visit.page.keyboard.press("e");
    await expect.poll(() => current().getByRole("img", { name: "Error" }).count()).toBe(1);
  });

  test("finds spans by name and by id", async () => {
    await open();
    const { page } = visit;
    const wanted = spans.find(({ ParentSpanId }) => ParentSpanId !== "") ?? spans[0];
    await page.keyboard.press("/");
    const field = page.getByRole("textbox", { name: "Find in this trace" });
    await expect.poll(() => field.evaluate((element) => element === document.activeElement)).toBe(true);
    await page.keyboard.type(wanted?.SpanId ?? "");
    await page.keyboard.press("Enter");
    await shown(page.getByRole("status").filter({ hasText: "1 of 1" }));
    await expect.poll(() => current().innerText()).toContain(wanted?.SpanName);
    await field.fill(wanted?.SpanName ?? "");
    const named = spans.filter((span) => span.SpanName.includes(wanted?.SpanName ?? "")).length;
    // The text search includes attributes, so that at least the spans of that name match.
    const told = page.getByRole("toolbar", { name: "Trace" }).getByRole("status");
    await expect
      .poll(async () => Number(/\d+$/.exec(await told.innerText())?.[0] ?? 0))
      .toBeGreaterThanOrEqual(named);
  });

  test("opens a span's details, which are in the URL", async () => {
    await open();
    const { page } = visit;
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    const panel = page.getByRole("region", { name: "Span details" });
    await shown(panel);
    await page.waitForURL((url) => url.searchParams.has("span"));
    // An id that consists of digits is quoted in the URL.
    const shownId = (new URL(page.url()).searchParams.get("span") ?? "").replaceAll('"', "");
    const span = spans.find(({ SpanId }) => SpanId === shownId);
    expect(span).toBeDefined();
    await shown(panel.getByRole("heading", { name: span?.SpanName ?? "" }));
    for (const [key, value] of Object.entries(span?.SpanAttributes ?? {}).slice(0, 3)) {
      await shown(panel.getByText(key, { exact: true }));
      await shown(panel.getByText(value, { exact: true }));
    }
    await page.reload();
    await quiet(page);
    await shown(panel.getByRole("heading", { name: span?.SpanName ?? "" }));
    await page.keyboard.press("Escape");
    await expect.poll(() => panel.count()).toBe(0);
  });

  test("zooms", async () => {
    await open();
    const { page } = visit;
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
    await open();
    const { page } = visit;
    await page.getByRole("radio", { name: "Waterfall" }).focus();
    await page.keyboard.press("ArrowRight");
    await shown(page.getByRole("application", { name: /^Flame/ }));
    await page.getByRole("radio", { name: "Flame" }).focus();
    await page.keyboard.press("ArrowRight");
    const operations = page.getByRole("table", { name: "Operations" });
    await shown(operations);
    const names = new Set(spans.map(({ ServiceName, SpanName }) => `${ServiceName} ${SpanName}`));
    expect(await operations.getByRole("row").count()).toBe(names.size + 1);
  });
});

describe("copies", () => {
  test("a tool call that reads the same trace", async () => {
    await open();
    const { page } = visit;
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
    const { page } = visit;
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
    await open();
    const { name, text } = await exported(/^JSON/);
    expect(name).toBe(`trace-${id}.json`);
    const { spans, ...rest } = await reader.call<{ spans: Span[] }>("GET", `/traces/${id}`);
    const { spans: found, ...foundRest } = JSON.parse(text) as { spans: Span[] };
    expect(foundRest).toEqual(rest);
    const byId = (one: Span, other: Span) => one.SpanId.localeCompare(other.SpanId);
    expect(found.toSorted(byId)).toEqual(spans.toSorted(byId));
  });

  test("OTLP JSON, with every span", async () => {
    const { name, text } = await exported("OTLP JSON");
    expect(name).toBe(`trace-${id}.otlp.json`);
    const { resourceSpans } = JSON.parse(text) as { resourceSpans: OtlpResource[] };
    const found = resourceSpans.flatMap(({ resource, scopeSpans }) =>
      scopeSpans.flatMap(({ spans }) => spans.map((span) => ({ span, resource }))),
    );
    expect(found.map(({ span }) => span.spanId).sort()).toEqual(spans.map(({ SpanId }) => SpanId).sort());
    for (const { span, resource } of found) {
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
