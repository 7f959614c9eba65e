//! Wire format of the access model.

use serde::{Deserialize, Serialize};
use tracewarden_model::{Binding, Display, FieldSource, MarkedField, Timestamp};
use tracewarden_service::{CurrentModel, SchemaEcho};
use utoipa::ToSchema;

use crate::preconditions::Version;
use crate::wire::Time;

/// The bound table with its structural columns, as in every response with spans.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SchemaBinding {
    /// Database in ClickHouse.
    #[schema(examples("otel"))]
    database: String,
    /// Table with one row for each span.
    #[schema(examples("otel_traces"))]
    table: String,
    /// Column with the trace id.
    #[schema(examples("TraceId"))]
    trace_id: String,
    /// Column with the span id.
    #[schema(examples("SpanId"))]
    span_id: String,
    /// Column with the span's start.
    #[schema(examples("Timestamp"))]
    timestamp: String,
    /// Column with the parent's span id.
    #[schema(examples("ParentSpanId"))]
    parent_span_id: String,
    /// Columns of a span that pages show, as far as they are configured.
    display: WireDisplay,
    /// Version of the access model.
    version: u64,
    /// Columns that the spans lack because `columns` did not name them: alias columns. Absent if `columns` was sent and in
    /// responses without spans; may also be absent in NDJSON responses of long searches.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    omitted_columns: Option<Vec<String>>,
    /// Of a query without a trace index: spans outside of this time were not read when traces were matched. Absent if no such
    /// bound applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    searched_around: Option<SearchedAround>,
}

/// Time range around the window from which a search read the spans of traces.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SearchedAround {
    /// Start, inclusive.
    from: Time,
    /// End, exclusive.
    to: Time,
}

impl From<(Timestamp, Timestamp)> for SearchedAround {
    fn from((from, to): (Timestamp, Timestamp)) -> Self {
        Self { from: from.into(), to: to.into() }
    }
}

impl SchemaBinding {
    pub(crate) fn new(schema: &SchemaEcho) -> Self {
        let SchemaEcho { binding, version, omitted_columns, searched_around } = schema;
        Self {
            database: binding.database.clone(),
            table: binding.table.clone(),
            trace_id: binding.trace_id.clone(),
            span_id: binding.span_id.clone(),
            timestamp: binding.timestamp.clone(),
            parent_span_id: binding.parent_span_id.clone(),
            display: binding.display.clone().into(),
            version: *version,
            omitted_columns: omitted_columns.clone(),
            searched_around: searched_around.map(SearchedAround::from),
        }
    }
}

/// A table that is bound as trace source.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Binding)]
pub(crate) struct WireBinding {
    /// Database in ClickHouse.
    #[schema(examples("otel"))]
    database: String,
    /// Table with one row for each span.
    #[schema(examples("otel_traces"))]
    table: String,
    /// Column with the trace id.
    #[schema(examples("TraceId"))]
    trace_id: String,
    /// Column with the span id.
    #[schema(examples("SpanId"))]
    span_id: String,
    /// Column with the span's start.
    #[schema(examples("Timestamp"))]
    timestamp: String,
    /// Column with the parent's span id, empty on a root span.
    #[schema(examples("ParentSpanId"))]
    parent_span_id: String,
    /// Table in the same database with the trace bounds, in columns `TraceId`, `Start`, `End`.
    #[schema(examples("otel_traces_trace_id_ts"))]
    trace_index: Option<String>,
    /// Columns that summaries show.
    #[serde(default)]
    #[schema(required = false)]
    display: WireDisplay,
}

/// A table to bind.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PutBinding)]
pub(crate) struct BindingRequest {
    /// The version of the access model to replace; acts as `If-Match` does.
    #[schema(value_type = Option<u64>)]
    version: Option<Version>,
    /// Database in ClickHouse.
    #[schema(examples("otel"))]
    database: String,
    /// Table with one row for each span.
    #[schema(examples("otel_traces"))]
    table: String,
    /// Column with the trace id.
    #[schema(examples("TraceId"))]
    trace_id: String,
    /// Column with the span id.
    #[schema(examples("SpanId"))]
    span_id: String,
    /// Column with the span's start.
    #[schema(examples("Timestamp"))]
    timestamp: String,
    /// Column with the parent's span id, empty on a root span.
    #[schema(examples("ParentSpanId"))]
    parent_span_id: String,
    /// Table in the same database with the trace bounds, in columns `TraceId`, `Start`, `End`.
    #[schema(examples("otel_traces_trace_id_ts"))]
    trace_index: Option<String>,
    /// Columns that summaries show.
    #[serde(default)]
    #[schema(required = false)]
    display: WireDisplay,
}

impl BindingRequest {
    /// Returns the version to replace, if the body has one, and the binding.
    pub(crate) fn into_parts(self) -> (Option<Version>, Binding) {
        let Self {
            version,
            database,
            table,
            trace_id,
            span_id,
            timestamp,
            parent_span_id,
            trace_index,
            display,
        } = self;
        let binding = WireBinding {
            database,
            table,
            trace_id,
            span_id,
            timestamp,
            parent_span_id,
            trace_index,
            display,
        };
        (version, binding.into())
    }
}

