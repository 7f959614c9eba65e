-- W&B Weave: ordered newest first by a negative integer, attributes as JSON text.
CREATE DATABASE weave;
CREATE TABLE weave.calls_complete
(
    id String,
    project_id String,
    created_at DateTime64(3) DEFAULT now64(3),
    trace_id String,
    op_name String,
    started_at DateTime64(6),
    started_at_inverse Int64 MATERIALIZED -toUnixTimestamp64Micro(started_at),
    ended_at Nullable(DateTime64(6)),
    updated_at Nullable(DateTime64(3)),
    deleted_at Nullable(DateTime64(3)),
    parent_id Nullable(String),
    thread_id Nullable(String),
    turn_id Nullable(String),
    attributes_dump String,
    inputs_dump String,
    input_refs Array(String),
    output_dump Nullable(String),
    output_refs Array(String),
    summary_dump Nullable(String),
    exception Nullable(String),
    display_name Nullable(String),
    wb_user_id Nullable(String),
    wb_run_id Nullable(String),
    INDEX idx_trace_id trace_id TYPE bloom_filter GRANULARITY 1,
    INDEX idx_id id TYPE bloom_filter GRANULARITY 1
)
ENGINE = MergeTree
ORDER BY (project_id, started_at_inverse, id)
SETTINGS index_granularity = 8192;
