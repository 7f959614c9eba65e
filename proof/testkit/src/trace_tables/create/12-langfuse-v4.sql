-- Langfuse 4: one wide row a span, metadata as a pair of arrays, attributes of the trace on each span.
CREATE DATABASE langfuse;
CREATE TABLE langfuse.events_full
(
    project_id String,
    trace_id String,
    span_id String,
    parent_span_id String,
    start_time DateTime64(6),
    end_time Nullable(DateTime64(6)),
    name String,
    type LowCardinality(String),
    environment LowCardinality(String) DEFAULT 'default',
    version String,
    release String,
    trace_name String,
    user_id String,
    session_id String,
    tags Array(String),
    level LowCardinality(String),
    status_message String,
    provided_model_name String,
    usage_details Map(LowCardinality(String), UInt64),
    cost_details Map(LowCardinality(String), Decimal(18, 12)),
    total_cost Decimal(18, 12) ALIAS cost_details['total'],
    input String CODEC(ZSTD(3)),
    output String CODEC(ZSTD(3)),
    metadata_names Array(String),
    metadata_values Array(String),
    event_ts DateTime64(6),
    is_deleted UInt8,
    INDEX idx_trace_id trace_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX idx_input lower(input) TYPE text(tokenizer = splitByNonAlpha) GRANULARITY 1, -- from 26.2
    INDEX idx_output lower(output) TYPE text(tokenizer = splitByNonAlpha) GRANULARITY 1, -- from 26.2
    INDEX idx_span_id span_id TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(event_ts, is_deleted)
PARTITION BY toYYYYMM(start_time)
ORDER BY (project_id, toStartOfMinute(start_time), xxHash32(trace_id), span_id, start_time)
SAMPLE BY xxHash32(trace_id)
SETTINGS index_granularity = 8192
, enable_full_text_index = 1 -- from 26.2
;
