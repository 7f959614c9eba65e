//! Suggests additions to the bound table that make searches and reads cheaper: statements for operators to run, with cost and
//! gain of each. This service never runs them.
//!
//! Everything is identified by its definition, never by its name, and nothing is suggested that is in place. Unknown facts
//! are reported as unknown, not as absent.

use tracewarden_model::{Binding, FieldRef, MarkedField, ReadAs};

mod drafts;
mod estimates;
mod facts;
mod names;
mod order;
mod parts;
mod projections;
mod suggestion;
mod target;
#[cfg(test)]
mod tests;
mod trace_index;

use crate::catalogue::Catalogue;
use crate::schema::{BoundTable, Layout, TableEngine, is_trace_index};
use crate::{ClickHouse, Result};
use facts::{Facts, TraceIndex};
use suggestion::key_column_id;
pub use suggestion::{DdlAdvice, DdlKind, DdlState, DdlSuggestion, ExistingAddition, Reads};

impl ClickHouse {
    /// Returns suggestions for the bound table in its current state. With `samples`, it counts a bounded sample of spans to
    /// estimate the size of new columns and indexes; no sampled value is returned.
    ///
    /// # Errors
    /// When ClickHouse fails. Estimates that ClickHouse refuses are unknown.
    pub async fn ddl(&self, binding: &Binding, fields: &[MarkedField], samples: bool) -> Result<DdlAdvice> {
        let catalogue = self.catalogue();
        let layout = catalogue.current_layout(&binding.database, &binding.table).await?;
        let columns = catalogue.columns(&binding.database, &binding.table).await?;
        let table = BoundTable::new(binding, columns)?;
        let (database, name) =
            layout.engine.local_table(&binding.database).unwrap_or((&binding.database, &binding.table));
        let parts = parts::parts(&catalogue, database, name).await?;
        let trace_index = find_trace_index(&catalogue, binding, &layout, name).await?;
        let facts = Facts { binding, fields, layout: &layout, parts: &parts, trace_index };
        let drafts = drafts::drafts(&facts);
        estimates::estimated(self, &facts, &table, drafts, samples).await
    }

    /// Returns the id of the suggestion from which a search by these fields would gain most, judging by the cached layout of
    /// the table, if there is one. It sends no statement. A marked key comes first: without its column, no other suggestion
    /// helps a search by it.
    pub fn helpful_suggestion<'a>(
        &self,
        binding: &Binding,
        fields: impl IntoIterator<Item = &'a FieldRef>,
    ) -> Option<String> {
        let layout = self.catalogue().cached_layout(&binding.database, &binding.table)?;
        let underlying = layout.underlying();
        for field in fields {
            let Some(map) = &field.map else { continue };
            let key = field.name.as_str();
            if underlying.can_have_key_column(map, key) && underlying.key_column(map, key).is_none() {
                return Some(key_column_id(field));
            }
        }
        let by_time = underlying.is_sorted_by(&binding.timestamp, &[])
            || underlying.projections.iter().any(|projection| projection.is_sorted_by(&binding.timestamp));
        let reads_projections = binding.read_as != Some(ReadAs::Final);
        (!by_time && reads_projections && matches!(underlying.engine, TableEngine::MergeTree { .. }))
            .then(|| DdlKind::TimeProjection.to_string())
    }
}

/// Returns the state of the trace index. The index of a distributed table must be distributed as well: one server's index
/// lacks the spans on the others.
async fn find_trace_index(
    catalogue: &Catalogue,
    binding: &Binding,
    layout: &Layout,
    local: &str,
) -> Result<TraceIndex> {
    let distributed = |layout: &Layout| matches!(layout.engine, TableEngine::Distributed { .. });
    let mut candidates = vec![format!("{}_trace_id_ts", binding.table), format!("{local}_trace_id_ts")];
    candidates.dedup();
    if let Some(bound) = &binding.trace_index
        && is_trace_index(&catalogue.columns(&binding.database, bound).await?)
    {
        return Ok(TraceIndex::Bound(bound.clone()));
    }
    for (at, name) in candidates.into_iter().enumerate() {
        let columns = catalogue.columns(&binding.database, &name).await?;
        let covers_all_servers =
            !distributed(layout) || distributed(&catalogue.current_layout(&binding.database, &name).await?);
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
