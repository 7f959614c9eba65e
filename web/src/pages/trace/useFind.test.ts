import { renderHook, waitFor } from "@testing-library/react";
import { expect, it } from "vitest";
import { buildTrace } from "../../trace/model";
import { TEST_SCHEMA, testSpan } from "../../trace/testSpans";
import { useFind } from "./useFind";

const trace = buildTrace("t", TEST_SCHEMA, [testSpan("root", "", 0, 9), testSpan("leaf", "root", 1, 2)]);

it("finds spans, and finishes at once for a text without search terms", async () => {
  const { result, rerender } = renderHook(({ text }) => useFind(trace, text), {
    initialProps: { text: "leaf" },
  });
  await waitFor(() => expect(result.current).toMatchObject({ text: "leaf", done: true }));
  expect([...result.current.spans]).toEqual([1]);
  for (const text of [" ", ""]) {
    rerender({ text });
    expect(result.current).toMatchObject({ text, done: true });
    expect(result.current.spans.length).toBe(0);
  }
});
