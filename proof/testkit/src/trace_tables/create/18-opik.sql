-- Comet Opik: ids are texts of fixed length, attributes are JSON text, the newest row of a span counts unless it is deleted.
CREATE DATABASE opik;
CREATE TABLE opik.spans
(
    id FixedString(36),
    workspace_id String,
    project_id FixedString(36),
    trace_id FixedString(36),
    parent_span_id String DEFAULT '',
    name String,
    type Enum8('unknown' = 0, 'general' = 1, 'tool' = 2, 'llm' = 3, 'guardrail' = 4),
    start_time DateTime64(6, 'UTC'),
    end_time DateTime64(6, 'UTC'),
    duration Float64 MATERIALIZED if(end_time = toDateTime64(0, 6, 'UTC'), nan,
        dateDiff('microsecond', start_time, end_time) / 1000.),
    input String DEFAULT '',
    output String DEFAULT '',
    metadata String DEFAULT '',
    tags Array(String),
    usage Map(String, Int32),
    model String DEFAULT '',
    provider String DEFAULT '',
    total_estimated_cost Decimal(38, 12),
    error_info String DEFAULT '',
    created_at DateTime64(9, 'UTC') DEFAULT now64(9),
    last_updated_at DateTime64(6, 'UTC') DEFAULT now64(6),
    created_by String DEFAULT '',
    last_updated_by String DEFAULT '',
    id_at DateTime('UTC') MATERIALIZED toDateTime(start_time),
    is_deleted UInt8 DEFAULT 0
)
ENGINE = ReplacingMergeTree(last_updated_at, is_deleted)
PARTITION BY toMonday(id_at)
ORDER BY (workspace_id, project_id, trace_id, parent_span_id, id);
