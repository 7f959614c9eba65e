//! Wire format of the access model.

use serde::Serialize;
use tracewarden_model::Timestamp;
use tracewarden_service::{CurrentModel, SchemaEcho, Time, WireBinding, WireDisplay, WireMarkedField};
use utoipa::ToSchema;

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
