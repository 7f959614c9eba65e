-- Highlight: the exporter's columns with one map for all attributes, and a second copy of all rows by trace id.
CREATE DATABASE highlight;
CREATE TABLE highlight.traces
(
    Timestamp DateTime64(9) CODEC(Delta, ZSTD(1)),
    UUID UUID,
    TraceId String CODEC(ZSTD(1)),
    SpanId String CODEC(ZSTD(1)),
    ParentSpanId String CODEC(ZSTD(1)),
    ProjectId UInt32,
    SecureSessionId String CODEC(ZSTD(1)),
    TraceState String CODEC(ZSTD(1)),
    SpanName LowCardinality(String) CODEC(ZSTD(1)),
    SpanKind LowCardinality(String) CODEC(ZSTD(1)),
    Duration Int64 CODEC(ZSTD(1)),
    ServiceName LowCardinality(String) CODEC(ZSTD(1)),
    ServiceVersion String CODEC(ZSTD(1)),
    Environment String CODEC(ZSTD(1)),
    HasErrors Bool,
    TraceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    StatusCode LowCardinality(String) CODEC(ZSTD(1)),
    StatusMessage String CODEC(ZSTD(1)),
    Events Nested
    (
        Timestamp DateTime64(9),
        Name LowCardinality(String),
        Attributes Map(LowCardinality(String), String)
    ) CODEC(ZSTD(1)),
    Links Nested
    (
        TraceId String,
        SpanId String,
        TraceState String,
        Attributes Map(LowCardinality(String), String)
    ) CODEC(ZSTD(1)),
    INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX idx_attr_key mapKeys(TraceAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX idx_attr_value mapValues(TraceAttributes) TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(Timestamp)
ORDER BY (ProjectId, Timestamp, UUID)
SETTINGS index_granularity = 8192;
CREATE TABLE highlight.traces_by_id AS highlight.traces
ENGINE = MergeTree
PARTITION BY farmHash64(TraceId) % 100
ORDER BY (ProjectId, TraceId);
CREATE MATERIALIZED VIEW highlight.traces_by_id_mv TO highlight.traces_by_id AS SELECT * FROM highlight.traces;
