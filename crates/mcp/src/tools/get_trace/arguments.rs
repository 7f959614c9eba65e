//! The arguments of `svc_get_trace`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
