import { describe, expect, it, vi } from "vitest";
import { ApiError } from "../../api/client";
import { fetchPage } from "./fetchPage";

const REQUEST = {
  filter: { conditions: [] },
  order: "newest",
  window: { from: "2026-11-21T00:00:00Z", to: "2026-11-22T00:00:00Z" },
} as const;
const TRACE = '{"trace":{"trace_id":"a"}}\n';

/** Requests a page to which the service responds with this body. Returns the kinds of its lines, and the error at its end. */
async function readPage(body: BodyInit): Promise<{ kinds: string[]; error: unknown }> {
  vi.spyOn(globalThis, "fetch").mockResolvedValue(new Response(body));
  const kinds: string[] = [];
  try {
    for await (const lines of fetchPage(REQUEST, null, new AbortController().signal)) {
      kinds.push(...lines.map(({ kind }) => kind));
    }
    return { kinds, error: null };
  } catch (error) {
    return { kinds, error };
  }
}

describe("a page of traces", () => {
  it("is complete with its last line", async () => {
    expect(await readPage(`${TRACE}{"end":{"next_cursor":null}}\n`)).toEqual({
      kinds: ["trace", "end"],
      error: null,
    });
  });

  it("without its last line is incomplete, and keeps the traces before", async () => {
    for (const rest of ["", '{"trace":{"tra', '{"end":{"next_cursor":null}}']) {
      const { kinds, error } = await readPage(TRACE + rest);
      expect(kinds).toEqual(["trace"]);
      expect(error).toMatchObject({ name: "StreamAborted" });
    }
  });

  it("whose connection is lost is incomplete", async () => {
    const lost = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(new TextEncoder().encode(TRACE));
      },
      pull(controller) {
        controller.error(new TypeError("network error"));
      },
    });
    expect((await readPage(lost)).error).toMatchObject({ name: "StreamAborted" });
  });

  it("ends with the error of the service", async () => {
    const problem = { title: "Timed out", status: 504, code: "clickhouse_timeout" };
    const { error } = await readPage(`${TRACE}${JSON.stringify({ error: problem })}\n`);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 504, code: "clickhouse_timeout" });
  });
});
