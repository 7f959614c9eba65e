-- DeepFlow: requests seen by the network and by programs, several rows a span, attributes as pairs of arrays.
CREATE DATABASE flow_log;
CREATE TABLE flow_log.l7_flow_log_local
(
    time DateTime CODEC(Delta, ZSTD),
    _id UInt64,
    ip4_0 IPv4,
    ip4_1 IPv4,
    client_port UInt16,
    server_port UInt16,
    signal_source UInt16,
    observation_point LowCardinality(String),
    start_time DateTime64(6) CODEC(Delta, ZSTD),
    end_time DateTime64(6) CODEC(Delta, ZSTD),
    l7_protocol UInt8,
    l7_protocol_str LowCardinality(String),
    type UInt8,
    request_type LowCardinality(String),
    request_domain String,
    request_resource String,
    endpoint String,
    request_id Nullable(UInt64),
    response_status UInt8,
    response_code Nullable(Int32),
    response_exception String,
    response_result String,
    trace_id String,
    trace_id_index UInt64,
    span_id String,
    parent_span_id String,
    span_kind Nullable(UInt8),
    app_service LowCardinality(String),
    app_instance LowCardinality(String),
    response_duration UInt64,
    attribute_names Array(LowCardinality(String)),
    attribute_values Array(String),
    metrics_names Array(LowCardinality(String)),
    metrics_values Array(Float64),
    INDEX trace_id_idx trace_id TYPE bloom_filter GRANULARITY 3,
    INDEX trace_id_index_idx trace_id_index TYPE minmax GRANULARITY 3
)
ENGINE = MergeTree
PARTITION BY toStartOfHour(time)
ORDER BY (l7_protocol, app_service, time)
SETTINGS ttl_only_drop_parts = 1;
CREATE TABLE flow_log.l7_flow_log AS flow_log.l7_flow_log_local
ENGINE = Distributed(one_node, flow_log, l7_flow_log_local, rand());
