import { expect, it } from "vitest";
import { hasEvents } from "./details";
import { eventMarks } from "./eventMarks";
import { buildTrace } from "./model";
import { TEST_SCHEMA, testSpan } from "./testSpans";

const events = (micros: readonly number[], names: readonly string[]) => ({
  "Events.Timestamp": micros.map((at) => `2026-11-21T10:00:00.${String(at * 1_000).padStart(9, "0")}Z`),
  "Events.Name": names,
  "Events.Attributes": names.map(() => ({})),
});

it("marks are relative to the start of the trace, and exceptions are flagged", () => {
  const trace = buildTrace("t", TEST_SCHEMA, [
    testSpan("root", "", 100, 900),
    testSpan("child", "root", 300, 500, events([350, 400], ["retry", "exception"])),
  ]);
  const child = trace.byId.get("child") ?? -1;
  expect(eventMarks(trace, child)).toEqual([
    { at: 300_000, isException: true },
    { at: 250_000, isException: false },
  ]);
  expect(eventMarks(trace, trace.byId.get("root") ?? -1)).toEqual([]);
  expect(trace.spans.map((span) => hasEvents(span, trace.columns))).toEqual([false, true]);
});

it("events without a valid time have no mark, and a span has a limited number", () => {
  const many = Array.from({ length: 1_000 }, () => "event");
  const trace = buildTrace("t", TEST_SCHEMA, [
    testSpan("odd", "", 0, 10, { ...events([], ["a"]), "Events.Timestamp": ["soon"] }),
    testSpan(
      "many",
      "",
      0,
      10,
      events(
        many.map((_, index) => index),
        many,
      ),
    ),
  ]);
  expect(eventMarks(trace, trace.byId.get("odd") ?? -1)).toEqual([]);
  expect(eventMarks(trace, trace.byId.get("many") ?? -1)).toHaveLength(100);
});
