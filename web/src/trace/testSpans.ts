import type { RawSpan, TraceSchema } from "./columns";

/** For tests: the binding of the OpenTelemetry exporter's table. */
export const TEST_SCHEMA: TraceSchema = {
  trace_id: "TraceId",
  span_id: "SpanId",
  timestamp: "Timestamp",
  parent_span_id: "ParentSpanId",
};

/** For tests: a span with start and end in microseconds. */
export function testSpan(id: string, parent: string, from: number, to: number, more: RawSpan = {}): RawSpan {
  const nanos = String(from * 1_000).padStart(9, "0");
  return {
    TraceId: "0af7651916cd43dd8448eb211c80319c",
    SpanId: id,
    ParentSpanId: parent,
    Timestamp: `2026-11-21T10:00:00.${nanos}Z`,
    Duration: (to - from) * 1_000,
    SpanName: `operation ${id}`,
    ServiceName: "shop",
    StatusCode: "Unset",
    StatusMessage: "",
    SpanAttributes: {},
    ResourceAttributes: {},
    "Events.Timestamp": [],
    "Events.Name": [],
    "Events.Attributes": [],
    ...more,
  };
}
