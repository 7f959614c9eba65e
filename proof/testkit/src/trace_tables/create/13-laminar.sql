-- Laminar: ids as UUID, attributes as JSON text, and a parameterised view for its own readers.
CREATE DATABASE laminar;
CREATE TABLE laminar.spans
(
    span_id UUID,
    name String,
    span_type UInt8,
    start_time DateTime64(9, 'UTC'),
    end_time DateTime64(9, 'UTC'),
    input_cost Float64,
    output_cost Float64,
    total_cost Float64,
    model String,
    session_id String,
    project_id UUID,
    trace_id UUID,
    provider String,
    input_tokens Int64,
    output_tokens Int64,
    total_tokens Int64,
    user_id String,
    path String,
    input String CODEC(ZSTD(3)),
    output String CODEC(ZSTD(3)),
    size_bytes UInt64 DEFAULT 0,
    status String DEFAULT '',
    attributes String DEFAULT '',
    request_model String DEFAULT '',
    response_model String DEFAULT '',
    parent_span_id UUID,
    trace_metadata String DEFAULT '',
    trace_type UInt8 DEFAULT 0,
    tags_array Array(String) DEFAULT [],
    events Array(Tuple(timestamp Int64, name String, attributes String)) DEFAULT [],
    input_message_hashes Array(FixedString(32)),
    output_message_hashes Array(FixedString(32)),
    tool_definitions_hash FixedString(32),
    span_kind UInt8 DEFAULT span_type,
    PROJECTION spans_no_io_by_start_time
    (
        SELECT span_id, name, span_type, start_time, end_time, project_id, trace_id, parent_span_id, status, user_id
        ORDER BY project_id, start_time, trace_id, span_id
    )
)
ENGINE = MergeTree
ORDER BY (project_id, trace_id, start_time, span_id)
SETTINGS index_granularity = 8192;
CREATE VIEW laminar.spans_v0 SQL SECURITY INVOKER
AS SELECT span_id, name, start_time, end_time, trace_id, parent_span_id, status, user_id, attributes
FROM laminar.spans WHERE project_id = {project_id:UUID};
