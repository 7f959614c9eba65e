import { beforeAll, describe, expect, test } from "vitest";
import { newVisitor, type Visitor } from "./browser";
import { environment } from "./environment";
import { measureSmoothness, pagePath, performanceMark, signIn } from "./pages";
import { ensureSetUp, READER } from "./service";

const { trace10k, trace100k } = environment();

/** The test machines are shared. Only a result that is slow in all three tries fails the test. */
const TRIES = 3;

let visitor: Visitor;

beforeAll(async () => {
  await ensureSetUp();
  visitor = await newVisitor("performance");
  await signIn(visitor.page, READER);
});

/** Milliseconds from the last byte of a trace to a usable page. */
async function timeToUsable(id: string, timeout: number): Promise<number> {
  const { page } = visitor;
  // A new document discards marks and memory of the previous one.
  await page.goto("about:blank");
  await page.goto(pagePath(`/trace/${id}`));
  const usableAt = await performanceMark(page, "trace-usable", timeout);
  // Uses the browser's own time of the transfer, so that parsing is included.
  const arrivedAt = await page.evaluate((id) => {
    const transfers = performance
      .getEntriesByType("resource")
      .filter(({ name }) => name.endsWith(`/traces/${id}`));
    return transfers.length === 1 ? (transfers[0] as PerformanceResourceTiming).responseEnd : Number.NaN;
  }, id);
  expect(arrivedAt).toBeGreaterThan(0);
  return usableAt - arrivedAt;
}

/** Returns the figures of the tries, and stops at the first good one. */
async function firstGood<T>(
  label: string,
  attempt: () => Promise<T>,
  isGood: (figures: T) => boolean,
): Promise<T> {
  const allFigures: T[] = [];
  for (let index = 0; index < TRIES; index += 1) {
    const figures = await attempt();
    allFigures.push(figures);
    console.log(`${label}, try ${index + 1}: ${JSON.stringify(figures)}`);
    if (isGood(figures)) {
      return figures;
    }
  }
  throw new Error(`${label}: none of ${TRIES} tries was good enough: ${JSON.stringify(allFigures)}`);
}

async function scroll(): Promise<void> {
  const { page } = visitor;
  const box = await page
    .getByRole("treegrid")
    .or(page.getByRole("tree"))
    .or(page.getByRole("grid"))
    .first()
    .boundingBox();
  if (box === null) {
    throw new Error("the waterfall is not visible");
  }
  await page.mouse.move(box.x + box.width / 2, box.y + Math.min(box.height / 2, 300));
  const end = Date.now() + 3_000;
  while (Date.now() < end) {
    await page.mouse.wheel(0, 400);
    await page.waitForTimeout(16);
  }
}

describe("a trace of 10,000 spans", () => {
  test("is usable within a second of its arrival", { timeout: 120_000 }, async () => {
    const milliseconds = await firstGood(
      "10,000 spans: ms until usable",
      () => timeToUsable(trace10k, 30_000),
      (milliseconds) => milliseconds < 1_000,
    );
    expect(milliseconds).toBeGreaterThan(0);
  });

  test("scrolls without a long task, at 50 frames a second", { timeout: 60_000 }, async () => {
    await firstGood(
      "10,000 spans: scrolling for 3 s",
      async () => {
        const first = visitor.page.locator("#span-0");
        await visitor.page.keyboard.press("Home");
        await visitor.page.getByRole("treegrid", { name: "Spans" }).evaluate((grid) => grid.scrollTo(0, 0));
        await first.waitFor({ state: "attached" });
        const { longTasks, p95, frames } = await measureSmoothness(visitor.page, scroll);
        // The first rows were scrolled out and are no longer in the document.
        expect(await first.count()).toBe(0);
        return { longTasks: longTasks.map(Math.round), p95: Math.round(p95 * 10) / 10, frames };
      },
      // By definition, long tasks are longer than 50 ms.
      ({ longTasks, p95 }) => longTasks.length === 0 && p95 < 20,
    );
  });

  test("takes less than 300 MB of memory", async () => {
    const session = await visitor.context.newCDPSession(visitor.page);
    await session.send("HeapProfiler.enable");
    await session.send("HeapProfiler.collectGarbage");
    await session.send("Performance.enable");
    const { metrics } = await session.send("Performance.getMetrics");
    const heap = (metrics.find(({ name }) => name === "JSHeapUsedSize")?.value ?? Number.NaN) / 1_000_000;
    console.log(`10,000 spans: ${heap.toFixed(1)} MB of JavaScript heap`);
    expect(heap).toBeLessThan(300);
    await session.detach();
  });
});

test("a trace of 100,000 spans is usable within five seconds of its arrival", {
  timeout: 240_000,
}, async () => {
  const milliseconds = await firstGood(
    "100,000 spans: ms until usable",
    () => timeToUsable(trace100k, 60_000),
    (milliseconds) => milliseconds < 5_000,
  );
  expect(milliseconds).toBeGreaterThan(0);
});

test.each(["/login", "/search"])(
  "an outline of %s appears within two seconds on a slow line",
  async (path) => {
    await firstGood(
      `${path}: ms until the first paint`,
      async () => {
        // Without cache: at 750 kbit/s, with 300 ms for each response.
        const page = await visitor.context.newPage();
        const session = await visitor.context.newCDPSession(page);
        await session.send("Network.enable");
        await session.send("Network.setCacheDisabled", { cacheDisabled: true });
        await session.send("Network.emulateNetworkConditions", {
          offline: false,
          latency: 300,
          downloadThroughput: 750_000 / 8,
          uploadThroughput: 750_000 / 8,
        });
        await page.goto(pagePath(path));
        const [paint] = await page.evaluate(() =>
          performance.getEntriesByName("first-contentful-paint").map(({ startTime }) => startTime),
        );
        await page.close();
        return Math.round(paint ?? Number.NaN);
      },
      (milliseconds) => milliseconds < 2_000,
    );
  },
);

test("the page of the trace source appears within a second", async () => {
  const { context, page } = await newVisitor("trace source");
  await signIn(page, "admin");
  await firstGood(
    "trace source: ms until the fields are listed",
    async () => {
      await page.goto(pagePath("/source"));
      await page.getByRole("table").first().waitFor();
      return Math.round(await page.evaluate(() => performance.now()));
    },
    (milliseconds) => milliseconds < 1_000,
  );
  await context.close();
});
