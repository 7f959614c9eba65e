//! The tables of the OpenTelemetry Collector's ClickHouse exporter, without a TTL.

use std::sync::Arc;

use crate::engine::Engine;
use crate::error::EngineError;

pub const TABLE: &str = "otel_traces";

/// Table settings. Acknowledged spans must survive a crash: parts are synced when they are written and when a merge
/// replaces them.
const DURABILITY_SETTINGS: &str = "fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1";

pub fn quote_identifier(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`").replace('\0', "\\0"))
}

/// Creates the missing objects. An existing table keeps its columns, but is made durable.
pub fn create(engine: &Arc<Engine>, database: &str) -> Result<(), EngineError> {
    let database = quote_identifier(database);
    let mut connection = engine.connect()?;
    for statement in [
        format!("CREATE DATABASE IF NOT EXISTS {database}"),
        spans_table(&database),
        trace_index_table(&database),
        trace_index_view(&database),
        format!("ALTER TABLE {database}.{TABLE} MODIFY SETTING {DURABILITY_SETTINGS}"),
        format!("ALTER TABLE {database}.{TABLE}_trace_id_ts MODIFY SETTING {DURABILITY_SETTINGS}"),
    ] {
        connection.run(&statement)?;
    }
    Ok(())
}

fn spans_table(database: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {database}.{TABLE} (
            Timestamp DateTime64(9) CODEC(Delta(8), ZSTD(1)),
            TraceId String CODEC(ZSTD(1)),
            SpanId String CODEC(ZSTD(1)),
            ParentSpanId String CODEC(ZSTD(1)),
            TraceState String CODEC(ZSTD(1)),
            SpanName LowCardinality(String) CODEC(ZSTD(1)),
            SpanKind LowCardinality(String) CODEC(ZSTD(1)),
            ServiceName LowCardinality(String) CODEC(ZSTD(1)),
            ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
            ScopeName String CODEC(ZSTD(1)),
            ScopeVersion String CODEC(ZSTD(1)),
            SpanAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
            Duration UInt64 CODEC(ZSTD(1)),
            StatusCode LowCardinality(String) CODEC(ZSTD(1)),
            StatusMessage String CODEC(ZSTD(1)),
            Events Nested (
                Timestamp DateTime64(9),
                Name LowCardinality(String),
                Attributes Map(LowCardinality(String), String)
            ) CODEC(ZSTD(1)),
            Links Nested (
                TraceId String,
                SpanId String,
                TraceState String,
                Attributes Map(LowCardinality(String), String)
            ) CODEC(ZSTD(1)),
            INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1,
            INDEX idx_res_attr_key mapKeys(ResourceAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
            INDEX idx_res_attr_value mapValues(ResourceAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
            INDEX idx_span_attr_key mapKeys(SpanAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
            INDEX idx_span_attr_value mapValues(SpanAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
            INDEX idx_duration Duration TYPE minmax GRANULARITY 1
        ) ENGINE = MergeTree
        PARTITION BY toDate(Timestamp)
        ORDER BY (ServiceName, SpanName, toDateTime(Timestamp))
        SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1, {DURABILITY_SETTINGS}"
    )
}

fn trace_index_table(database: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {database}.{TABLE}_trace_id_ts (
            TraceId String CODEC(ZSTD(1)),
            Start DateTime CODEC(Delta, ZSTD(1)),
            End DateTime CODEC(Delta, ZSTD(1)),
            INDEX idx_trace_id TraceId TYPE bloom_filter(0.01) GRANULARITY 1
        ) ENGINE = MergeTree
        PARTITION BY toDate(Start)
        ORDER BY (TraceId, Start)
        SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1, {DURABILITY_SETTINGS}"
    )
}

fn trace_index_view(database: &str) -> String {
    format!(
        "CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.{TABLE}_trace_id_ts_mv TO {database}.{TABLE}_trace_id_ts
        AS SELECT TraceId, min(Timestamp) AS Start, max(Timestamp) AS End
        FROM {database}.{TABLE} WHERE TraceId != '' GROUP BY TraceId"
    )
}

/// Returns the statement for the data that [`super::rows`] writes, without a `FORMAT` clause.
pub fn insert_statement(database: &str) -> String {
    format!(
        "INSERT INTO {}.{TABLE} (Timestamp, TraceId, SpanId, ParentSpanId, TraceState, SpanName, SpanKind, ServiceName, ResourceAttributes, \
         ScopeName, ScopeVersion, SpanAttributes, Duration, StatusCode, StatusMessage, Events.Timestamp, Events.Name, Events.Attributes, \
         Links.TraceId, Links.SpanId, Links.TraceState, Links.Attributes)",
        quote_identifier(database)
    )
}
