-- SigNoz, index of version 3: a time bucket that leads the key, attributes by type and as JSON.
CREATE DATABASE signoz_traces;
CREATE TABLE signoz_traces.signoz_index_v3
(
    ts_bucket_start UInt64 CODEC(DoubleDelta, LZ4),
    resource_fingerprint String CODEC(ZSTD(1)),
    timestamp DateTime64(9) CODEC(DoubleDelta, LZ4),
    trace_id FixedString(32) CODEC(ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    trace_state String CODEC(ZSTD(1)),
    parent_span_id String CODEC(ZSTD(1)),
    flags UInt32 CODEC(T64, ZSTD(1)),
    name LowCardinality(String) CODEC(ZSTD(1)),
    kind Int8 CODEC(T64, ZSTD(1)),
    kind_string String CODEC(ZSTD(1)),
    duration_nano UInt64 CODEC(T64, ZSTD(1)),
    status_code Int16 CODEC(T64, ZSTD(1)),
    status_message String CODEC(ZSTD(1)),
    status_code_string String CODEC(ZSTD(1)),
    attributes_string Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    attributes_number Map(LowCardinality(String), Float64) CODEC(ZSTD(1)),
    attributes_bool Map(LowCardinality(String), Bool) CODEC(ZSTD(1)),
    attributes JSON(max_dynamic_paths = 0) CODEC(ZSTD(1)),
    resources_string Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    events Array(String) CODEC(ZSTD(2)),
    links String CODEC(ZSTD(1)),
    response_status_code LowCardinality(String) CODEC(ZSTD(1)),
    external_http_url LowCardinality(String) CODEC(ZSTD(1)),
    http_url LowCardinality(String) CODEC(ZSTD(1)),
    external_http_method LowCardinality(String) CODEC(ZSTD(1)),
    http_method LowCardinality(String) CODEC(ZSTD(1)),
    http_host LowCardinality(String) CODEC(ZSTD(1)),
    db_name LowCardinality(String) CODEC(ZSTD(1)),
    db_operation LowCardinality(String) CODEC(ZSTD(1)),
    has_error Bool CODEC(T64, ZSTD(1)),
    is_remote LowCardinality(String) CODEC(ZSTD(1)),
    `resource_string_service$$name` LowCardinality(String) DEFAULT resources_string['service.name'] CODEC(ZSTD(1)),
    `attribute_string_http$$route` LowCardinality(String) DEFAULT attributes_string['http.route'] CODEC(ZSTD(1)),
    `attribute_string_messaging$$system` LowCardinality(String) DEFAULT attributes_string['messaging.system'] CODEC(ZSTD(1)),
    `resource_string_service$$name_exists` Bool
        DEFAULT if(mapContains(resources_string, 'service.name') != 0, true, false) CODEC(ZSTD(1)),
    `attribute_string_http$$route_exists` Bool
        DEFAULT if(mapContains(attributes_string, 'http.route') != 0, true, false) CODEC(ZSTD(1)),
    traceID FixedString(32) ALIAS trace_id,
    spanID String ALIAS span_id,
    parentSpanID String ALIAS parent_span_id,
    spanKind String ALIAS kind_string,
    serviceName LowCardinality(String) ALIAS `resource_string_service$$name`,
    durationNano UInt64 ALIAS duration_nano,
    statusCode Int16 ALIAS status_code,
    hasError Bool ALIAS has_error,
    httpRoute LowCardinality(String) ALIAS `attribute_string_http$$route`,
    resource JSON(max_dynamic_paths = 100) CODEC(ZSTD(1)),
    scope JSON(max_dynamic_paths = 0, name String, version String, attributes JSON(max_dynamic_paths = 0)) CODEC(ZSTD(1)),
    inserted_at DateTime64(3) CODEC(ZSTD(1)),
    created_at DateTime64(3) DEFAULT now64(3) CODEC(ZSTD(1)),
    INDEX idx_trace_id trace_id TYPE tokenbf_v1(10000, 5, 0) GRANULARITY 1,
    INDEX idx_span_id span_id TYPE tokenbf_v1(5000, 5, 0) GRANULARITY 1,
    INDEX idx_duration duration_nano TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(timestamp)
ORDER BY (ts_bucket_start, resource_fingerprint, has_error, name, timestamp)
SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1
, object_serialization_version = 'v3', object_shared_data_serialization_version = 'advanced' -- from 26.2
;
CREATE TABLE signoz_traces.distributed_signoz_index_v3 AS signoz_traces.signoz_index_v3
ENGINE = Distributed(one_node, signoz_traces, signoz_index_v3, cityHash64(trace_id));
CREATE TABLE signoz_traces.traces_v3_resource
(
    labels String CODEC(ZSTD(5)),
    fingerprint String CODEC(ZSTD(1)),
    seen_at_ts_bucket_start Int64 CODEC(Delta(8), ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toDate(seen_at_ts_bucket_start)
ORDER BY (labels, fingerprint, seen_at_ts_bucket_start);
CREATE TABLE signoz_traces.trace_summary
(
    trace_id String CODEC(ZSTD(1)),
    start SimpleAggregateFunction(min, DateTime64(9)) CODEC(ZSTD(1)),
    end SimpleAggregateFunction(max, DateTime64(9)) CODEC(ZSTD(1)),
    num_spans SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
PARTITION BY toDate(end)
ORDER BY (trace_id);
CREATE MATERIALIZED VIEW signoz_traces.trace_summary_mv TO signoz_traces.trace_summary
AS SELECT trace_id, min(timestamp) AS start, max(timestamp) AS end, toUInt64(count()) AS num_spans
FROM signoz_traces.signoz_index_v3 GROUP BY trace_id;
CREATE TABLE signoz_traces.distributed_trace_summary AS signoz_traces.trace_summary
ENGINE = Distributed(one_node, signoz_traces, trace_summary, cityHash64(trace_id));
