//! One search: the request, its table, and its limits. It sends the statements that the other modules write.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::OnceCell;
use tokio::time::Instant;
use tracewarden_model::{Timestamp, Window};

use super::page::MatchingTrace;
use super::required_predicates::{RequiredPredicate, RequiredPredicates};
use crate::client::settings;
use crate::schema::{BoundTable, IndexBounds, RareTraces, TraceIndex, WindowShare};
use crate::search::selection::Position;
use crate::sql::Statement;
use crate::{ClickHouse, ClickHouseError, ProgressCallback, Result, SearchProgress};

/// Maximum statements of one search. With the one that reads the table's columns, a page takes eight.
pub(super) const MAX_STATEMENTS: usize = 7;

/// A predicate is rare if its matches are expected to be at most this many times the wanted traces: with a more frequent
/// predicate, steps fill the page sooner.
const MAX_MATCHES_PER_RESULT: usize = 16;

/// A range of time, its end exclusive; `None` for all of it.
pub(crate) type TimeRange = Option<(Timestamp, Timestamp)>;

/// A trace in the index: id, start and exclusive end in nanoseconds, 1 if unusable.
pub(crate) type IndexRow = (String, i64, i64, u8);

/// Returns the time range around a window in which the whole of a page's traces is read.
pub(crate) fn window_with_margin(window: Window, max_trace_duration_nanos: Option<i64>) -> TimeRange {
    max_trace_duration_nanos
        .map(|nanos| (window.from().saturating_sub(nanos), window.to().saturating_add(nanos)))
}

/// Thresholds at which one plan becomes better than another. They affect only the cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlannerOptions {
    /// Cost of one more statement, in granules. Below it, a shorter step gains nothing.
    pub(crate) statement_cost: u64,
    /// Maximum traces of a rare predicate; with more, steps take over.
    pub(crate) max_rare_traces: usize,
    /// Minimum `LIMIT` of a step or a pass.
    pub(crate) min_step_limit: usize,
    /// Without a trace index: traces decided by id after a statement, per wanted trace.
    pub(crate) undecided_per_result: usize,
    /// Maximum ids in one statement, and maximum long traces.
    pub(crate) max_ids: usize,
}

impl Default for PlannerOptions {
    fn default() -> Self {
        Self {
            statement_cost: 40,
            max_rare_traces: 2_000,
            min_step_limit: 1_000,
            undecided_per_result: 8,
            max_ids: 20_000,
        }
    }
}

/// A search for the traces of a page.
pub(crate) struct Search<'a> {
    pub(crate) store: &'a ClickHouse,
    pub(crate) table: &'a BoundTable,
    pub(crate) required_predicates: RequiredPredicates<'a>,
    pub(crate) window: Window,
    /// Number of wanted traces, including the one that shows that there is a next page.
    pub(crate) wanted: usize,
    /// Position at which the previous page ended.
    pub(crate) after: Option<Position>,
    /// Considered time range of traces without an entry in the trace index.
    pub(crate) default_range: TimeRange,
    /// The trace index.
    pub(crate) index: Option<TraceIndex>,
    pub(crate) options: PlannerOptions,
    /// Deadline of the whole search: the time limit of one statement.
    pub(crate) deadline: Instant,
    /// Number of statements that were sent.
    pub(crate) statements_sent: AtomicUsize,
    /// The [long traces](super::long_traces), `None` if there are too many; set by the first pass.
    pub(crate) long_traces: OnceCell<Option<Vec<IndexRow>>>,
    /// [`RequiredPredicates::shape`], if the plan depends on it.
    pub(crate) shape: OnceLock<u64>,
    pub(crate) progress: Option<ProgressCallback>,
}

