//! Decides traces by id: a grouped pass restricted to their ids and their known time ranges. Joining the trace index again
//! would take a third of the statement.

use std::collections::HashSet;

use super::grouping::group_by_trace;
use super::page::{MatchingTrace, Page};
use super::search::Search;
use super::trace_bounds::TraceBounds;
use super::trace_set::{BoundedTraces, TraceSet};
use crate::ClickHouseError;

/// Crossing traces, decided.
#[derive(Debug, Default)]
pub(crate) struct DecidedTraces {
    /// All that were decided.
    pub(crate) traces: HashSet<String>,
    /// Those that belong to the answer.
    pub(crate) matching: Vec<MatchingTrace>,
    /// Still to be decided.
    pub(crate) pending: Vec<String>,
}

/// Decides traces by id and adds the matching ones at their positions.
pub(crate) async fn decide_by_id(
    search: &Search<'_>,
    traces: &[String],
    bounds: &TraceBounds,
    page: &mut Page,
) -> Result<(), ClickHouseError> {
    page.extend(matching_traces(search, BoundedTraces { traces, bounds, filters: &[] }).await?);
    Ok(())
}

/// Returns those of the given traces that match, decided by id.
pub(crate) async fn matching_traces(
    search: &Search<'_>,
    bounded: BoundedTraces<'_>,
) -> Result<Vec<MatchingTrace>, ClickHouseError> {
    let mut matching = Vec::new();
    for traces in bounded.traces.chunks(search.options.max_ids.max(1)) {
        let scan = bounded.bounds.ranges(traces.iter());
        let set = TraceSet::Bounded(BoundedTraces { traces, ..bounded });
        matching.extend(group_by_trace(search, set, &scan, None).await?);
    }
    Ok(matching)
}
