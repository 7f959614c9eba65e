//! Decides traces by id: a grouped pass restricted to their ids and their known time ranges. Joining the trace index again
//! would take a third of the statement.

use super::demands::RequiredPredicate;
use super::found::{MatchingTrace, Page};
use super::grouped::TraceSet;
use super::search::Search;
use super::trace_bounds::TraceBounds;
use crate::StoreError;
use crate::sql::Statement;

/// Traces with their bounds.
#[derive(Clone, Copy)]
pub(crate) struct BoundedTraces<'a> {
    pub(crate) traces: &'a [String],
    pub(crate) bounds: &'a TraceBounds,
    /// Predicates whose traces are found first, among these. Worth it where an index selects few granules, since the decision
    /// reads a granule for each span of the traces.
    pub(crate) narrow: &'a [RequiredPredicate],
}

impl Search<'_> {
    /// Decides traces by id and adds the matching ones at their positions.
    pub(crate) async fn decide(
        &self,
        traces: &[String],
        bounds: &TraceBounds,
        page: &mut Page,
    ) -> Result<(), StoreError> {
        page.extend(self.matching(BoundedTraces { traces, bounds, narrow: &[] }).await?);
        Ok(())
    }

    /// Returns those of the given traces that match, decided by id.
    pub(crate) async fn matching(&self, of: BoundedTraces<'_>) -> Result<Vec<MatchingTrace>, StoreError> {
        let mut matching = Vec::new();
        for traces in of.traces.chunks(self.options.ids.max(1)) {
            let scan = of.bounds.ranges(traces.iter());
            let set = TraceSet::Bounded(BoundedTraces { traces, ..of });
            matching.extend(self.grouped(set, &scan, None).await?);
        }
        Ok(matching)
    }

    /// SQL from `FROM` on: the spans within the bounds of their trace. `scan` holds all of them.
    pub(super) fn spans_within_bounds(
        &self,
        of: BoundedTraces<'_>,
        scan: &str,
        statement: &mut Statement,
    ) -> Result<String, StoreError> {
        let table = self.table;
        let (id, name) = (&table.trace_id, &table.name);
        let ids = format!("{scan} AND {} IN {}", table.trace_id_column, statement.strings(of.traces));
        let mut narrow = String::new();
        for predicate in of.narrow {
            let satisfied =
                statement.choosing_rows(|statement| self.demands.satisfied(*predicate, table, statement))?;
            narrow.push_str(&format!(
                " AND {id} GLOBAL IN (SELECT {id} FROM {name} WHERE {ids} AND {satisfied})"
            ));
        }
        let within = of.bounds.within(of.traces, table, statement);
        Ok(format!(" FROM {name} WHERE {ids}{narrow} AND {within}"))
    }
}
