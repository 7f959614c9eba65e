//! Requests for traces, and the traces that were selected.

use crate::schema::{BoundTable, omitted_columns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tracewarden_model::{Binding, Filter, Timestamp, Window};
use tracewarden_policy::AccessScope;
use utoipa::ToSchema;

/// Order of traces, descending; ties are ordered by trace id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceOrder {
    /// By the latest span in the window that satisfies a condition or a group; without these, that grants access.
    #[default]
    Newest,
    /// By the time from the earliest start to the latest end.
    Longest,
    /// By the number of spans whose status is an error.
    MostErrors,
    /// By the number of spans.
    MostSpans,
}

/// A request for a page of traces.
pub struct SelectRequest<'a> {
    /// The bound table.
    pub binding: &'a Binding,
    /// The caller's access.
    pub scope: &'a AccessScope,
    /// The caller's filter.
    pub filter: &'a Filter,
    /// Time range of the search.
    pub window: Window,
    /// Which traces come first.
    pub order: TraceOrder,
    /// Maximum number of traces.
    pub limit: u32,
    /// Position at which the previous page ended.
    pub after: Option<Position>,
    /// Receives the progress of the search.
    pub progress: Option<ProgressCallback>,
}

/// How far a search has come. It holds only facts that the caller could know anyway: except for the run time of the search,
/// nothing in it depends on traces outside the access scope.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchProgress {
    /// Everything from here to the end of the window has been searched.
    pub searched_to: Timestamp,
    /// Traces of the page found so far; never more than the page will hold.
    pub traces: u32,
    /// Fraction of the work that is done, from 0 to 1; `None` where it is unknown.
    pub fraction: Option<f64>,
}

/// Callback for progress. The search calls it: it must return at once, and may drop reports that its receiver cannot take in
/// time.
pub type ProgressCallback = Arc<dyn Fn(SearchProgress) + Send + Sync>;

/// A position in the order of traces: everything that the order depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// 1 for traces with a match inside the window, 0 for the traces after them. Always 1 in other orders.
    pub tier: u8,
    /// The time by which the trace is ordered, in ticks of the timestamp column, or the duration in nanoseconds, or a count.
    pub key: i64,
    /// The trace id.
    pub trace_id: String,
}

impl Position {
    /// The position after all traces with a match inside the window.
    pub(crate) fn last_of_window() -> Self {
        Self { tier: 1, key: i64::MIN, trace_id: String::new() }
    }
}

/// Selected traces. Only this crate creates a selection, from an [`AccessScope`].
#[derive(Debug, Clone)]
pub struct Selection {
    pub(crate) traces: Vec<SelectedTrace>,
    /// The table as it was when they were selected.
    pub(crate) table: Arc<BoundTable>,
    /// Position of each trace; empty when the trace was found by its id and has no position.
    pub(super) positions: Vec<Position>,
    /// Whether there are traces after the last one.
    pub(super) has_more: bool,
    /// Time range of the spans that counted for the decision; `None` where it is unbounded, or the trace index bounds it.
    pub(super) searched_around: Option<(Timestamp, Timestamp)>,
    /// The endpoint that selected them. Another one may hold other spans of them, or other traces under their ids: only this
    /// endpoint gets statements about them.
    pub(crate) endpoint: Option<usize>,
}

/// Properties of a bound table that are known before a search is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableProperties {
    /// Like [`Selection::omitted_columns`].
    pub omitted_columns: Vec<String>,
    /// Like [`Selection::searched_around`].
    pub searched_around: Option<(Timestamp, Timestamp)>,
}

/// A selected trace.
#[derive(Debug, Clone)]
pub(crate) struct SelectedTrace {
    pub(crate) id: String,
    /// Spans that counted for the decision; reading must return at least these.
    pub(crate) spans: u64,
}

impl Selection {
    /// Returns the ids of the traces, in order.
    pub fn trace_ids(&self) -> impl Iterator<Item = &str> {
        self.traces.iter().map(|trace| trace.id.as_str())
    }

    /// Number of traces.
    pub fn len(&self) -> usize {
        self.traces.len()
    }

    /// Whether the selection is empty.
    pub fn is_empty(&self) -> bool {
        self.traces.is_empty()
    }

    /// Returns the time range of the spans that counted for the decision, its end exclusive; `None` where it is unbounded,
    /// and where a trace index bounds each trace.
    pub fn searched_around(&self) -> Option<(Timestamp, Timestamp)> {
        self.searched_around
    }

    /// Returns the names of the columns that are read only on request.
    pub fn omitted_columns(&self, binding: &Binding) -> Vec<String> {
        omitted_columns(binding, &self.table.columns)
    }

    /// Number of spans that counted for the decision; there may be more.
    pub fn span_count(&self) -> u64 {
        self.traces.iter().map(|trace| trace.spans).fold(0, u64::saturating_add)
    }

    /// Returns where the next page begins; `None` when this is the last page.
    pub fn next(&self) -> Option<&Position> {
        self.positions.last().filter(|_| self.has_more)
    }

    /// Returns where the next page would begin if this one ended with the trace at this index, which counts from 0. Also for
    /// the last trace of the last page, after which no trace follows. `None` beyond the page, and for a trace found by its
    /// id.
    pub fn position(&self, index: usize) -> Option<&Position> {
        self.positions.get(index)
    }
}
