//! The access model: the bound table and the fields that filters and policies may use.

mod forms;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::column_type::ColumnType;
use crate::field::{FieldRef, FieldSource};
use crate::logical::LogicalType;
use crate::nearest::nearest;
use crate::spelling::spelled;

/// A table that is bound as trace source.
// Stored in this form, too: another form needs a migration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Binding {
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
    pub timestamp_unit: Option<TimeUnit>,
    /// Column with the parent's span id, empty on a root span.
    #[schema(examples("ParentSpanId"))]
    pub parent_span_id: String,
    /// Table in the same database with the trace bounds, in columns `TraceId`, `Start`, `End` or `trace_id`, `start`, `end`.
    #[schema(examples("otel_traces_trace_id_ts"))]
    pub trace_index: Option<String>,
    /// How a table is read whose engine replaces or collapses rows; required for such an engine, refused for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_as: Option<ReadAs>,
    /// Only rows in which each of these columns has this value are spans: the table holds those of other tenants, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub only: Vec<ColumnValue>,
    /// Column with the start of each span's time bucket, if it leads the sorting key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_bucket: Option<TimeBucket>,
    /// Columns that summaries show.
    #[serde(default)]
    #[schema(required = false)]
    pub display: Display,
}

/// How a table is read whose engine replaces or collapses rows with the same sorting key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReadAs {
    /// As after all merges (`FINAL`): replaced and deleted rows are absent.
    Final,
    /// As stored: replaced and deleted rows are present until ClickHouse merges them.
    AsIs,
}

/// A column and the value that it must have.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ColumnValue {
    /// The column.
    #[schema(examples("project_id"))]
    pub column: String,
    /// The value, as text.
    #[schema(examples("7"))]
    pub value: String,
}

// It leads the sorting key of some tables, which then need it to find the spans of a time range.
/// A column with the start of each span's time bucket.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeBucket {
    /// The column: a time, or seconds since the epoch.
    #[schema(examples("ts_bucket_start"))]
    pub column: String,
    /// Length of a bucket in seconds.
    #[schema(examples(1800))]
    pub seconds: u32,
}

/// Unit of an integer that is a time or a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    #[default]
    Nanoseconds,
}

// The longest first.
spelled!(TimeUnit, "Unit of an integer that is a time or a duration.", {
    Seconds = "s",
    Milliseconds = "ms",
    Microseconds = "us",
    Nanoseconds = "ns",
});

// The safe one first.
spelled!(ReadAs, "How rows with the same sorting key are read.", {
    Final = "final",
    AsIs = "as_is",
});

impl TimeUnit {
    /// Number of decimals of a second.
    pub fn decimals(self) -> u8 {
        match self {
            Self::Seconds => 0,
            Self::Milliseconds => 3,
            Self::Microseconds => 6,
            Self::Nanoseconds => 9,
        }
    }

    /// The unit in nanoseconds.
    pub fn nanos(self) -> i64 {
        10_i64.pow(9 - u32::from(self.decimals()))
    }
}

impl Display {
    /// Status values of failed spans, by the versions of the OpenTelemetry exporter.
    pub const ERROR_VALUES: [&str; 3] = ["Error", "STATUS_CODE_ERROR", "ERROR"];

    /// Returns the status values of failed spans.
    pub fn statuses_of_errors(&self) -> Vec<String> {
        match self.error_values.as_slice() {
            [] => Self::ERROR_VALUES.map(str::to_owned).to_vec(),
            values => values.to_vec(),
        }
    }
}

impl Binding {
    /// The four structural columns: trace id, span id, timestamp, parent span id.
    pub fn structural_columns(&self) -> [&str; 4] {
        [&self.trace_id, &self.span_id, &self.timestamp, &self.parent_span_id]
    }
}

