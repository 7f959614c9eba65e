//! The answer of `svc_get_trace`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::super::Totals;
use super::arguments::View;
use crate::answer::NextCall;

/// One line of the outline.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Line {
    /// Levels below the top.
    pub(super) depth: usize,
    /// For several spans: the slowest that failed, otherwise the slowest.
    pub(super) span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service: Option<String>,
    /// For several spans, differing parts are replaced by #.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// Relative to the start of the trace.
    pub(super) start_ms: f64,
    /// For several spans, the maximum.
    pub(super) duration_ms: f64,
    /// Whether any of these spans has a duration that is negative or not a number of nanoseconds, which counts as 0;
    /// absent if not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_invalid: Option<bool>,
    /// Number of spans on this line; absent for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p95_ms: Option<f64>,
    /// Number of failed spans; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) errors: Option<usize>,
    /// Number of descendants that no line shows; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hidden: Option<usize>,
}

/// Failed spans of a kind that have no failed descendants.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ErrorOrigin {
    /// The first of these spans.
    pub(super) span_id: String,
    /// "service: operation" of all ancestors, outermost first, and of the span.
    pub(super) path: Vec<String>,
    /// Number of spans.
    pub(super) count: usize,
    /// Relative to the start of the trace.
    pub(super) start_ms: f64,
    pub(super) duration_ms: f64,
    /// Whether the span's duration is negative or not a number of nanoseconds, which counts as 0; absent if not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_invalid: Option<bool>,
    /// Reason for the failure, from the span; read for the first twenty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
}

/// Spans of a kind.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SlowKind {
    /// Span with the longest self time.
    pub(super) span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) count: usize,
    /// Total self time.
    pub(super) own_ms: f64,
    /// Longest self time of one span.
    pub(super) longest_ms: f64,
}

/// The answer. The view determines which list is present.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    pub(super) trace: Totals,
    pub(super) view: View,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lines: Option<Vec<Line>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) errors: Option<Vec<ErrorOrigin>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slowest: Option<Vec<SlowKind>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<serde_json::Map<String, Value>>>")]
    pub(super) spans: Option<Vec<Map<String, Value>>>,
    /// full: columns that are returned only if `columns` names them, because ClickHouse computes them at each read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) omitted_columns: Vec<String>,
    /// Number of list entries returned, and in total.
    pub(super) returned: usize,
    pub(super) total: usize,
    pub(super) truncated: bool,
    pub(super) next: Vec<NextCall>,
}

/// Returns an answer without a list.
pub(super) fn answer(
    trace: Totals,
    view: View,
    returned: usize,
    total: usize,
    next: Vec<NextCall>,
) -> Answer {
    Answer {
        trace,
        view,
        lines: None,
        errors: None,
        slowest: None,
        spans: None,
        omitted_columns: Vec::new(),
        returned,
        total,
        truncated: returned < total,
        next,
    }
}
