-- ClickHouse's own spans, `system.opentelemetry_span_log`: a copy of its layout, and the view to bind instead.
CREATE DATABASE own_spans;
CREATE TABLE own_spans.opentelemetry_span_log
(
    hostname LowCardinality(String),
    trace_id UUID,
    span_id UInt64,
    parent_span_id UInt64,
    operation_name LowCardinality(String),
    kind Enum8('INTERNAL' = 0, 'SERVER' = 1, 'CLIENT' = 2, 'PRODUCER' = 3, 'CONSUMER' = 4),
    start_time_us UInt64,
    finish_time_us UInt64,
    finish_date Date,
    attribute Map(LowCardinality(String), String)
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(finish_date)
ORDER BY (finish_date, finish_time_us);
