-- PostHog: ids in base64, keys of maps with their type as suffix, a partition by expiry, projections that only hold offsets.
CREATE DATABASE posthog;
CREATE TABLE posthog.trace_spans
(
    time_bucket DateTime MATERIALIZED toStartOfInterval(timestamp, toIntervalHour(4)) CODEC(DoubleDelta, ZSTD(1)),
    original_expiry_timestamp DateTime64(6),
    uuid String,
    team_id Int32,
    trace_id String,
    span_id String,
    parent_span_id String,
    is_root_span Bool MATERIALIZED replaceAll(trimRight(parent_span_id, '='), 'A', '') = '',
    trace_state String,
    name LowCardinality(String),
    kind Int8,
    flags UInt32,
    timestamp DateTime64(6),
    end_time DateTime64(6),
    observed_timestamp DateTime64(6),
    created_at DateTime64(6) MATERIALIZED now(),
    duration_nano UInt64 MATERIALIZED toUInt64(dateDiff('microsecond', timestamp, end_time)) * 1000,
    status_code Int16,
    service_name LowCardinality(String),
    resource_attributes Map(LowCardinality(String), String),
    resource_fingerprint UInt64 MATERIALIZED cityHash64(resource_attributes),
    instrumentation_scope String,
    attributes_map_str Map(LowCardinality(String), String),
    attributes Map(LowCardinality(String), String) ALIAS mapApply((k, v) -> (left(k, -5), v), attributes_map_str),
    attributes_map_float Map(LowCardinality(String), Float64)
        MATERIALIZED mapFilter((k, v) -> (v IS NOT NULL),
            mapApply((k, v) -> (concat(left(k, -5), '__float'), toFloat64OrNull(v)), attributes_map_str)),
    events Array(String),
    links Array(String),
    PROJECTION projection_index_trace_id (SELECT _part_offset ORDER BY trace_id),
    PROJECTION projection_index_span_id (SELECT _part_offset ORDER BY span_id)
)
ENGINE = MergeTree
PARTITION BY toDate(original_expiry_timestamp)
ORDER BY (team_id, time_bucket, service_name, resource_fingerprint, status_code, name, timestamp)
SETTINGS index_granularity = 8192
, allow_part_offset_column_in_projections = 1, map_serialization_version = 'with_buckets' -- from 26.2
;
CREATE TABLE posthog.trace_spans_distributed AS posthog.trace_spans
ENGINE = Distributed(one_node, posthog, trace_spans);
