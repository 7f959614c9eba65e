//! One search: the request, its table, and its limits. This module and its submodules create all of its statements.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::Instant;
use tracewarden_model::{TRACE_ID_BYTES_MAX, Timestamp, Window};

use super::PlannerOptions;
use super::estimates::{Granules, parse_explain};
use super::required_predicates::{RequiredPredicate, RequiredPredicates};
use crate::client::settings;
use crate::schema::{BoundTable, IndexBounds, TraceIndex};
use crate::search::selection::Position;
use crate::sql::Statement;
use crate::{ClickHouse, ClickHouseError, ProgressCallback, SearchProgress};

/// Maximum statements of one search. With the one that reads the table's columns, a page takes eight.
const MAX_STATEMENTS: usize = 7;

/// A range of time, its end exclusive; `None` for all of it.
pub(crate) type TimeRange = Option<(Timestamp, Timestamp)>;

/// The spans of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanFilter {
    /// Those that satisfy a required predicate.
    Predicate(RequiredPredicate),
    /// All.
    All,
}

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
    pub(crate) progress: Option<ProgressCallback>,
}

impl Search<'_> {
    pub(crate) async fn rows<T: serde::de::DeserializeOwned + Send + 'static>(
        &self,
        statement: Statement,
    ) -> Result<Vec<T>, ClickHouseError> {
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

    /// Statements that the search may still send. Each costs 10 to 20 ms before it reads anything.
    pub(crate) fn statements_left(&self) -> usize {
        MAX_STATEMENTS.saturating_sub(self.statements_sent.load(Ordering::Relaxed))
    }

    /// Trace bounds from the trace index, as SQL.
    pub(crate) fn bounds(&self, index: &TraceIndex, statement: &mut Statement) -> IndexBounds {
        index.bounds(self.window, self.default_range, statement)
    }

    /// Whether a span is in a range.
    pub(crate) fn range(&self, range: TimeRange, statement: &mut Statement) -> String {
        match range {
            None => "1".to_owned(),
            Some((from, to)) => self.table.within(from, to, statement),
        }
    }

    /// Whether a span is in the window.
    pub(crate) fn window_condition(&self, statement: &mut Statement) -> String {
        self.range(Some((self.window.from(), self.window.to())), statement)
    }

    /// The time of a tick of the timestamp column, in nanoseconds.
    pub(crate) fn nanos(&self, ticks: i64) -> i64 {
        ticks.saturating_mul(self.table.nanos_per_tick)
    }

    /// The first tick at or after a time.
    pub(crate) fn ticks_from(&self, nanos: i64) -> i64 {
        self.table.tick_at_or_after(nanos)
    }

    /// SQL for a group: `condition` holds and the trace id is valid. Not joined with `AND`: ClickHouse would evaluate the id
    /// check for every span before grouping, which takes a fifth of a step.
    pub(crate) fn with_valid_trace_id(trace: &str, condition: &str) -> String {
        format!("if({condition}, {}, 0)", Self::is_valid_trace_id(trace))
    }

    /// SQL: whether a trace id is valid.
    pub(crate) fn is_valid_trace_id(trace: &str) -> String {
        format!(
            "NOT match({trace}, '^0*$') AND isValidUTF8({trace}) AND length({trace}) <= {TRACE_ID_BYTES_MAX}"
        )
    }

    /// Writes the condition for these spans.
    fn condition(&self, spans: SpanFilter, statement: &mut Statement) -> Result<String, ClickHouseError> {
        match spans {
            SpanFilter::All => Ok("1".to_owned()),
            SpanFilter::Predicate(predicate) => {
                self.required_predicates.span_condition(predicate, self.table, statement)
            }
        }
    }

    /// Estimated granules for each filter and range, then for the whole trace index; `None` if there is no estimate. Errors are
    /// dropped: the search's own statements report them.
    pub(crate) async fn estimate_granules(&self, reads: &[(SpanFilter, TimeRange)]) -> Option<Vec<Granules>> {
        if !self.table.in_parts() {
            // A table without parts of its own, such as a distributed one, gives no estimate.
            return None;
        }
        let mut statement = self.table.statement();
        let mut branches = Vec::new();
        for (spans, range) in reads {
            let range = self.range(*range, &mut statement);
            let condition = self.condition(*spans, &mut statement).ok()?;
            branches.push(format!(
                "SELECT {} FROM {} WHERE {range} AND {condition}",
                self.table.trace_id, self.table.name
            ));
        }
        if let Some(index) = &self.index {
            branches.push(format!("SELECT `TraceId` FROM {}", index.name));
        }
        statement.push(&format!("EXPLAIN json = 1, indexes = 1 {}", branches.join(" UNION ALL ")));
        let rows: Vec<(String,)> = self.rows(statement).await.ok()?;
        parse_explain(
            &rows.into_iter().map(|(line,)| line).collect::<Vec<String>>().join("\n"),
            branches.len(),
        )
    }

    /// Reports the progress of the search.
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
