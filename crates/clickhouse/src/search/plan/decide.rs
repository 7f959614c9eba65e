//! Decides traces by id: a grouped pass restricted to their ids and their known time ranges. Joining the trace index again
//! would take a third of the statement.

use super::grouping::TraceSet;
use super::page::{MatchingTrace, Page};
use super::required_predicates::RequiredPredicate;
use super::search::Search;
use super::trace_bounds::TraceBounds;
use crate::ClickHouseError;
use crate::sql::Statement;

/// Traces with their bounds.
#[derive(Clone, Copy)]
pub(crate) struct BoundedTraces<'a> {
    pub(crate) traces: &'a [String],
    pub(crate) bounds: &'a TraceBounds,
    /// Predicates whose traces are found first, among these. Worth it where an index selects few granules, since the decision
    /// reads a granule for each span of the traces.
    pub(crate) filters: &'a [RequiredPredicate],
}

impl Search<'_> {
    /// Decides traces by id and adds the matching ones at their positions.
    pub(crate) async fn decide_by_id(
        &self,
        traces: &[String],
        bounds: &TraceBounds,
        page: &mut Page,
    ) -> Result<(), ClickHouseError> {
        page.extend(self.matching(BoundedTraces { traces, bounds, filters: &[] }).await?);
        Ok(())
    }

    /// Returns those of the given traces that match, decided by id.
    pub(crate) async fn matching(
        &self,
        bounded: BoundedTraces<'_>,
    ) -> Result<Vec<MatchingTrace>, ClickHouseError> {
        let mut matching = Vec::new();
        for traces in bounded.traces.chunks(self.options.max_ids.max(1)) {
            let scan = bounded.bounds.ranges(traces.iter());
            let set = TraceSet::Bounded(BoundedTraces { traces, ..bounded });
            matching.extend(self.group_by_trace(set, &scan, None).await?);
        }
        Ok(matching)
    }

    /// SQL from `FROM` on: the spans within the bounds of their trace. `scan` holds all of them.
    pub(super) fn spans_within_bounds(
        &self,
        bounded: BoundedTraces<'_>,
        scan: &str,
        statement: &mut Statement,
    ) -> Result<String, ClickHouseError> {
        let table = self.table;
        let (id, name) = (&table.trace_id, &table.name);
        let ids =
            format!("{scan} AND {} IN {}", table.trace_id_column, statement.string_array(bounded.traces));
        let mut filters = String::new();
        for predicate in bounded.filters {
            let span_condition = statement.filtering_rows(|statement| {
                self.required_predicates.span_condition(*predicate, table, statement)
            })?;
            filters.push_str(&format!(
                " AND {id} GLOBAL IN (SELECT {id} FROM {name} WHERE {ids} AND {span_condition})"
            ));
        }
        let within = bounded.bounds.within(bounded.traces, table, statement);
        Ok(format!(" FROM {name} WHERE {ids}{filters} AND {within}"))
    }
}
