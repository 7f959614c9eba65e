//! The serialised form of the binding.

use serde::{Deserialize, Serialize};
use tracewarden_model::{Binding, ColumnValue, Display, ReadAs, RowOptions, TimeBucket, TimeUnit};
use utoipa::ToSchema;

use crate::core::wire::same_values;

/// A table that is bound as trace source.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Binding)]
pub struct WireBinding {
    /// Database in ClickHouse.
    #[schema(examples("otel"))]
    pub database: String,
    /// Table with one row for each span.
    #[schema(examples("otel_traces"))]
    pub table: String,
    /// Column with the trace id.
    #[schema(examples("TraceId"))]
    pub trace_id: String,
    /// Column with the span id.
    #[schema(examples("SpanId"))]
    pub span_id: String,
    /// Column with the span's start.
    #[schema(examples("Timestamp"))]
    pub timestamp: String,
    /// Unit of the timestamp, if the column holds integers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp_unit: Option<WireTimeUnit>,
    /// Column with the parent's span id, empty on a root span.
    #[schema(examples("ParentSpanId"))]
    pub parent_span_id: String,
    /// Table in the same database with the trace bounds, in columns `TraceId`, `Start`, `End` or `trace_id`, `start`, `end`.
    #[schema(examples("otel_traces_trace_id_ts"))]
    pub trace_index: Option<String>,
    /// How a table is read whose engine replaces or collapses rows; required for such an engine, refused for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_as: Option<WireReadAs>,
    /// Only rows in which each of these columns has this value are spans: the table holds those of other tenants, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub only: Vec<WireColumnValue>,
    /// Column with the start of each span's time bucket, if it leads the sorting key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_bucket: Option<WireTimeBucket>,
    /// Columns that summaries show.
    #[serde(default)]
    #[schema(required = false)]
    pub display: WireDisplay,
}

/// Columns that summaries and pages show.
#[derive(Debug, Serialize, Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = Display)]
pub struct WireDisplay {
    /// Column with the operation name of a span.
    name: Option<String>,
    /// Column with the service name of a span.
    service: Option<String>,
    /// Column with the duration of a span.
    duration: Option<String>,
    /// Unit of the duration; nanoseconds by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_unit: Option<WireTimeUnit>,
    /// Column with the end of a span, instead of its duration: of the same kind as the timestamp.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<String>,
    /// Column with the status of a span.
    status: Option<String>,
    /// Values of the status, as text, that mean an error; `Error`, `STATUS_CODE_ERROR` and `ERROR` by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    error_values: Vec<String>,
    /// Column with the kind of a span.
    kind: Option<String>,
}

/// Unit of an integer that is a time or a duration.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[schema(as = TimeUnit)]
pub enum WireTimeUnit {
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
}

/// How rows with the same sorting key are read.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ReadAs)]
pub enum WireReadAs {
    /// With `FINAL`: replaced and deleted rows are never shown.
    Final,
    /// As they are stored, which is faster: replaced and deleted rows are shown until ClickHouse merges them.
    AsIs,
}

/// A column and the value that it must have.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ColumnValue)]
pub struct WireColumnValue {
    /// The column.
    #[schema(examples("project_id"))]
    column: String,
    /// The value, as text.
    #[schema(examples("7"))]
    value: String,
}

/// A column with the start of each span's time bucket.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TimeBucket)]
pub struct WireTimeBucket {
    /// The column: a time, or seconds since the epoch.
    #[schema(examples("ts_bucket_start"))]
    column: String,
    /// Length of a bucket in seconds.
    #[schema(examples(1800))]
    seconds: u32,
}

same_values!(WireTimeUnit, TimeUnit { Seconds, Milliseconds, Microseconds, Nanoseconds });
same_values!(WireReadAs, ReadAs { Final, AsIs });

impl From<Display> for WireDisplay {
    fn from(display: Display) -> Self {
        let Display { name, service, duration, duration_unit, end, status, error_values, kind } = display;
        let duration_unit = duration_unit.map(Into::into);
        Self { name, service, duration, duration_unit, end, status, error_values, kind }
    }
}

impl From<WireDisplay> for Display {
    fn from(wire: WireDisplay) -> Self {
        let WireDisplay { name, service, duration, duration_unit, end, status, error_values, kind } = wire;
        let duration_unit = duration_unit.map(Into::into);
        Self { name, service, duration, duration_unit, end, status, error_values, kind }
    }
}

impl From<WireBinding> for Binding {
    fn from(wire: WireBinding) -> Self {
        let only = |WireColumnValue { column, value }| ColumnValue { column, value };
        let bucket = |WireTimeBucket { column, seconds }| TimeBucket { column, seconds };
        Self {
            database: wire.database,
            table: wire.table,
            trace_id: wire.trace_id,
            span_id: wire.span_id,
            timestamp: wire.timestamp,
            parent_span_id: wire.parent_span_id,
            trace_index: wire.trace_index,
            rows: RowOptions {
                timestamp_unit: wire.timestamp_unit.map(Into::into),
                read_as: wire.read_as.map(Into::into),
                only: wire.only.into_iter().map(only).collect(),
                time_bucket: wire.time_bucket.map(bucket),
            },
            display: wire.display.into(),
        }
    }
}

impl From<Binding> for WireBinding {
    fn from(binding: Binding) -> Self {
        let RowOptions { timestamp_unit, read_as, only, time_bucket } = binding.rows;
        let wire_only = |ColumnValue { column, value }| WireColumnValue { column, value };
        let wire_bucket = |TimeBucket { column, seconds }| WireTimeBucket { column, seconds };
        Self {
            database: binding.database,
            table: binding.table,
            trace_id: binding.trace_id,
            span_id: binding.span_id,
            timestamp: binding.timestamp,
            timestamp_unit: timestamp_unit.map(Into::into),
            parent_span_id: binding.parent_span_id,
            trace_index: binding.trace_index,
            read_as: read_as.map(Into::into),
            only: only.into_iter().map(wire_only).collect(),
            time_bucket: time_bucket.map(wire_bucket),
            display: binding.display.into(),
        }
    }
}
