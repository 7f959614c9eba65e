-- trigger.dev: spans and events in one table, a partial row when a span starts and a whole one when it ends, attributes as JSON.
CREATE DATABASE trigger_dev;
CREATE TABLE trigger_dev.task_events_v2
(
    environment_id String CODEC(ZSTD(1)),
    organization_id String CODEC(ZSTD(1)),
    project_id String CODEC(ZSTD(1)),
    task_identifier String CODEC(ZSTD(1)),
    run_id String CODEC(ZSTD(1)),
    start_time DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    parent_span_id String CODEC(ZSTD(1)),
    message String CODEC(ZSTD(1)),
    kind LowCardinality(String) CODEC(ZSTD(1)),
    status LowCardinality(String) CODEC(ZSTD(1)),
    attributes JSON CODEC(ZSTD(1)),
    attributes_text String MATERIALIZED toJSONString(attributes),
    metadata String DEFAULT '{}' CODEC(ZSTD(1)),
    duration UInt64 CODEC(ZSTD(1)),
    expires_at DateTime64(3),
    inserted_at DateTime64(3) DEFAULT now64(3),
    INDEX idx_trace_id trace_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX idx_duration duration TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(inserted_at)
ORDER BY (environment_id, toUnixTimestamp(start_time), trace_id)
SETTINGS ttl_only_drop_parts = 1;
