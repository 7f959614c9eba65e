//! Suggested additions, and additions in place.

use serde::{Serialize, Serializer};
use tracewarden_model::FieldRef;
use utoipa::ToSchema;

/// Suggested changes to the bound table that reduce the cost of searches and reads. The service never runs these statements.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct DdlAdvice {
    /// Missing objects, those with the largest gain first, but each after the suggestions that it needs.
    pub suggestions: Vec<DdlSuggestion>,
    /// Objects that the table already has, under any name.
    pub in_place: Vec<ExistingAddition>,
    /// Checks or suggestions that were not possible, with the reason.
    pub notes: Vec<String>,
}

/// A suggested change.
#[serde_with::apply(Option => #[schema(required = true)])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct DdlSuggestion {
    /// Position in this list, from 1. It changes with the table's definition and data.
    pub number: usize,
    /// Subject of the suggestion; it never changes.
    #[schema(examples("key_column:SpanAttributes[\"tenant.id\"]"))]
    pub id: String,
    /// `key_column`, `time_projection`, `trace_projection`, `trace_index` or `skip_index`.
    #[schema(value_type = String)]
    pub kind: DdlKind,
    /// `missing`; `partial` when it is declared, but not built for all rows or a part of it is missing; `building` while
    /// ClickHouse builds it.
    #[schema(value_type = String)]
    pub state: DdlState,
    /// Statements to run in this order, each as a single statement, without a semicolon at the end. Empty while ClickHouse is
    /// building, or when only `bind_trace_index` remains to be done.
    pub statements: Vec<String>,
    /// Statements to run when ClickHouse has completed the work that `statements` started.
    pub follow_up: Vec<String>,
    /// The table to bind as `trace_index` afterwards.
    pub bind_trace_index: Option<String>,
    /// Ids of the suggestions whose statements must be run first.
    pub needs: Vec<String>,
    /// The marked fields that benefit; empty when every search benefits.
    #[serde(serialize_with = "fields")]
    #[schema(value_type = Vec<DdlField>)]
    pub fields: Vec<FieldRef>,
    /// Marked fields that do not benefit: searches on one of them stay as they are.
    #[serde(serialize_with = "fields")]
    #[schema(value_type = Vec<DdlField>)]
    pub omitted_fields: Vec<FieldRef>,
    /// The operations that become faster.
    pub speeds_up: String,
    /// The operation that the estimates refer to.
    pub measured_on: String,
    /// Amount that this operation reads now; null where it cannot be estimated.
    pub reads_before: Option<Reads>,
    /// Amount that it will read with the change; null where it cannot be estimated.
    pub reads_after: Option<Reads>,
    /// Factor by which fewer bytes are read, or fewer rows where bytes are unknown.
    #[serde(serialize_with = "two_decimals")]
    pub gain: Option<f64>,
    /// Bytes on disk that the change uses; null where they cannot be estimated.
    pub disk_bytes: Option<u64>,
}

/// A marked field.
#[derive(Serialize, ToSchema)]
struct DdlField {
    /// The map or JSON column; empty for a field that is a column itself.
    map: String,
    /// The key, the path, or the column.
    name: String,
}

fn fields<S: Serializer>(fields: &[FieldRef], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(
        fields
            .iter()
            .map(|field| DdlField { map: field.map.clone().unwrap_or_default(), name: field.name.clone() }),
    )
}

/// Serialises a gain rounded to two decimals: the estimate is not more accurate.
fn two_decimals<S: Serializer>(gain: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    gain.map(|gain| (gain * 100.0).round() / 100.0).serialize(serializer)
}

/// Estimated amount that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = DdlReads)]
pub struct Reads {
    /// Rows.
    pub rows: u64,
    /// Bytes on disk; null where the column sizes are not known.
    #[schema(required = true)]
    pub bytes: Option<u64>,
}

/// An object that the table already has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = DdlInPlace)]
pub struct ExistingAddition {
    /// The id that its suggestion would have.
    pub id: String,
    /// Kind, as in a suggestion.
    #[schema(value_type = String)]
    pub kind: DdlKind,
    /// Name of the object in the table.
    pub name: String,
    /// Bytes on disk that it uses; null where they are not known.
    #[schema(required = true)]
    pub disk_bytes: Option<u64>,
}

/// Kinds of additions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, strum::Display)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DdlKind {
    /// A materialized column for a map key, with a skip index on it.
    #[default]
    KeyColumn,
    /// A projection with the columns that searches read, sorted by time.
    TimeProjection,
    /// A projection with all columns, sorted by trace id.
    TraceProjection,
    /// A table with the time bounds of each trace.
    TraceIndex,
    /// A skip index on other columns.
    SkipIndex,
}

/// How much of an addition exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DdlState {
    /// Nothing.
    #[default]
    Missing,
    /// Part of it: declared, but not built for all rows, or incomplete.
    Partial,
    /// ClickHouse is building it.
    Building,
}

impl DdlSuggestion {
    /// Returns the bytes that are read before and after, or the rows where bytes are unknown.
    pub(super) fn reads(&self) -> Option<(u64, u64)> {
        let (before, after) = (self.reads_before?, self.reads_after?);
        Some(before.bytes.zip(after.bytes).unwrap_or((before.rows, after.rows)))
    }
}

/// Returns the id of the suggestion that adds a column for a field, if the field can have one.
pub(super) fn key_column_id(field: &FieldRef) -> String {
    format!("{}:{field}", DdlKind::KeyColumn)
}
