import { QueryClient } from "@tanstack/react-query";
import { expect, it, vi } from "vitest";
import { TEST_SCHEMA, testSpan } from "../../trace/testSpans";
import { traceQuery } from "./loadTrace";

const wholeBody = JSON.stringify({ schema: TEST_SCHEMA, spans: [testSpan("a", "", 0, 1)] });

/** Loads from a service that sends the text and then fails or ends. */
function load(text: string, failure?: Error) {
  const fetchMock = vi.spyOn(globalThis, "fetch").mockImplementation(async () => {
    let sentChunks = false;
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        if (!sentChunks) {
          sentChunks = true;
          controller.enqueue(new TextEncoder().encode(text));
        } else if (failure === undefined) {
          controller.close();
        } else {
          controller.error(failure);
        }
      },
    });
    return new Response(body, { headers: { "content-type": "application/json" } });
  });
  return { fetchMock, trace: new QueryClient().fetchQuery(traceQuery("t", () => undefined)) };
}

it("a complete response is a trace", async () => {
  expect((await load(wholeBody).trace).count).toBe(1);
});

it.each([
  ["ends early", undefined],
  ["fails", new TypeError("network error")],
])("a response that %s was aborted, and is not requested again automatically", async (_, failure) => {
  const { fetchMock, trace } = load(wholeBody.slice(0, 60), failure);
  await expect(trace).rejects.toThrow(/was aborted/);
  await expect(trace).rejects.not.toBeInstanceOf(TypeError);
  expect(fetchMock).toHaveBeenCalledTimes(1);
});

it("an unreachable service gives another error than an aborted response", async () => {
  vi.spyOn(globalThis, "fetch").mockRejectedValue(new TypeError("Failed to fetch"));
  const trace = new QueryClient().fetchQuery(traceQuery("t", () => undefined));
  await expect(trace).rejects.toBeInstanceOf(TypeError);
});
