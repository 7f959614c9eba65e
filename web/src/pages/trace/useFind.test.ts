import { renderHook, waitFor } from "@testing-library/react";
import { expect, it } from "vitest";
import { traceOf } from "../../trace/model";
import { SCHEMA, span } from "../../trace/sample";
import { useFind } from "./useFind";

const trace = traceOf("t", SCHEMA, [span("root", "", 0, 9), span("leaf", "root", 1, 2)]);

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
