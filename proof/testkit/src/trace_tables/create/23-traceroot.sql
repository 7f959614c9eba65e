-- TraceRoot: no attributes; the newest row of a span counts.
CREATE DATABASE traceroot;
CREATE TABLE traceroot.spans
(
    span_id String,
    trace_id String,
    parent_span_id Nullable(String),
    project_id String,
    span_start_time DateTime64(3),
    span_end_time Nullable(DateTime64(3)),
    name String,
    span_kind LowCardinality(String),
    status LowCardinality(String),
    status_message Nullable(String),
    model_name Nullable(String),
    cost Nullable(Decimal64(12)),
    input_tokens Nullable(Int64),
    output_tokens Nullable(Int64),
    input Nullable(String) CODEC(ZSTD(3)),
    output Nullable(String) CODEC(ZSTD(3)),
    environment String DEFAULT 'default',
    ch_create_time DateTime64(3) DEFAULT now64(3),
    ch_update_time DateTime64(3) DEFAULT now64(3),
    INDEX idx_trace_id trace_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(ch_update_time)
PARTITION BY toYYYYMM(span_start_time)
ORDER BY (project_id, span_kind, toDate(span_start_time), span_id);
