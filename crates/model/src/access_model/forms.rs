//! Serialised forms that differ from their types: a binding contains the options of its rows, and a field its reference.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::{
    Binding, ColumnValue, Display, FieldSource, LogicalType, MarkedField, ReadAs, RowOptions, TimeBucket,
    TimeUnit,
};

/// A table that is bound as trace source.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct BindingForm {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp_unit: Option<TimeUnit>,
    /// Column with the parent's span id, empty on a root span.
    #[schema(examples("ParentSpanId"))]
    parent_span_id: String,
    /// Table in the same database with the trace bounds, in columns `TraceId`, `Start`, `End` or `trace_id`, `start`, `end`.
    #[schema(examples("otel_traces_trace_id_ts"))]
    trace_index: Option<String>,
    /// How a table is read whose engine replaces or collapses rows; required for such an engine, refused for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_as: Option<ReadAs>,
    /// Only rows in which each of these columns has this value are spans: the table holds those of other tenants, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    only: Vec<ColumnValue>,
    /// Column with the start of each span's time bucket, if it leads the sorting key.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_bucket: Option<TimeBucket>,
    /// Columns that summaries show.
    #[serde(default)]
    #[schema(required = false)]
    display: Display,
}

/// A marked field as administrators see it.
#[derive(Serialize, ToSchema)]
struct MarkedFieldForm {
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
    source: FieldSource,
    /// Whether filters may use the field.
    filterable: bool,
    /// Whether policies may use the field.
    policy: bool,
    /// The materialized column that policies read instead of the map; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<String>,
}

impl From<BindingForm> for Binding {
    fn from(form: BindingForm) -> Self {
        let BindingForm { timestamp_unit, read_as, only, time_bucket, .. } = form;
        Self {
            database: form.database,
            table: form.table,
            trace_id: form.trace_id,
            span_id: form.span_id,
            timestamp: form.timestamp,
            parent_span_id: form.parent_span_id,
            trace_index: form.trace_index,
            rows: RowOptions { timestamp_unit, read_as, only, time_bucket },
            display: form.display,
        }
    }
}

impl From<Binding> for BindingForm {
    fn from(binding: Binding) -> Self {
        let RowOptions { timestamp_unit, read_as, only, time_bucket } = binding.rows;
        Self {
            database: binding.database,
            table: binding.table,
            trace_id: binding.trace_id,
            span_id: binding.span_id,
            timestamp: binding.timestamp,
            timestamp_unit,
            parent_span_id: binding.parent_span_id,
            trace_index: binding.trace_index,
            read_as,
            only,
            time_bucket,
            display: binding.display,
        }
    }
}

impl From<MarkedField> for MarkedFieldForm {
    fn from(field: MarkedField) -> Self {
        let MarkedField { field, source, logical, column_type, filterable, policy, column } = field;
        Self {
            reference: field.to_string(),
            map: field.map.unwrap_or_default(),
            name: field.name,
            logical,
            column_type: column_type.to_string(),
            source,
            filterable,
            policy,
            column,
        }
    }
}

/// Gives a type the serialised form and the schema of another.
macro_rules! serialised_as {
    ($type:ident, $form:ident) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $form::from(self.clone()).serialize(serializer)
            }
        }

        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                $form::schema()
            }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                $form::schemas(schemas);
            }
        }
    };
}

serialised_as!(Binding, BindingForm);
serialised_as!(MarkedField, MarkedFieldForm);

impl<'de> Deserialize<'de> for Binding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BindingForm::deserialize(deserializer).map(Self::from)
    }
}
