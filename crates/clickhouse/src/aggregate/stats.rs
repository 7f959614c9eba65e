//! Statistics about all traces that a scope allows and that match a filter in a window, not only about one page.
//!
//! The traces are those that [`ClickHouse::select`] lists, page by page to the end: the counting statement has the planner's
//! definition of them as a sub-query. It counts all their spans, whether or not they match a policy, and no others, so that
//! no number reveals a span that the caller could not read.

mod buckets;
mod classes;
mod groups;
mod statement;
#[cfg(test)]
mod tests;
mod types;

pub use buckets::Buckets;
pub use types::{
    FacetValue, MAX_FACET_VALUES, Stats, StatsBucket, StatsFacet, StatsGroup, StatsNumbers, StatsOrder,
    StatsRequest, StatsUnit,
};

use tracewarden_model::{LogicalType, MarkedField, Timestamp};

use statement::{ChosenTraces, RetryReason};

use crate::schema::{BoundTable, DisplayExpressions, Tables};
use crate::search::{RequiredPredicates, Search, SpansNeeded, TraceScan};
use crate::{ClickHouse, ClickHouseError, Result};

/// Maximum number of facets: their classes must not reach that of spans in no group.
const MAX_FACETS: usize = 100;

impl ClickHouse {
    /// Counts the traces that a scope allows and that match a filter in a window, and groups them by fields. It reads the
    /// spans of a trace that are within `max_trace_duration` of the window. A span without a field is in no group. A span
    /// with an array is in a group for each of its distinct elements, up to the first 1,000, and with two arrays in one for
    /// each pair of the first 50 of each.
    ///
    /// # Errors
    /// When ClickHouse fails, or a field has changed since it was marked. There are no partial statistics.
    pub async fn stats(&self, mut request: StatsRequest<'_>) -> Result<Stats> {
        request.max_traces = request.max_traces.max(1);
        let text =
            |field: &MarkedField| matches!(field.logical, LogicalType::String | LogicalType::StringArray);
        if request.group.len() > 2 || !request.group.iter().chain(request.facets).all(text) {
            return Err(ClickHouseError::Internal("groups are of one or two fields of strings".to_owned()));
        }
        if request.facets.len() > MAX_FACETS {
            return Err(ClickHouseError::Internal("too many facets".to_owned()));
        }
        self.with_tables(request.binding, |tables, _| stats_for_tables(self, request, tables)).await
    }
}

async fn stats_for_tables(store: &ClickHouse, request: StatsRequest<'_>, tables: Tables) -> Result<Stats> {
    let StatsRequest { binding, scope, filter, window, .. } = request;
    // Before the check of the scope, as in a selection.
    let table = BoundTable::new(binding, tables.columns.to_vec())?;
    let display = DisplayExpressions::new(&table, &binding.display);
    if scope.is_empty() {
        return Ok(statement::empty_stats(&display, request));
    }
    let required_predicates = RequiredPredicates::new(scope, filter, &table)?;
    let search = store.search_for(required_predicates, window, request.max_traces, &table, tables.index);
    let count = async |scan: &TraceScan<'_>, traces: ChosenTraces| {
        let statement = statement::statement(&search, scan, &display, request, traces)?;
        let counted = search.rows(statement).await;
        match counted.as_ref().err().and_then(|error| RetryReason::from_error(error, traces)) {
            Some(reason) => Ok(Err(reason)),
            None => statement::stats(counted?, &display, request, traces != ChosenTraces::Newest).map(Ok),
        }
    };
    let mut counted = None;
    let needed = spans_needed(&search, request.per);
    let first = |scan: &TraceScan<'_>| {
        let reads_all = needed == SpansNeeded::InDefaultRange && scan.holds_default_range(&search);
        if request.per == StatsUnit::Trace && reads_all {
            ChosenTraces::AllInOnePass
        } else {
            ChosenTraces::All
        }
    };
    let mut by_trace = TraceScan::matching_by_trace(&search, needed).await;
    if let Some(scan) = &by_trace {
        match scan.unless_long_traces(&search, count(scan, first(scan))).await? {
            Ok(found) => counted = Some(found),
            Err(long) => by_trace = scan.with_long_traces(&search, long).await?,
        }
    }
    let mut scan = match by_trace {
        Some(scan) => scan,
        None => TraceScan::by_span(&search).await?,
    };
    let mut chosen = first(&scan);
    // At most four retries: for less memory, for more traces by bounds, for spans beyond the bounds, and for more traces by spans.
    for _ in 0..4 {
        let counted = match counted.take() {
            Some(counted) => counted,
            None => count(&scan, chosen).await?,
        };
        match counted {
            Ok(stats) => return Ok(stats),
            Err(RetryReason::MoreTraces) => chosen = ChosenTraces::Newest,
            Err(RetryReason::Memory) => chosen = ChosenTraces::All,
            Err(RetryReason::SpansBeyondBounds) => {
                // The number of traces is uncertain, too.
                (scan, chosen) = (TraceScan::by_span(&search).await?, ChosenTraces::All);
            }
        }
    }
    let stats = count(&scan, chosen).await?;
    stats.map_err(|why| {
        ClickHouseError::IncompleteResponse(format!("the statistics were interrupted again: {why:?}"))
    })
}

/// Returns which spans the first pass needs. If the window is not short compared with the ranges before and after it, reading these in
/// the same pass saves most of the second one: for traces, all of it.
fn spans_needed(search: &Search<'_>, per: StatsUnit) -> SpansNeeded {
    let length = |(low, high): (Timestamp, Timestamp)| high.as_nanos().saturating_sub(low.as_nanos());
    let most = if per == StatsUnit::Trace { 4 } else { 2 };
    let is_short = search.default_range.is_none_or(|range| length(range) / most > search.window_length());
    if is_short { SpansNeeded::InWindow } else { SpansNeeded::InDefaultRange }
}
