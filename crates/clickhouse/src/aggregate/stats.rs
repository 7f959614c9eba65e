//! Statistics about all traces that a scope allows and that match a filter in a window, not only about one page.
//!
//! The traces are those that [`ClickHouse::select`] lists, page by page to the end: the counting statement has the planner's
//! definition of them as a sub-query. It counts all their spans, whether or not they match a policy, and no others, so that
//! no number reveals a span that the caller could not read.

mod statement;
#[cfg(test)]
mod tests;

use tracewarden_model::{Binding, Filter, LogicalType, MarkedField, Window};
use tracewarden_policy::AccessScope;

use statement::{ChosenTraces, RetryReason};

use crate::schema::{BoundTable, DisplayExpressions, Tables};
use crate::search::{MAX_SEARCH_ATTEMPTS, PlannerOptions, SelectRequest, TraceScan};
use crate::{ClickHouse, ClickHouseError};

/// Unit of the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsUnit {
    /// Spans: each in the groups of its own values.
    Span,
    /// Traces: each in every group that any of its spans is in.
    Trace,
}

/// Order of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsOrder {
    /// Groups with the most spans or traces first.
    Count,
    /// Groups with the most errors first.
    Errors,
    /// Groups with the largest share of errors first.
    ErrorRate,
    /// Groups with the largest 95th percentile of the duration first.
    Duration,
}

/// A request for statistics.
#[derive(Clone, Copy)]
pub struct StatsRequest<'a> {
    /// The bound table.
    pub binding: &'a Binding,
    /// The caller's access.
    pub scope: &'a AccessScope,
    /// The caller's filter.
    pub filter: &'a Filter,
    /// Time range.
    pub window: Window,
    /// Fields to group by, of type string or string_array: none, one or two.
    pub group: &'a [MarkedField],
    /// Unit of the counts.
    pub per: StatsUnit,
    /// Order of groups.
    pub order: StatsOrder,
    /// Maximum number of groups.
    pub limit: u32,
    /// Maximum number of traces, the newest first; at least 1.
    pub max_traces: u32,
}

/// Statistics of some spans or traces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatsNumbers {
    /// Number of distinct traces.
    pub traces: u64,
    /// Number of spans; per trace, of all spans of those traces.
    pub spans: u64,
    /// Number of spans whose status is an error; per trace, of traces with such a span. `None` without a status column.
    pub errors: Option<u64>,
    /// Median duration in nanoseconds: of spans; per trace, from the earliest start to the latest end of its spans. Absent
    /// without a duration column, and without spans.
    ///
    /// Percentiles are computed from durations rounded to eight significant binary digits: they are up to 0.79 % too small,
    /// however many durations there are, and are reproducible.
    pub p50_nanos: Option<i64>,
    /// 95th percentile.
    pub p95_nanos: Option<i64>,
    /// 99th percentile.
    pub p99_nanos: Option<i64>,
    /// Maximum, exact.
    pub max_nanos: Option<i64>,
    /// Whether a duration is invalid, such as one that wrapped around below zero: it counts as 0.
    pub duration_invalid: bool,
}

/// Statistics of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsGroup {
    /// The value of each field, in the order of the request.
    pub values: Vec<String>,
    /// Its statistics.
    pub numbers: StatsNumbers,
}

/// Statistics of traces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Statistics of all traces, whatever groups they are in.
    pub total: StatsNumbers,
    /// The first groups.
    pub groups: Vec<StatsGroup>,
    /// Number of distinct groups, listed or not. Groups with a value that no filter could use are never listed: longer than
    /// [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES), or not UTF-8.
    pub distinct: u64,
    /// Whether every matching trace was counted; otherwise only the newest `max_traces`.
    pub complete: bool,
}

impl ClickHouse {
    /// Counts the traces that a scope allows and that match a filter in a window, and groups them by fields. It reads the
    /// spans of a trace that are within `max_trace_duration` of the window. A span without a field is in no group. A span
    /// with an array is in a group for each of its distinct elements, up to the first 1,000, and with two arrays in one for
    /// each pair of the first 50 of each.
    ///
    /// # Errors
    /// When ClickHouse fails, or a field has changed since it was marked. There are no partial statistics.
    pub async fn stats(&self, mut request: StatsRequest<'_>) -> Result<Stats, ClickHouseError> {
        request.max_traces = request.max_traces.max(1);
        let text =
            |field: &MarkedField| matches!(field.logical, LogicalType::String | LogicalType::StringArray);
        if request.group.len() > 2 || !request.group.iter().all(text) {
            return Err(ClickHouseError::Internal("groups are of one or two fields of strings".to_owned()));
        }
        for _ in 0..MAX_SEARCH_ATTEMPTS {
            let tables = self.bound_tables(request.binding).await?;
            let endpoint_switches = self.client.endpoint_switches().max(1);
            let stats = self.stats_for_tables(request, tables).await;
            // Another endpoint may have other columns than those that were read.
            if self.client.endpoint_switches() <= endpoint_switches {
                return stats;
            }
        }
        Err(ClickHouseError::IncompleteResponse("the endpoint changed with every search".to_owned()))
    }

    async fn stats_for_tables(
        &self,
        request: StatsRequest<'_>,
        tables: Tables,
    ) -> Result<Stats, ClickHouseError> {
        let StatsRequest { binding, scope, filter, window, .. } = request;
        // Before the check of the scope, as in a selection.
        let table = BoundTable::new(binding, tables.columns.to_vec())?;
        let display = DisplayExpressions::new(&table, &binding.display);
        if scope.is_empty() {
            return Ok(statement::empty_stats(&display));
        }
        let select_request = SelectRequest {
            binding,
            scope,
            filter,
            window,
            limit: request.max_traces,
            after: None,
            progress: None,
        };
        let search = self.prepare(&select_request, &table, tables.index, PlannerOptions::default())?;
        let count = async |scan: &TraceScan<'_>, chosen: ChosenTraces| {
            let statement = statement::statement(&search, scan, &display, request, chosen)?;
            let counted = search.rows(statement).await;
            match counted.as_ref().err().and_then(RetryReason::from_error) {
                Some(reason) => Ok(Err(reason)),
                None => statement::stats(counted?, &display, chosen == ChosenTraces::All).map(Ok),
            }
        };
        let mut chosen = ChosenTraces::All;
        let mut scan = match TraceScan::matching_by_trace(&search).await? {
            Some(scan) => scan,
            None => TraceScan::by_span(&search).await?,
        };
        // At most three retries: for more traces by bounds, for spans beyond the bounds, and for more traces by spans.
        for _ in 0..3 {
            match count(&scan, chosen).await? {
                Ok(stats) => return Ok(stats),
                Err(RetryReason::MoreTraces) => chosen = ChosenTraces::Newest,
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
}
