-- Gigapipe (qryn): ids as bytes, times as integers, attributes in the payload and in an index table that materialized views fill.
CREATE DATABASE gigapipe;
CREATE TABLE gigapipe.tempo_traces
(
    oid String DEFAULT '0',
    trace_id FixedString(16),
    span_id FixedString(8),
    parent_id String,
    name String,
    timestamp_ns Int64 CODEC(DoubleDelta),
    duration_ns Int64,
    service_name String,
    payload_type Int8,
    payload String
)
ENGINE = MergeTree
PARTITION BY (oid, toDate(fromUnixTimestamp(intDiv(timestamp_ns, 1000000000))))
ORDER BY (oid, trace_id, timestamp_ns);
CREATE TABLE gigapipe.tempo_traces_attrs_gin
(
    oid String,
    date Date,
    key String,
    val String,
    trace_id FixedString(16),
    span_id FixedString(8),
    timestamp_ns Int64,
    duration Int64
)
ENGINE = ReplacingMergeTree
PARTITION BY date
ORDER BY (oid, date, key, val, timestamp_ns, trace_id, span_id);
CREATE TABLE gigapipe.traces_input
(
    oid String DEFAULT '0',
    trace_id FixedString(16),
    span_id FixedString(8),
    parent_id String,
    name String,
    timestamp_ns Int64,
    duration_ns Int64,
    service_name String,
    payload_type Int8,
    payload String,
    tags Array(Tuple(String, String))
)
ENGINE = Null;
CREATE MATERIALIZED VIEW gigapipe.traces_input_traces_mv TO gigapipe.tempo_traces
AS SELECT oid, trace_id, span_id, parent_id, name, timestamp_ns, duration_ns, service_name, payload_type, payload
FROM gigapipe.traces_input;
CREATE MATERIALIZED VIEW gigapipe.traces_input_tags_mv TO gigapipe.tempo_traces_attrs_gin
AS SELECT oid, toDate(fromUnixTimestamp(intDiv(timestamp_ns, 1000000000))) AS date, tupleElement(tag, 1) AS key,
    tupleElement(tag, 2) AS val, trace_id, span_id, timestamp_ns, duration_ns AS duration
FROM gigapipe.traces_input ARRAY JOIN tags AS tag;
CREATE TABLE gigapipe.tempo_traces_dist AS gigapipe.tempo_traces
ENGINE = Distributed(one_node, gigapipe, tempo_traces, sipHash64(oid, trace_id)) SETTINGS skip_unavailable_shards = 1;
