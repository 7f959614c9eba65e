//! Suggests additions to the bound table that make searches and reads cheaper: statements for operators to run, with cost and
//! gain of each. This service never runs them.
//!
//! Everything is identified by its definition, never by its name, and nothing is suggested that is in place. Unknown facts
//! are reported as unknown, not as absent.

use tracewarden_model::{Binding, FieldRef, MarkedField};

mod drafts;
mod estimates;
mod names;
mod order;
mod parts;
mod projections;
mod target;
#[cfg(test)]
mod tests;
mod trace_index;

use crate::schema::{BoundTable, Layout, TableEngine, can_be_key_column, is_trace_index};
use crate::{ClickHouse, ClickHouseError};
use drafts::{Facts, TraceIndex};

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
    /// Factor by which fewer bytes are read afterwards, or rows where bytes are unknown.
    pub fn gain(&self) -> Option<f64> {
        let (now, then) = (self.reads_now?, self.reads_then?);
        let (now, then) = match (now.bytes, then.bytes) {
            (Some(now), Some(then)) => (now, then),
            _ => (now.rows, then.rows),
        };
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let gain = now as f64 / then.max(1) as f64;
        Some(gain)
    }
}

/// Returns the id of the suggestion that adds a column for a field, if the field can have one.
pub fn key_column_id(field: &FieldRef) -> String {
    format!("{}:{field}", DdlKind::KeyColumn.as_str())
}

impl ClickHouse {
    /// Returns suggestions for the bound table in its current state. With `samples`, it counts a bounded sample of spans to
    /// estimate the size of new columns and indexes; no sampled value is returned.
    ///
    /// # Errors
    /// When ClickHouse fails. Estimates that ClickHouse refuses are unknown.
    pub async fn ddl(
        &self,
        binding: &Binding,
        fields: &[MarkedField],
        samples: bool,
    ) -> Result<DdlAdvice, ClickHouseError> {
        let layout = self.current_layout(&binding.database, &binding.table).await?;
        let table = BoundTable::new(binding, self.columns(&binding.database, &binding.table).await?)?;
        let (database, name) = storage_table(binding, &layout);
        let parts = self.parts(&database, &name).await?;
        let trace_index = self.trace_index(binding, &layout, &name).await?;
        let facts = Facts { binding, fields, layout: &layout, parts: &parts, trace_index };
        let drafts = drafts::drafts(&facts);
        self.estimated(&facts, &table, drafts, samples).await
    }

    /// Returns the id of the suggestion from which a search by these fields would gain most, judging by the cached layout of
    /// the table, if there is one. It sends no statement. A marked key comes first: without its column, no other suggestion
    /// helps a search by it.
    pub fn helpful_suggestion<'a>(
        &self,
        binding: &Binding,
        fields: impl IntoIterator<Item = &'a FieldRef>,
    ) -> Option<String> {
        let layout = self.cached_layout(&binding.database, &binding.table)?;
        let underlying = layout.underlying();
        for field in fields {
            let Some(map) = &field.map else { continue };
            let can = underlying
                .columns
                .iter()
                .any(|column| column.name == *map && can_be_key_column(&column.column_type, &field.name));
            if can && underlying.key_column(map, &field.name).is_none() {
                return Some(key_column_id(field));
            }
        }
        let by_time = underlying.is_sorted_by(&binding.timestamp)
            || underlying.projections.iter().any(|projection| projection.is_sorted_by(&binding.timestamp));
        (!by_time && matches!(underlying.engine, TableEngine::MergeTree { .. }))
            .then(|| DdlKind::TimeProjection.as_str().to_owned())
    }

    /// Returns the state of the trace index. The index of a distributed table must be distributed as well: one server's index
    /// lacks the spans on the others.
    async fn trace_index(
        &self,
        binding: &Binding,
        layout: &Layout,
        local: &str,
    ) -> Result<TraceIndex, ClickHouseError> {
        let distributed = |layout: &Layout| matches!(layout.engine, TableEngine::Distributed { .. });
        let mut candidates = vec![format!("{}_trace_id_ts", binding.table), format!("{local}_trace_id_ts")];
        candidates.dedup();
        if let Some(bound) = &binding.trace_index
            && is_trace_index(&self.columns(&binding.database, bound).await?)
        {
            return Ok(TraceIndex::Bound(bound.clone()));
        }
        for (at, name) in candidates.into_iter().enumerate() {
            let columns = self.columns(&binding.database, &name).await?;
            let covers_all_servers =
                !distributed(layout) || distributed(&self.current_layout(&binding.database, &name).await?);
            if is_trace_index(&columns) && covers_all_servers {
                return Ok(TraceIndex::Unbound(name));
            }
            // The index of the table behind a distributed one is used, or created.
            if !columns.is_empty() && (covers_all_servers || at == 0) {
                return Ok(TraceIndex::NameTaken);
            }
        }
        Ok(TraceIndex::None)
    }
}

/// Returns database and name of the table that holds the rows.
fn storage_table(binding: &Binding, layout: &Layout) -> (String, String) {
    match &layout.engine {
        TableEngine::Distributed { database, table, .. } => {
            let database = if database.is_empty() { &binding.database } else { database };
            (database.clone(), table.clone())
        }
        _ => (binding.database.clone(), binding.table.clone()),
    }
}
