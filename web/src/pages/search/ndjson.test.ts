import { describe, expect, it } from "vitest";
import { type Line, parseLine, readLineBatches } from "./ndjson";
import { addLines, continueSearch, fractionOf, startSearch } from "./searchState";

const trace = (id: string, moreMembers: object = {}) => ({
  trace_id: id,
  root_name: "GET /",
  root_service: "web",
  start: "2026-11-22T00:00:00Z",
  duration_nanos: 1_000_000,
  duration_invalid: false,
  span_count: 3,
  error_count: 0,
  services: ["web"],
  matched_span_ids: [],
  ...moreMembers,
});

async function readAll(...chunks: string[]): Promise<Line[]> {
  const bytes = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(bytes.encode(chunk));
      controller.close();
    },
  });
  const lines: Line[] = [];
  for await (const batch of readLineBatches(body)) lines.push(...batch);
  return lines;
}

describe("an NDJSON response", () => {
  it("is parsed across chunk boundaries", async () => {
    const lines = await readAll(
      '{"schema":{}}\n{"tra',
      'ce":{"trace_id":"a"}}\n\n{"end":{"next_cu',
      'rsor":"c"}}\n',
    );
    expect(lines).toEqual([
      { kind: "trace", trace: { trace_id: "a" } },
      { kind: "end", cursor: "c" },
    ]);
  });

  it("that is aborted within a line does not contain that line", async () => {
    expect(await readAll('{"trace":{"trace_id":"a"}}\n{"end":{"next_cursor":null}}')).toHaveLength(1);
  });

  it("ignores unknown kinds of lines", () => {
    expect(parseLine('{"weather":"fine"}')).toBeNull();
    expect(parseLine("")).toBeNull();
  });
});

describe("the state of a search", () => {
  const started = startSearch(
    { filter: { conditions: [] }, order: "newest", window: { from: "a", to: "b" } },
    0,
  );

  it("contains each trace once, also across pages", () => {
    const one = addLines(started, [
      { kind: "trace", trace: trace("a") },
      { kind: "end", cursor: "next" },
    ]);
    const two = addLines(continueSearch(one), [
      { kind: "trace", trace: trace("a") },
      { kind: "trace", trace: trace("b") },
      { kind: "trace", trace: trace("b") },
      { kind: "end", cursor: null },
    ]);
    expect(one.cursor).toBe("next");
    expect(two.traces.map((one) => one.trace_id)).toEqual(["a", "b"]);
    expect([two.cursor, two.pages]).toEqual([null, 2]);
  });

  it("keeps the cursor of the last complete page if the next one fails", () => {
    const one = addLines(started, [{ kind: "end", cursor: "next" }]);
    expect(addLines(continueSearch(one), [{ kind: "trace", trace: trace("a") }]).cursor).toBe("next");
  });

  it("has a progress, with and without a fraction", () => {
    const progress = {
      from: "2026-11-21T00:00:00Z",
      to: "2026-11-21T12:00:00Z",
      searched_to: "2026-11-21T09:00:00Z",
      traces: 1,
    };
    expect(fractionOf(progress)).toBe(0.25);
    expect(fractionOf({ ...progress, fraction: 0.5 })).toBe(0.5);
    expect(fractionOf({ ...progress, from: "never" })).toBe(0);
  });
});
