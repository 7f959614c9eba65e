//! What to add to the bound table so that searching and reading cost less: statements for operators to run, with what
//! each costs and gains. Nothing here, or anywhere else, runs them.
//!
//! Everything is found by what it is, never by its name, and what is in place is not suggested. What nobody can tell is
//! told as unknown, not as nothing.

use tracewarden_model::{Binding, FieldRef, MarkedField};

mod drafts;
mod measure;
mod names;
mod order;
mod parts;
mod projections;
mod target;
#[cfg(test)]
mod tests;
mod trace_index;

use crate::layout::{Layout, TableEngine, can_be_key_column};
use crate::table::BoundTable;
use crate::trace_index::is_trace_index;
use crate::{StoreError, TraceStore};
use drafts::{Facts, TraceIndex};

/// What would make searching and reading cost less.
#[derive(Debug, Clone, PartialEq)]
pub struct DdlAdvice {
    /// What to add, what gains most first; but nothing before what it needs.
    pub suggestions: Vec<DdlSuggestion>,
    /// What is there already.
    pub in_place: Vec<InPlace>,
    /// What cannot be suggested or told, and why.
    pub notes: Vec<String>,
}

/// Something to add.
#[derive(Debug, Clone, PartialEq)]
pub struct DdlSuggestion {
    /// Its place in the list, from 1. It changes with what is in place and with the data.
    pub number: usize,
    /// What it is about. It never changes.
    pub id: String,
    /// What is added.
    pub kind: DdlKind,
    /// How much of it is there.
    pub state: DdlState,
    /// To be run in this order, each in one piece. None while the store is at it.
    pub statements: Vec<String>,
    /// To be run when what these statements begin has come to its end.
    pub afterwards: Vec<String>,
    /// The table to bind as `trace_index` then.
    pub bind_trace_index: Option<String>,
    /// Ids of suggestions whose statements must have been run before.
    pub needs: Vec<String>,
    /// The marked fields that it serves; empty when it serves every search.
    pub fields: Vec<FieldRef>,
    /// Marked fields that it cannot serve.
    pub leaves_out: Vec<FieldRef>,
    /// What becomes faster.
    pub speeds_up: String,
    /// What the estimates are about.
    pub measured_on: String,
    /// What that reads now.
    pub reads_now: Option<Reads>,
    /// What it will read.
    pub reads_then: Option<Reads>,
    /// Bytes that it takes on disk.
    pub disk_bytes: Option<u64>,
}

/// What a statement reads, as estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reads {
    /// Rows.
    pub rows: u64,
    /// Bytes, compressed.
    pub bytes: Option<u64>,
}

/// Something that is in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InPlace {
    /// The id that it would be suggested with.
    pub id: String,
    /// What it is.
    pub kind: DdlKind,
    /// Its own name.
    pub name: String,
    /// Bytes that it takes on disk.
    pub disk_bytes: Option<u64>,
}

/// What can be added to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DdlKind {
    /// A materialized column of a key, with a skip index on it.
    KeyColumn,
    /// What searching looks at, in order of time.
    TimeProjection,
    /// Everything, in order of trace ids.
    TraceProjection,
    /// A table with the bounds of each trace.
    TraceIndex,
    /// An index that leaves out granules.
    SkipIndex,
}

impl DdlKind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::KeyColumn, Self::TimeProjection, Self::TraceProjection, Self::TraceIndex, Self::SkipIndex];

    /// How it is spelled.
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

/// How much of something is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DdlState {
    /// Nothing.
    Missing,
    /// Some: declared, but not built for all rows, or a part of it.
    Partial,
    /// The store is building it.
    Building,
}

impl DdlState {
    /// How it is spelled.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Partial => "partial",
            Self::Building => "building",
        }
    }
}

impl DdlSuggestion {
    /// Times fewer bytes that are read then, or rows where bytes are unknown.
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

/// The id of the suggestion that gives a field a column of its own, if it can have one.
pub fn key_column_id(field: &FieldRef) -> String {
    format!("{}:{field}", DdlKind::KeyColumn.as_str())
}

impl TraceStore {
    /// What to add to the bound table, by what is there at this moment. With `samples`, a bounded sample of spans is
    /// counted to reckon how large new columns and indexes become; nothing of it is told.
    ///
    /// # Errors
    /// When the store fails. Estimates that it refuses are unknown.
    pub async fn ddl(
        &self,
        binding: &Binding,
        fields: &[MarkedField],
        samples: bool,
    ) -> Result<DdlAdvice, StoreError> {
        let layout = self.layout_now(&binding.database, &binding.table).await?;
        let table = BoundTable::new(binding, self.columns(&binding.database, &binding.table).await?)?;
        let (database, name) = stored_in(binding, &layout);
        let parts = self.parts(&database, &name).await?;
        let trace_index = self.trace_index(binding, &layout, &name).await?;
        let facts = Facts { binding, fields, layout: &layout, parts: &parts, trace_index };
        let drafts = drafts::drafts(&facts);
        self.measured(&facts, &table, drafts, samples).await
    }

    /// The id of the suggestion that a search by these fields would gain most from, by what was last seen of the table, if
    /// it was. Asks nobody. A marked key comes first: without its column, no other suggestion serves a search by it.
    pub fn helpful_suggestion<'a>(
        &self,
        binding: &Binding,
        fields: impl IntoIterator<Item = &'a FieldRef>,
    ) -> Option<String> {
        let layout = self.kept_layout(&binding.database, &binding.table)?;
        let stored = layout.stored();
        for field in fields {
            let Some(map) = &field.map else { continue };
            let can = stored
                .columns
                .iter()
                .any(|column| column.name == *map && can_be_key_column(&column.column_type, &field.name));
            if can && stored.key_column(map, &field.name).is_none() {
                return Some(key_column_id(field));
            }
        }
        let by_time = stored.is_by(&binding.timestamp)
            || stored.projections.iter().any(|projection| projection.is_by(&binding.timestamp));
        (!by_time && matches!(stored.engine, TableEngine::MergeTree { .. }))
            .then(|| DdlKind::TimeProjection.as_str().to_owned())
    }

    /// What there is to know about a trace index. That of a distributed table must be distributed as well: one server's
    /// knows nothing of the spans elsewhere.
    async fn trace_index(
        &self,
        binding: &Binding,
        layout: &Layout,
        local: &str,
    ) -> Result<TraceIndex, StoreError> {
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
            let whole =
                !distributed(layout) || distributed(&self.layout_now(&binding.database, &name).await?);
            if is_trace_index(&columns) && whole {
                return Ok(TraceIndex::Unbound(name));
            }
            // The one that belongs to the table behind is made use of, or made.
            if !columns.is_empty() && (whole || at == 0) {
                return Ok(TraceIndex::NameTaken);
            }
        }
        Ok(TraceIndex::None)
    }
}

/// Database and name of the table that holds the rows.
fn stored_in(binding: &Binding, layout: &Layout) -> (String, String) {
    match &layout.engine {
        TableEngine::Distributed { database, table, .. } => {
            let database = if database.is_empty() { &binding.database } else { database };
            (database.clone(), table.clone())
        }
        _ => (binding.database.clone(), binding.table.clone()),
    }
}
