//! Numbers about all traces that a scope opens and that match a filter in a window, not only about a page of them.
//!
//! The traces are those that [`TraceStore::select`] lists, page by page to the end: the statement that counts holds the
//! planner's definition of them as a sub-query. What is counted is all their spans, whichever of them opened the trace, and of
//! no others, so that no number tells of a span what reading would not.

mod statement;
#[cfg(test)]
mod tests;

use tracewarden_model::{Binding, Filter, LogicalType, MarkedField, Window};
use tracewarden_policy::AccessScope;

use statement::{Chosen, Interrupted};

use crate::plan::{TraceScan, Tuning};
use crate::select::{SEARCHES_MAX, SelectRequest, Tables};
use crate::shown::Shown;
use crate::table::BoundTable;
use crate::{StoreError, TraceStore};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsPer {
    /// Spans: each in the groups of its own values.
    Span,
    /// Traces: each in every group that any of its spans is in.
    Trace,
}

/// Which groups come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsOrder {
    /// Those with the most spans or traces.
    Count,
    /// Those with the most errors.
    Errors,
    /// Those with the largest share of errors.
    ErrorRate,
    /// Those with the largest 95th percentile of the duration.
    Duration,
}

/// Which numbers are asked for.
#[derive(Clone, Copy)]
pub struct StatsRequest<'a> {
    /// The bound table.
    pub binding: &'a Binding,
    /// What the caller may see.
    pub scope: &'a AccessScope,
    /// What the caller looks for.
    pub filter: &'a Filter,
    /// When.
    pub window: Window,
    /// By which fields, of type string or string_array: none, one or two.
    pub group: &'a [MarkedField],
    /// What is counted.
    pub per: StatsPer,
    /// Which groups come first.
    pub order: StatsOrder,
    /// How many groups at most.
    pub limit: u32,
    /// Newest traces that are looked at, at most; at least 1.
    pub most_traces: u32,
}

/// Numbers about some spans, or some traces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatsNumbers {
    /// Different traces.
    pub traces: u64,
    /// Spans; per trace, all spans of those traces.
    pub spans: u64,
    /// Spans whose status is an error; per trace, traces with such a span. `None` without a column for the status.
    pub errors: Option<u64>,
    /// The median duration in nanoseconds: of spans; per trace, from the start of its earliest span to the end of the one that
    /// ends last. Absent without a column for the duration, and of nothing.
    ///
    /// Percentiles are those of the durations with eight significant binary digits each: up to 0.79 % too small, however many
    /// there are, and the same each time.
    pub p50_nanos: Option<i64>,
    /// Its 95th percentile.
    pub p95_nanos: Option<i64>,
    /// Its 99th percentile.
    pub p99_nanos: Option<i64>,
    /// The longest, exact.
    pub max_nanos: Option<i64>,
    /// Whether a duration is none, such as one that wrapped round below zero: it counts as 0.
    pub duration_invalid: bool,
}

/// The numbers of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsGroup {
    /// The value of each field, in the order of the request.
    pub values: Vec<String>,
    /// Its numbers.
    pub numbers: StatsNumbers,
}

/// Numbers about traces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Of all of them, whatever groups they are in.
    pub total: StatsNumbers,
    /// The first groups.
    pub groups: Vec<StatsGroup>,
    /// Different groups, listed or not. Never listed are those of values that no filter could use: longer than
    /// [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES), or not UTF-8.
    pub distinct: u64,
    /// Whether every matching trace was looked at; else only the newest `most_traces`.
    pub complete: bool,
}

impl TraceStore {
    /// Counts the traces that a scope opens and that match a filter in a window, and groups them by fields. Of a trace,
    /// those spans are looked at that are within `max_trace_duration` of the window. A span that lacks a field is in no group;
    /// one with an array is in a group for each of its different elements, the first 1,000 of them, and of two arrays in one for
    /// each pair of the first 50 of each.
    ///
    /// # Errors
    /// When the store fails, or a field is no longer what it was marked as. There are no partial numbers.
    pub async fn stats(&self, mut request: StatsRequest<'_>) -> Result<Stats, StoreError> {
        request.most_traces = request.most_traces.max(1);
        let text =
            |field: &MarkedField| matches!(field.logical, LogicalType::String | LogicalType::StringArray);
        if request.group.len() > 2 || !request.group.iter().all(text) {
            return Err(StoreError::Internal("groups are of one or two fields of strings".to_owned()));
        }
        for _ in 0..SEARCHES_MAX {
            let tables = self.bound_tables(request.binding).await?;
            let moves = self.client.moves().max(1);
            let stats = self.stats_of(request, tables).await;
            // What one endpoint says of the columns is not what another reads.
            if self.client.moves() <= moves {
                return stats;
            }
        }
        Err(StoreError::Short("the endpoint changed with every search".to_owned()))
    }

    async fn stats_of(&self, request: StatsRequest<'_>, tables: Tables) -> Result<Stats, StoreError> {
        let StatsRequest { binding, scope, filter, window, .. } = request;
        // Before the scope is looked at, as when selecting.
        let table = BoundTable::new(binding, tables.columns.to_vec())?;
        let shown = Shown::of(&table, &binding.display);
        if scope.opens_nothing() {
            return Ok(statement::nothing(&shown));
        }
        let selecting = SelectRequest {
            binding,
            scope,
            filter,
            window,
            limit: request.most_traces,
            after: None,
            progress: None,
        };
        let search = self.prepare(&selecting, &table, tables.index, Tuning::default())?;
        let count = async |scan: &TraceScan<'_>, chosen: Chosen| {
            let statement = statement::statement(&search, scan, &shown, request, chosen)?;
            let counted = search.rows(statement).await;
            match counted.as_ref().err().and_then(Interrupted::of) {
                Some(interrupted) => Ok(Err(interrupted)),
                None => statement::stats(counted?, &shown, chosen == Chosen::All).map(Ok),
            }
        };
        let mut chosen = Chosen::All;
        let mut scan = match TraceScan::readable(&search).await? {
            Some(scan) => scan,
            None => TraceScan::by_span(&search).await?,
        };
        // More traces by bounds, spans beyond these, and more traces by spans.
        for _ in 0..3 {
            match count(&scan, chosen).await? {
                Ok(stats) => return Ok(stats),
                Err(Interrupted::MoreTraces) => chosen = Chosen::Newest,
                Err(Interrupted::SpansBeyondBounds) => {
                    // How many traces there are is not certain either.
                    (scan, chosen) = (TraceScan::by_span(&search).await?, Chosen::All);
                }
            }
        }
        let stats = count(&scan, chosen).await?;
        stats.map_err(|why| StoreError::Short(format!("the numbers were interrupted again: {why:?}")))
    }
}
