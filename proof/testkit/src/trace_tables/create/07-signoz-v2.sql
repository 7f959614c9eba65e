-- SigNoz, index of version 2: ids of fixed length, attributes by type.
CREATE DATABASE signoz_traces;
CREATE TABLE signoz_traces.signoz_index_v2
(
    timestamp DateTime64(9) CODEC(DoubleDelta, LZ4),
    traceID FixedString(32) CODEC(ZSTD(1)),
    spanID String CODEC(ZSTD(1)),
    parentSpanID String CODEC(ZSTD(1)),
    serviceName LowCardinality(String) CODEC(ZSTD(1)),
    name LowCardinality(String) CODEC(ZSTD(1)),
    kind Int8 CODEC(T64, ZSTD(1)),
    durationNano UInt64 CODEC(T64, ZSTD(1)),
    statusCode Int16 CODEC(T64, ZSTD(1)),
    events Array(String) CODEC(ZSTD(2)),
    stringTagMap Map(String, String) CODEC(ZSTD(1)),
    numberTagMap Map(String, Float64) CODEC(ZSTD(1)),
    boolTagMap Map(String, Bool) CODEC(ZSTD(1)),
    resourceTagsMap Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    hasError Bool CODEC(T64, ZSTD(1)),
    INDEX idx_service serviceName TYPE bloom_filter GRANULARITY 4,
    INDEX idx_name name TYPE bloom_filter GRANULARITY 4,
    INDEX idx_duration durationNano TYPE minmax GRANULARITY 1,
    PROJECTION timestampSort (SELECT * ORDER BY timestamp)
)
ENGINE = MergeTree
PARTITION BY toDate(timestamp)
PRIMARY KEY (serviceName, hasError, toStartOfHour(timestamp), name)
ORDER BY (serviceName, hasError, toStartOfHour(timestamp), name, timestamp)
SETTINGS index_granularity = 8192;
CREATE TABLE signoz_traces.signoz_spans
(
    timestamp DateTime64(9) CODEC(DoubleDelta, LZ4),
    traceID FixedString(32) CODEC(ZSTD(1)),
    model String CODEC(ZSTD(9))
)
ENGINE = MergeTree
PARTITION BY toDate(timestamp)
ORDER BY traceID
SETTINGS index_granularity = 1024;
CREATE TABLE signoz_traces.distributed_signoz_index_v2 AS signoz_traces.signoz_index_v2
ENGINE = Distributed(one_node, signoz_traces, signoz_index_v2, cityHash64(traceID));
CREATE TABLE signoz_traces.distributed_signoz_spans AS signoz_traces.signoz_spans
ENGINE = Distributed(one_node, signoz_traces, signoz_spans, cityHash64(traceID));
