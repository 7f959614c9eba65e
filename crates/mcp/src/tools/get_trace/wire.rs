//! Arguments and answer of `svc_get_trace`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::Totals;
use crate::answer::NextCall;
use crate::numbers::Nanos;

/// The views of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum View {
    /// One line per span; three or more siblings of a kind share a line.
    #[default]
    Outline,
    /// The spans in which errors originated, with their messages.
    Errors,
    /// Kinds of spans by their self time.
    Slowest,
    /// Spans with all values, in pages.
    Full,
}

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// From svc_query_traces.
    pub(super) trace_id: String,
    /// outline (default): the tree; errors: where errors originated; slowest: what took time; full: all values.
    pub(super) view: Option<View>,
    /// outline: number of levels below the top.
    pub(super) depth: Option<i64>,
    /// outline: a span id, to show only its descendants.
    pub(super) root: Option<String>,
    /// full: only these columns, and the ids, timestamp and parent. Default: all.
    pub(super) columns: Option<Vec<String>>,
    /// From `next` of the previous answer.
    pub(super) cursor: Option<String>,
    /// Maximum tokens of the answer, 1000 to 20000. Default 3000; twice that for the whole outline of at most 100
    /// spans.
    pub(super) max_tokens: Option<i64>,
}

/// One line of the outline.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Line {
    /// Levels below the top.
    pub(super) depth: usize,
    /// For several spans: the slowest that failed, otherwise the slowest.
    pub(super) span_id: String,
    pub(super) service: Option<String>,
    /// For several spans, differing parts are replaced by #.
    pub(super) name: Option<String>,
    /// Relative to the start of the trace.
    pub(super) start_ms: Nanos,
    /// For several spans, the maximum.
    pub(super) duration_ms: Nanos,
    /// Whether any of these spans has a duration that is negative or not a number of nanoseconds, which counts as 0;
    /// absent if not.
    pub(super) duration_invalid: Option<bool>,
    /// Number of spans on this line; absent for one.
    pub(super) count: Option<usize>,
    pub(super) p50_ms: Option<Nanos>,
    pub(super) p95_ms: Option<Nanos>,
    /// Number of failed spans; absent for none.
    pub(super) errors: Option<usize>,
    /// Number of descendants that no line shows; absent for none.
    pub(super) hidden: Option<usize>,
}

/// Failed spans of a kind that have no failed descendants.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ErrorOrigin {
    /// The first of these spans.
    pub(super) span_id: String,
    /// "service: operation" of all ancestors, outermost first, and of the span.
    pub(super) path: Vec<String>,
    /// Number of spans.
    pub(super) count: usize,
    /// Relative to the start of the trace.
    pub(super) start_ms: Nanos,
    pub(super) duration_ms: Nanos,
    /// Whether the span's duration is negative or not a number of nanoseconds, which counts as 0; absent if not.
    pub(super) duration_invalid: Option<bool>,
    /// Reason for the failure, from the span; read for the first twenty.
    pub(super) message: Option<String>,
}

/// Spans of a kind.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SlowKind {
    /// Span with the longest self time.
    pub(super) span_id: String,
    pub(super) service: Option<String>,
    pub(super) name: Option<String>,
    pub(super) count: usize,
    /// Total self time.
    pub(super) own_ms: Nanos,
    /// Longest self time of one span.
    pub(super) longest_ms: Nanos,
}

/// The answer. The view determines which list is present.
#[serde_with::skip_serializing_none]
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Answer {
    pub(super) trace: Totals,
    pub(super) view: View,
    pub(super) lines: Option<Vec<Line>>,
    pub(super) errors: Option<Vec<ErrorOrigin>>,
    pub(super) slowest: Option<Vec<SlowKind>>,
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
