-- Latitude: ids are texts of fixed length, durations in milliseconds, attributes are JSON text.
CREATE DATABASE latitude;
CREATE TABLE latitude.spans
(
    workspace_id UInt64,
    trace_id FixedString(32),
    span_id FixedString(16),
    parent_span_id Nullable(FixedString(16)),
    project_id UInt64,
    api_key_id UInt64,
    name String,
    kind LowCardinality(String),
    type LowCardinality(String),
    source LowCardinality(String),
    status LowCardinality(String),
    message Nullable(String),
    duration_ms UInt64,
    started_at DateTime64(6, 'UTC'),
    ended_at DateTime64(6, 'UTC'),
    attributes String CODEC(ZSTD(3)),
    events String CODEC(ZSTD(3)),
    retention_expires_at DateTime64(3, 'UTC') DEFAULT toDateTime64('2099-01-01 00:00:00', 3, 'UTC'),
    ingested_at DateTime64(6, 'UTC') DEFAULT now64(6),
    INDEX idx_trace_id trace_id TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(ingested_at)
PARTITION BY toYYYYMM(started_at)
ORDER BY (workspace_id, started_at, trace_id, span_id);