/// Columns that summaries and pages show.
// Stored in this form, too: another form needs a migration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Display {
    /// Column with the operation name of a span.
    pub name: Option<String>,
    /// Column with the service name of a span.
    pub service: Option<String>,
    /// Column with the duration of a span.
    pub duration: Option<String>,
    /// Unit of the duration; nanoseconds by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_unit: Option<TimeUnit>,
    /// Column with the end of a span, instead of its duration: of the same kind as the timestamp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Column with the status of a span.
    pub status: Option<String>,
    /// Values of the status, as text, that mean an error; `Error`, `STATUS_CODE_ERROR` and `ERROR` by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub error_values: Vec<String>,
    /// Column with the kind of a span.
    pub kind: Option<String>,
}

/// A field that filters or policies may use.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(into = "forms::MarkedFieldForm")]
pub struct MarkedField {
    /// Reference to the field.
    pub field: FieldRef,
    /// Location of the value in a row.
    pub source: FieldSource,
    /// Its type for filters and policies.
    pub logical: LogicalType,
    /// Type of the column, of the map's values for a key, or of the value at the path: [`ColumnType::Dynamic`] if the
    /// path has no declared type.
    pub column_type: ColumnType,
    /// Whether filters may use the field.
    pub filterable: bool,
    /// Whether policies may use the field; never for numbers.
    pub policy: bool,
    /// For a key of a map: the adopted column, which policies read instead of the map. It holds the map's value under
    /// the key, or NULL if the key is absent. The field has the same meaning with and without it.
    pub column: Option<String>,
}

/// The binding and the marked fields.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, ToSchema)]
pub struct AccessModel {
    // Of the binding and the fields alone, except in answers of the API; 0 before the first change.
    /// Version of the access model; increases by one with every change of binding, fields, roles or tests.
    pub version: u64,
    /// The bound table; null before a table is bound for the first time.
    #[schema(required = true)]
    pub binding: Option<Binding>,
    // In the administrator's order.
    /// The marked fields.
    pub fields: Vec<MarkedField>,
}

impl AccessModel {
    /// Returns the marked field with this name.
    pub fn field(&self, field: &FieldRef) -> Option<&MarkedField> {
        self.fields.iter().find(|marked| &marked.field == field)
    }

    /// Returns at most three fields for which `visible` holds and that `wanted` names in another form than theirs: a
    /// key without its map, a reference given as the name of a column or key, or a key after its map and a dot.
    pub fn intended_fields(
        &self,
        wanted: &FieldRef,
        visible: impl Fn(&MarkedField) -> bool,
    ) -> Vec<FieldRef> {
        let read = FieldRef::parse(&wanted.name);
        let in_map = |field: &FieldRef| wanted.map.is_none() || wanted.map == field.map;
        let is_intended = |field: &&FieldRef| {
            **field == read
                || in_map(field) && field.map.is_some() && field.name == wanted.name
                || field.map.as_ref().is_some_and(|map| {
                    let key = wanted.name.strip_prefix(map.as_str()).and_then(|rest| rest.strip_prefix('.'));
                    in_map(field) && key == Some(field.name.as_str())
                })
        };
        let known = self.fields.iter().filter(|field| visible(field)).map(|field| &field.field);
        known.filter(|field| *field != wanted).filter(is_intended).take(3).cloned().collect()
    }

    /// Returns names of marked fields for which `visible` holds and that resemble `wanted`: keys of the same map if it
    /// has any visible key, otherwise any fields.
    pub fn suggest(&self, wanted: &FieldRef, visible: impl Fn(&MarkedField) -> bool) -> Vec<String> {
        let known: Vec<&FieldRef> =
            self.fields.iter().filter(|field| visible(field)).map(|field| &field.field).collect();
        if wanted.map.is_some() {
            let siblings = || known.iter().filter(|field| field.map == wanted.map);
            let keys = nearest(&wanted.name, siblings().map(|field| field.name.as_str()));
            if !keys.is_empty() || siblings().next().is_some() {
                let with_map = |name| FieldRef { map: wanted.map.clone(), name };
                return keys.into_iter().map(|key| with_map(key).to_string()).collect();
            }
        }
        let names: Vec<String> = known.iter().map(ToString::to_string).collect();
        nearest(&wanted.to_string(), names.iter().map(String::as_str))
    }
}
