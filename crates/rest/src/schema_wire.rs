//! Wire format of the access model.

use serde::{Deserialize, Serialize};
use tracewarden_model::{AccessModel, Binding, ColumnValue, Display, ReadAs, TimeBucket, TimeUnit};
use tracewarden_service::{CurrentModel, SchemaEcho, SearchedAround};
use utoipa::ToSchema;

/// The bound table with its structural columns, as in every response with spans.
#[serde_with::apply(Option => #[schema(nullable = false)])]
#[serde_with::skip_serializing_none]
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
    /// Unit of the timestamp, if the column holds integers.
    timestamp_unit: Option<TimeUnit>,
    /// Column with the parent's span id.
    #[schema(examples("ParentSpanId"))]
    parent_span_id: String,
    /// Columns of a span that pages show, as far as they are configured.
    display: Display,
    /// Version of the access model.
    version: u64,
    /// Columns that the spans lack because `columns` did not name them: alias columns. Absent if `columns` was sent and in
    /// responses without spans; may also be absent in NDJSON responses of long searches.
    omitted_columns: Option<Vec<String>>,
    /// Of a query without a trace index: spans outside of this time were not read when traces were matched. Absent if no such
    /// bound applied.
    searched_around: Option<SearchedAround>,
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
            timestamp_unit: binding.timestamp_unit,
            parent_span_id: binding.parent_span_id.clone(),
            display: binding.display.clone(),
            version: *version,
            omitted_columns: omitted_columns.clone(),
            searched_around: searched_around.map(SearchedAround::from),
        }
    }
}

/// A table to bind.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PutBinding)]
pub(crate) struct BindingRequest {
    /// The version of the access model to replace; acts as `If-Match` does.
    version: Option<u64>,
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
    /// Unit of the timestamp, if the column holds integers.
    timestamp_unit: Option<TimeUnit>,
    /// Column with the parent's span id, empty on a root span.
    #[schema(examples("ParentSpanId"))]
    parent_span_id: String,
    /// Table in the same database with the trace bounds, in columns `TraceId`, `Start`, `End` or `trace_id`, `start`, `end`.
    #[schema(examples("otel_traces_trace_id_ts"))]
    trace_index: Option<String>,
    /// How a table is read whose engine replaces or collapses rows; required for such an engine, refused for others.
    read_as: Option<ReadAs>,
    /// Only rows in which each of these columns has this value are spans: the table holds those of other tenants, too.
    #[serde(default)]
    #[schema(required = false)]
    only: Vec<ColumnValue>,
    /// Column with the start of each span's time bucket, if it leads the sorting key.
    time_bucket: Option<TimeBucket>,
    /// Columns that summaries show.
    #[serde(default)]
    #[schema(required = false)]
    display: Display,
}

impl BindingRequest {
    /// Returns the version to replace, if the body has one, and the binding.
    pub(crate) fn into_parts(self) -> (Option<u64>, Binding) {
        let binding = Binding {
            database: self.database,
            table: self.table,
            trace_id: self.trace_id,
            span_id: self.span_id,
            timestamp: self.timestamp,
            parent_span_id: self.parent_span_id,
            trace_index: self.trace_index,
            timestamp_unit: self.timestamp_unit,
            read_as: self.read_as,
            only: self.only,
            time_bucket: self.time_bucket,
            display: self.display,
        };
        (self.version, binding)
    }
}

/// Returns the binding and the marked fields, with the version of the whole access model.
pub(crate) fn access_model(CurrentModel { version, model }: CurrentModel) -> AccessModel {
    AccessModel { version, ..model }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn responses_tell_how_to_read_the_timestamp_but_not_which_rows_count() {
        let column = || "column".to_owned();
        let only = vec![ColumnValue { column: column(), value: "tenant".to_owned() }];
        let binding = Binding {
            database: column(),
            table: column(),
            trace_id: column(),
            span_id: column(),
            timestamp: column(),
            parent_span_id: column(),
            trace_index: Some(column()),
            timestamp_unit: Some(TimeUnit::Microseconds),
            only,
            ..Binding::default()
        };
        let schema = SchemaEcho { binding, version: 1, omitted_columns: None, searched_around: None };
        let schema = serde_json::to_value(SchemaBinding::new(&schema)).unwrap();
        assert_eq!(schema["timestamp_unit"], json!("us"));
        assert!(schema.get("only").is_none() && schema.get("trace_index").is_none(), "{schema}");
    }
}