impl Search<'_> {
    /// Sends a statement and returns its rows. Fails when the search's time limit has passed.
    pub(crate) async fn rows<T: serde::de::DeserializeOwned + Send + 'static>(
        &self,
        statement: Statement,
    ) -> Result<Vec<T>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ClickHouseError::Timeout(
                "the statements of a search took too long together".to_owned(),
            ));
        }
        let seconds = u32::try_from(left.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX);
        self.statements_sent.fetch_add(1, Ordering::Relaxed);
        self.store.client.with_limits(settings::QueryLimits { seconds, rows: 0 }).rows(statement).await
    }

    /// Sends a statement whose rows are id, tier, key and number of spans of matching traces.
    pub(crate) async fn matching_traces(&self, statement: Statement) -> Result<Vec<MatchingTrace>> {
        let rows: Vec<(String, u8, i64, u64)> = self.rows(statement).await?;
        let found = rows.into_iter().map(|(trace_id, tier, key, spans)| MatchingTrace {
            position: Position { tier, key, trace_id },
            spans,
        });
        Ok(found.collect())
    }

    /// Statements that the search may still send. Each costs 10 to 20 ms before it reads anything.
    pub(crate) fn statements_left(&self) -> usize {
        MAX_STATEMENTS.saturating_sub(self.statements_sent.load(Ordering::Relaxed))
    }

    /// Maximum expected matches of a rare predicate.
    pub(crate) fn max_rare_matches(&self) -> usize {
        self.wanted.saturating_mul(MAX_MATCHES_PER_RESULT)
    }

    /// `LIMIT` of a step or a pass.
    pub(crate) fn max_candidates(&self) -> usize {
        self.wanted.saturating_mul(4).max(self.options.min_step_limit)
    }

    /// Trace bounds from the trace index, as SQL.
    pub(crate) fn bounds(&self, index: &TraceIndex, statement: &mut Statement) -> IndexBounds {
        index.bounds(self.window, self.default_range, statement)
    }

    pub(crate) fn range(&self, range: TimeRange, statement: &mut Statement) -> String {
        match range {
            None => "1".to_owned(),
            Some((from, to)) => self.table.within(from, to, statement),
        }
    }

    pub(crate) fn window_condition(&self, statement: &mut Statement) -> String {
        self.range(Some((self.window.from(), self.window.to())), statement)
    }

    /// The time of a tick of the timestamp column, in nanoseconds.
    pub(crate) fn nanos(&self, ticks: i64) -> i64 {
        ticks.saturating_mul(self.table.nanos_per_tick)
    }

    /// Returns where the traces of the page begin, in nanoseconds, exclusive.
    pub(crate) fn begin(&self) -> i64 {
        let to = self.window.to().as_nanos();
        self.after.as_ref().map_or(to, |after| self.nanos(after.key.saturating_add(1)).min(to))
    }

    /// SQL: for a group of spans, the position of their trace in the order, as columns with these names.
    pub(crate) fn order(&self, tier: &str, position: &str, statement: &mut Statement) -> Result<String> {
        let key = self.required_predicates.key(statement)?;
        let (inside, ticks) = (self.window_condition(statement), &self.table.ticks);
        Ok(format!(
            "countIf({inside} AND {key}) > 0 AS {tier}, \
             if({tier} = 1, maxIf({ticks}, {inside} AND {key}), maxIf({ticks}, {inside})) AS {position}"
        ))
    }

    /// Length of the window in nanoseconds.
    pub(crate) fn window_length(&self) -> i64 {
        self.window.to().as_nanos().saturating_sub(self.window.from().as_nanos())
    }

    /// [`RequiredPredicates::shape`].
    pub(crate) fn shape(&self) -> u64 {
        *self.shape.get_or_init(|| self.required_predicates.shape())
    }

    /// The part of the window that this page is expected to need, in nanoseconds; `None` if there was no recent search of the same shape.
    pub(crate) fn expected_length(&self) -> Option<i64> {
        let length = self.store.search_history.lengths_per_trace.get(self.shape())?;
        Some(length.saturating_mul(i64::try_from(self.wanted).unwrap_or(i64::MAX)))
    }

    /// Remembers the length of the window per trace for the next search of the same shape.
    pub(crate) fn remember_length(&self, found: &[MatchingTrace]) {
        let Some(shape) = self.shape.get() else { return };
        let in_window = found.iter().filter(|found| found.position.tier == 1).count();
        let last = found.last().filter(|_| in_window >= self.wanted);
        let end = last.map_or(self.window.from().as_nanos(), |last| self.nanos(last.position.key));
        // A page that is not full lacks at least one trace.
        let traces = i64::try_from(in_window.saturating_add(usize::from(last.is_none()))).unwrap_or(i64::MAX);
        let length = self.begin().saturating_sub(end) / traces.max(1);
        self.store.search_history.lengths_per_trace.insert(*shape, length);
    }

    /// Remembers which predicates select the few traces of this search for the next one of the same shape, unless a recent one had
    /// more traces: then values of these fields are not equally rare.
    pub(crate) fn remember_rare_traces(&self, filters: &[RequiredPredicate], window_share: WindowShare) {
        let (all, history) = (self.required_predicates.all(), &self.store.search_history.rare_traces);
        let index = |filter: &RequiredPredicate| all.iter().position(|one| one == filter);
        let filters = filters.iter().filter_map(index).collect();
        if !matches!(history.get(self.shape()), Some(None)) {
            let rare =
                RareTraces { filters, window: self.window_length(), wanted: self.wanted, window_share };
            history.insert(self.shape(), Some(rare));
        }
    }

    /// Whether merged partial results can decide traces: `max_trace_duration` bounds the range to read, and the trace index can
    /// represent the times of the window.
    pub(crate) fn can_merge_partial_results(&self) -> bool {
        self.default_range.is_some() && self.index.as_ref().is_none_or(|index| index.covers(self.window))
    }

    pub(crate) fn report_progress(&self, searched_to: i64, traces: usize) {
        let Some(progress) = &self.progress else { return };
        let (from, to) = (self.window.from().as_nanos(), self.window.to().as_nanos());
        let whole = to.abs_diff(from).max(1);
        // In parts of the window: the exact end of a step depends on spans that the caller may not see. At least a second,
        // since a window of some nanoseconds would reveal nanoseconds.
        let part = whole.div_ceil(64).max(1_000_000_000);
        let done = if searched_to <= from {
            whole
        } else {
            (to.abs_diff(searched_to) / part).saturating_mul(part).min(whole)
        };
        let searched_to = to.saturating_sub_unsigned(done);
        let reported_traces = traces.min(self.wanted.saturating_sub(1));
        progress(SearchProgress {
            searched_to: Timestamp::from_nanos(searched_to),
            traces: u32::try_from(reported_traces).unwrap_or(u32::MAX),
            fraction: Some((done as f64 / whole as f64).clamp(0.0, 1.0)),
        });
    }
}
