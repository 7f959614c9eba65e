-- LangWatch: durations in milliseconds, statuses as numbers, the row with the latest start counts.
CREATE DATABASE langwatch;
CREATE TABLE langwatch.stored_spans
(
    ProjectionId String,
    TenantId String,
    TraceId String,
    SpanId String,
    ParentSpanId Nullable(String),
    ParentTraceId Nullable(String),
    ParentIsRemote Nullable(Bool),
    Sampled Bool,
    StartTime DateTime64(3),
    EndTime DateTime64(3),
    DurationMs UInt64,
    SpanName LowCardinality(String),
    SpanKind UInt8,
    ServiceName LowCardinality(String),
    ResourceAttributes Map(LowCardinality(String), String),
    SpanAttributes Map(LowCardinality(String), String),
    StatusCode Nullable(UInt8),
    StatusMessage Nullable(String),
    ScopeName String,
    ScopeVersion Nullable(String),
    `Events.Timestamp` Array(DateTime64(3)),
    `Events.Name` Array(LowCardinality(String)),
    `Events.Attributes` Array(Map(LowCardinality(String), String)),
    CreatedAt DateTime64(3) DEFAULT now64(3),
    INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX idx_span_id SpanId TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(StartTime)
PARTITION BY toYearWeek(StartTime)
ORDER BY (TenantId, TraceId, SpanId);
