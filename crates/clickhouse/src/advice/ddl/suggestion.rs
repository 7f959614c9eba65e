//! Suggested additions, and additions in place.

use tracewarden_model::FieldRef;

/// Suggestions that make searches and reads cheaper.
#[derive(Debug, Clone, PartialEq)]
pub struct DdlAdvice {
    /// Additions, those with the largest gain first, but none before one that it needs.
    pub suggestions: Vec<DdlSuggestion>,
    /// Additions that are in place.
    pub in_place: Vec<ExistingAddition>,
    /// Facts that could not be determined or additions that cannot be suggested, with the reason.
    pub notes: Vec<String>,
}

/// A suggested addition.
#[derive(Debug, Clone, PartialEq)]
pub struct DdlSuggestion {
    /// Its number in the list, from 1. It changes with the additions in place and with the data.
    pub number: usize,
    /// Stable id.
    pub id: String,
    /// Kind of the addition.
    pub kind: DdlKind,
    /// How much of it exists.
    pub state: DdlState,
    /// Statements to run in this order, one at a time. None while ClickHouse is building it.
    pub statements: Vec<String>,
    /// Statements to run when the mutations that the others start are complete.
    pub afterwards: Vec<String>,
    /// The table to bind as `trace_index` afterwards.
    pub bind_trace_index: Option<String>,
    /// Ids of suggestions whose statements must be run first.
    pub needs: Vec<String>,
    /// The marked fields that it serves; empty when it serves every search.
    pub fields: Vec<FieldRef>,
    /// Marked fields that it cannot serve.
    pub leaves_out: Vec<FieldRef>,
    /// Which operations become faster.
    pub speeds_up: String,
    /// The operation that the estimates are for.
    pub measured_on: String,
    /// Estimated reads of this operation now.
    pub reads_now: Option<Reads>,
    /// Estimated reads afterwards.
    pub reads_then: Option<Reads>,
    /// Size on disk in bytes.
    pub disk_bytes: Option<u64>,
}

/// Estimated reads of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reads {
    /// Number of rows.
    pub rows: u64,
    /// Compressed bytes.
    pub bytes: Option<u64>,
}

/// An addition that is in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingAddition {
    /// The id of the matching suggestion.
    pub id: String,
    /// Its kind.
    pub kind: DdlKind,
    /// Its name in ClickHouse.
    pub name: String,
    /// Size on disk in bytes.
    pub disk_bytes: Option<u64>,
}

/// Kinds of additions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DdlKind {
    /// A materialized column for a map key, with a skip index on it.
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

impl DdlKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::KeyColumn, Self::TimeProjection, Self::TraceProjection, Self::TraceIndex, Self::SkipIndex];

    /// Name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KeyColumn => "key_column",
            Self::TimeProjection => "time_projection",
            Self::TraceProjection => "trace_projection",
            Self::TraceIndex => "trace_index",
            Self::SkipIndex => "skip_index",
        }
    }
}

/// How much of an addition exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DdlState {
    /// Nothing.
    Missing,
    /// Part of it: declared, but not built for all rows, or incomplete.
    Partial,
    /// ClickHouse is building it.
    Building,
}

impl DdlState {
    /// Name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Partial => "partial",
            Self::Building => "building",
        }
    }
}

impl DdlSuggestion {
    /// Creates a suggestion without statements and estimates.
    pub(super) fn new(id: String, kind: DdlKind) -> Self {
        Self {
            number: 0,
            id,
            kind,
            state: DdlState::Missing,
            statements: Vec::new(),
            afterwards: Vec::new(),
            bind_trace_index: None,
            needs: Vec::new(),
            fields: Vec::new(),
            leaves_out: Vec::new(),
            speeds_up: String::new(),
            measured_on: String::new(),
            reads_now: None,
            reads_then: None,
            disk_bytes: None,
        }
    }

    /// Factor by which fewer bytes are read afterwards, or rows where bytes are unknown.
    pub fn gain(&self) -> Option<f64> {
        let (now, then) = (self.reads_now?, self.reads_then?);
        let (now, then) = match (now.bytes, then.bytes) {
            (Some(now), Some(then)) => (now, then),
            _ => (now.rows, then.rows),
        };
        Some(now as f64 / then.max(1) as f64)
    }
}

/// Returns the id of the suggestion that adds a column for a field, if the field can have one.
pub fn key_column_id(field: &FieldRef) -> String {
    format!("{}:{field}", DdlKind::KeyColumn.as_str())
}
