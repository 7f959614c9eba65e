-- Jaeger 2 with its ClickHouse storage; as of August 2026 creates it.
CREATE DATABASE jaeger;
CREATE TABLE jaeger.spans
(
    `id` String,
    `trace_id` String,
    `trace_state` String,
    `parent_span_id` String,
    `name` String,
    `kind` String,
    `start_time` DateTime64(9),
    `status_code` String,
    `status_message` String,
    `duration` Int64,
    `bool_attributes.key` Array(String),
    `bool_attributes.value` Array(Bool),
    `double_attributes.key` Array(String),
    `double_attributes.value` Array(Float64),
    `int_attributes.key` Array(String),
    `int_attributes.value` Array(Int64),
    `str_attributes.key` Array(String),
    `str_attributes.value` Array(String),
    `complex_attributes.key` Array(String),
    `complex_attributes.value` Array(String),
    `events.name` Array(String),
    `events.timestamp` Array(DateTime64(9)),
    `events.bool_attributes` Array(Nested(key String, value Bool)),
    `events.double_attributes` Array(Nested(key String, value Float64)),
    `events.int_attributes` Array(Nested(key String, value Int64)),
    `events.str_attributes` Array(Nested(key String, value String)),
    `events.complex_attributes` Array(Nested(key String, value String)),
    `links.trace_id` Array(String),
    `links.span_id` Array(String),
    `links.trace_state` Array(String),
    `links.bool_attributes` Array(Nested(key String, value Bool)),
    `links.double_attributes` Array(Nested(key String, value Float64)),
    `links.int_attributes` Array(Nested(key String, value Int64)),
    `links.str_attributes` Array(Nested(key String, value String)),
    `links.complex_attributes` Array(Nested(key String, value String)),
    `service_name` String,
    `resource_bool_attributes.key` Array(String),
    `resource_bool_attributes.value` Array(Bool),
    `resource_double_attributes.key` Array(String),
    `resource_double_attributes.value` Array(Float64),
    `resource_int_attributes.key` Array(String),
    `resource_int_attributes.value` Array(Int64),
    `resource_str_attributes.key` Array(String),
    `resource_str_attributes.value` Array(String),
    `resource_complex_attributes.key` Array(String),
    `resource_complex_attributes.value` Array(String),
    `scope_name` String,
    `scope_version` String,
    `scope_bool_attributes.key` Array(String),
    `scope_bool_attributes.value` Array(Bool),
    `scope_double_attributes.key` Array(String),
    `scope_double_attributes.value` Array(Float64),
    `scope_int_attributes.key` Array(String),
    `scope_int_attributes.value` Array(Int64),
    `scope_str_attributes.key` Array(String),
    `scope_str_attributes.value` Array(String),
    `scope_complex_attributes.key` Array(String),
    `scope_complex_attributes.value` Array(String),
    INDEX idx_trace_id trace_id TYPE bloom_filter GRANULARITY 1,
    INDEX idx_duration duration TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toDate(start_time)
ORDER BY (service_name, name, toDateTime(start_time))
SETTINGS index_granularity = 8192;
CREATE TABLE jaeger.trace_id_timestamps
(
    `trace_id` String,
    `start` SimpleAggregateFunction(min, DateTime64(9)),
    `end` SimpleAggregateFunction(max, DateTime64(9))
)
ENGINE = AggregatingMergeTree
ORDER BY trace_id
SETTINGS index_granularity = 8192;
CREATE MATERIALIZED VIEW jaeger.trace_id_timestamps_mv TO jaeger.trace_id_timestamps
(
    `trace_id` String,
    `start` DateTime64(9),
    `end` DateTime64(9)
)
AS SELECT
    trace_id,
    min(start_time) AS start,
    max(start_time) AS end
FROM jaeger.spans
GROUP BY trace_id;
CREATE TABLE jaeger.services
(
    `name` String
)
ENGINE = AggregatingMergeTree
ORDER BY name
SETTINGS index_granularity = 8192;
CREATE TABLE jaeger.operations
(
    `service_name` String,
    `name` String,
    `span_kind` String
)
ENGINE = AggregatingMergeTree
ORDER BY (service_name, span_kind)
SETTINGS index_granularity = 8192;
CREATE TABLE jaeger.attribute_metadata
(
    `attribute_key` String,
    `type` String,
    `level` String
)
ENGINE = AggregatingMergeTree
ORDER BY (attribute_key, type, level)
SETTINGS index_granularity = 8192;