/// Columns that summaries and pages show.
#[derive(Debug, Serialize, Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = Display)]
pub(crate) struct WireDisplay {
    /// Column with the operation name of a span.
    name: Option<String>,
    /// Column with the service name of a span.
    service: Option<String>,
    /// Column with the duration of a span in nanoseconds.
    duration: Option<String>,
    /// Column with the status of a span.
    status: Option<String>,
    /// Column with the kind of a span.
    kind: Option<String>,
}

impl From<Display> for WireDisplay {
    fn from(Display { name, service, duration, status, kind }: Display) -> Self {
        Self { name, service, duration, status, kind }
    }
}

impl From<WireBinding> for Binding {
    fn from(wire: WireBinding) -> Self {
        let WireDisplay { name, service, duration, status, kind } = wire.display;
        Self {
            database: wire.database,
            table: wire.table,
            trace_id: wire.trace_id,
            span_id: wire.span_id,
            timestamp: wire.timestamp,
            parent_span_id: wire.parent_span_id,
            trace_index: wire.trace_index,
            display: Display { name, service, duration, status, kind },
        }
    }
}

impl From<Binding> for WireBinding {
    fn from(binding: Binding) -> Self {
        Self {
            database: binding.database,
            table: binding.table,
            trace_id: binding.trace_id,
            span_id: binding.span_id,
            timestamp: binding.timestamp,
            parent_span_id: binding.parent_span_id,
            trace_index: binding.trace_index,
            display: binding.display.into(),
        }
    }
}

/// The logical type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogicalType {
    /// Text.
    String,
    /// A list of strings.
    StringArray,
    /// `true` or `false`.
    Boolean,
    /// A number; filters only.
    Number,
}

impl From<tracewarden_model::LogicalType> for LogicalType {
    fn from(logical: tracewarden_model::LogicalType) -> Self {
        match logical {
            tracewarden_model::LogicalType::String => Self::String,
            tracewarden_model::LogicalType::StringArray => Self::StringArray,
            tracewarden_model::LogicalType::Boolean => Self::Boolean,
            tracewarden_model::LogicalType::Number => Self::Number,
        }
    }
}

impl From<LogicalType> for tracewarden_model::LogicalType {
    fn from(logical: LogicalType) -> Self {
        match logical {
            LogicalType::String => Self::String,
            LogicalType::StringArray => Self::StringArray,
            LogicalType::Boolean => Self::Boolean,
            LogicalType::Number => Self::Number,
        }
    }
}

/// Where a row stores the value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = FieldSource)]
pub(crate) enum WireFieldSource {
    /// In the column itself.
    Column,
    /// Under a key of a map column.
    MapKey,
    /// At a path of a JSON column.
    JsonPath,
}

impl From<FieldSource> for WireFieldSource {
    fn from(source: FieldSource) -> Self {
        match source {
            FieldSource::Column => Self::Column,
            FieldSource::MapKey => Self::MapKey,
            FieldSource::JsonPath => Self::JsonPath,
        }
    }
}

impl From<WireFieldSource> for FieldSource {
    fn from(source: WireFieldSource) -> Self {
        match source {
            WireFieldSource::Column => Self::Column,
            WireFieldSource::MapKey => Self::MapKey,
            WireFieldSource::JsonPath => Self::JsonPath,
        }
    }
}

/// A marked field as administrators see it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MarkedField)]
pub(crate) struct WireMarkedField {
    /// The map or JSON column; empty for a field that is a column itself.
    map: String,
    /// The key within the map, the path within the JSON column, or the column's name.
    name: String,
    /// Reference to the field in policies.
    #[serde(rename = "ref")]
    #[schema(read_only)]
    reference: String,
    /// Logical type for filters and policies.
    #[serde(rename = "type")]
    logical: LogicalType,
    /// ClickHouse type of the column, of the map's values, or of the value at the path; `Dynamic` for a path without a declared
    /// type.
    #[schema(read_only)]
    column_type: String,
    /// Where a row stores the value.
    #[schema(read_only)]
    source: WireFieldSource,
    /// Whether filters may use the field.
    filterable: bool,
    /// Whether policies may use the field.
    policy: bool,
    /// The materialized column that policies read instead of the map; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<String>,
}

impl From<&MarkedField> for WireMarkedField {
    fn from(field: &MarkedField) -> Self {
        Self {
            map: field.field.map.clone().unwrap_or_default(),
            name: field.field.name.clone(),
            reference: field.field.to_string(),
            logical: field.logical.into(),
            column_type: field.column_type.to_string(),
            source: field.source.into(),
            filterable: field.filterable,
            policy: field.policy,
            column: field.column.clone(),
        }
    }
}

/// The binding and the marked fields.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AccessModel)]
pub(crate) struct WireAccessModel {
    /// Version of the access model; increases by one with every change of binding, fields, roles or tests.
    version: u64,
    /// The bound table; null before a table is bound for the first time.
    #[schema(required = true)]
    binding: Option<WireBinding>,
    /// The marked fields.
    fields: Vec<WireMarkedField>,
}

impl From<CurrentModel> for WireAccessModel {
    fn from(CurrentModel { version, model }: CurrentModel) -> Self {
        Self {
            version,
            fields: model.fields.iter().map(WireMarkedField::from).collect(),
            binding: model.binding.map(WireBinding::from),
        }
    }
}
