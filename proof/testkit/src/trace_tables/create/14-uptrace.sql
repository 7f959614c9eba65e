-- Uptrace: ids as UUID and 64-bit integers, times in seconds, attributes as a pair of arrays; whole spans in a second table.
CREATE DATABASE uptrace;
CREATE TABLE uptrace.spans_index
(
    id UInt64 CODEC(T64, ZSTD(1)),
    trace_id UUID CODEC(ZSTD(1)),
    parent_id UInt64 CODEC(T64, ZSTD(1)),
    project_id UInt32 CODEC(DoubleDelta, ZSTD(1)),
    type LowCardinality(String) CODEC(ZSTD(1)),
    system LowCardinality(String) CODEC(ZSTD(1)),
    group_id UInt64 CODEC(Delta, ZSTD(1)),
    kind LowCardinality(String) CODEC(ZSTD(1)),
    name LowCardinality(String) CODEC(ZSTD(1)),
    event_name String CODEC(ZSTD(1)),
    display_name String CODEC(ZSTD(1)),
    time DateTime CODEC(Delta, ZSTD(1)),
    duration Int64 CODEC(T64, ZSTD(1)),
    count Float32 CODEC(ZSTD(1)),
    status_code LowCardinality(String) CODEC(ZSTD(1)),
    status_message String CODEC(ZSTD(1)),
    link_count UInt8 CODEC(ZSTD(1)),
    event_count UInt8 CODEC(ZSTD(1)),
    event_error_count UInt8 CODEC(ZSTD(1)),
    event_log_count UInt8 CODEC(ZSTD(1)),
    all_keys Array(LowCardinality(String)) CODEC(ZSTD(1)),
    string_keys Array(LowCardinality(String)) CODEC(ZSTD(1)),
    string_values Array(String) CODEC(ZSTD(1)),
    deployment_environment LowCardinality(String) CODEC(ZSTD(1)),
    service_name LowCardinality(String) CODEC(ZSTD(1)),
    service_version LowCardinality(String) CODEC(ZSTD(1)),
    host_name LowCardinality(String) CODEC(ZSTD(1)),
    INDEX idx_all_keys all_keys TYPE bloom_filter(0.01) GRANULARITY 64,
    INDEX idx_duration duration TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(time)
ORDER BY (project_id, system, group_id, time);
CREATE TABLE uptrace.spans_data
(
    project_id UInt32 CODEC(DoubleDelta, ZSTD(1)),
    type LowCardinality(String) CODEC(ZSTD(1)),
    trace_id UUID CODEC(ZSTD(1)),
    id UInt64 CODEC(T64, ZSTD(1)),
    parent_id UInt64 CODEC(ZSTD(1)),
    time DateTime64(6) CODEC(Delta, ZSTD(1)),
    data String CODEC(ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toDate(time)
ORDER BY (trace_id, id)
SETTINGS index_granularity = 2048;
CREATE TABLE uptrace.tracing_data AS uptrace.spans_data
ENGINE = Merge(uptrace, '^(spans|events|logs)_data$');
