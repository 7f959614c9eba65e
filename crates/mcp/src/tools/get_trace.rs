//! `svc_get_trace`: one trace in one of four views, each within the size limit and always with the totals of the whole
//! trace.

mod full;
mod views;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tracewarden_service::Tool;

use super::{Context, OpenedTrace, Totals};
use crate::answer::{Budget, MAX_TOKENS, NextCall};
use crate::arguments;
use crate::failure::Failure;
use crate::trace::tree::Tree;

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
    trace_id: String,
    /// outline (default): the tree; errors: where errors originated; slowest: what took time; full: all values.
    view: Option<View>,
    /// outline: number of levels below the top.
    depth: Option<i64>,
    /// outline: a span id, to show only its descendants.
    root: Option<String>,
    /// full: only these columns, and the ids, timestamp and parent. Default: all.
    columns: Option<Vec<String>>,
    /// From `next` of the previous answer.
    cursor: Option<String>,
    /// Maximum tokens of the answer, 1000 to 20000. Default 3000; twice that for the whole outline of at most 100
    /// spans.
    max_tokens: Option<i64>,
}

/// One line of the outline.
#[derive(Debug, Serialize, JsonSchema)]
struct Line {
    /// Levels below the top.
    depth: usize,
    /// For several spans: the slowest that failed, otherwise the slowest.
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    /// For several spans, differing parts are replaced by #.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Relative to the start of the trace.
    start_ms: f64,
    /// For several spans, the maximum.
    duration_ms: f64,
    /// Whether any of these spans has a duration that is negative or not a number of nanoseconds, which counts as 0;
    /// absent if not.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_invalid: Option<bool>,
    /// Number of spans on this line; absent for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95_ms: Option<f64>,
    /// Number of failed spans; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<usize>,
    /// Number of descendants that no line shows; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<usize>,
}

/// Failed spans of a kind that have no failed descendants.
#[derive(Debug, Serialize, JsonSchema)]
struct ErrorOrigin {
    /// The first of these spans.
    span_id: String,
    /// "service: operation" of all ancestors, outermost first, and of the span.
    path: Vec<String>,
    /// Number of spans.
    count: usize,
    /// Relative to the start of the trace.
    start_ms: f64,
    duration_ms: f64,
    /// Whether the span's duration is negative or not a number of nanoseconds, which counts as 0; absent if not.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_invalid: Option<bool>,
    /// Reason for the failure, from the span; read for the first twenty.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// Spans of a kind.
#[derive(Debug, Serialize, JsonSchema)]
struct SlowKind {
    /// Span with the longest self time.
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    count: usize,
    /// Total self time.
    own_ms: f64,
    /// Longest self time of one span.
    longest_ms: f64,
}

/// The answer. The view determines which list is present.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    trace: Totals,
    view: View,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Vec<Line>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<Vec<ErrorOrigin>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slowest: Option<Vec<SlowKind>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<serde_json::Map<String, Value>>>")]
    spans: Option<Vec<Map<String, Value>>>,
    /// full: columns that are returned only if `columns` names them, because ClickHouse computes them at each read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    omitted_columns: Vec<String>,
    /// Number of list entries returned, and in total.
    returned: usize,
    total: usize,
    truncated: bool,
    next: Vec<NextCall>,
}

/// Data that all views need.
struct Call<'a> {
    context: &'a Context<'a>,
    arguments: &'a Arguments,
    budget: Budget,
}

pub(crate) async fn call(context: &Context<'_>, mut arguments: Arguments) -> Result<CallToolResult, Failure> {
    let budget = Budget::new(arguments.max_tokens)?;
    let view = arguments.view.unwrap_or_default();
    refuse_unsupported_arguments(&arguments, view)?;
    let opened = context.open(&arguments.trace_id, arguments.columns.clone()).await?;
    // The stored id, if the argument used another notation.
    arguments.trace_id = opened.trace.trace_id().to_owned();
    let call = Call { context, arguments: &arguments, budget };
    match view {
        View::Outline => views::outline(&call, opened).await,
        View::Errors => views::errors(&call, opened).await,
        View::Slowest => views::slowest(&call, opened).await,
        View::Full => full::full(&call, opened).await,
    }
}

/// Rejects arguments that have no effect in the view.
fn refuse_unsupported_arguments(arguments: &Arguments, view: View) -> Result<(), Failure> {
    let is_outline = view == View::Outline;
    if arguments.depth.is_some() && !is_outline {
        return Err(Failure::argument("depth", "only for the view outline"));
    }
    if arguments.depth.is_some_and(|depth| depth < 0) {
        return Err(Failure::argument("depth", "0 or more: 0 shows the outermost spans alone"));
    }
    if arguments.root.is_some() && !is_outline {
        return Err(Failure::argument("root", "only for the view outline"));
    }
    if arguments.columns.is_some() && view != View::Full {
        return Err(Failure::argument("columns", "only for the view full; svc_get_spans takes columns too"));
    }
    Ok(())
}

/// Returns an answer without a list.
fn answer(trace: Totals, view: View, returned: usize, total: usize, next: Vec<NextCall>) -> Answer {
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

impl Call<'_> {
    /// Returns a hash that identifies the list, because an offset is only valid for the list that it was created for.
    fn list_hash(&self, opened: &OpenedTrace) -> String {
        let Arguments { trace_id, view, depth, root, .. } = self.arguments;
        let mut hasher = DefaultHasher::new();
        (trace_id, view.unwrap_or_default() as u8, depth, root, opened.outline.summary.span_count)
            .hash(&mut hasher);
        format!("{:08x}", hasher.finish() as u32)
    }

    /// Returns the offset of the page.
    ///
    /// # Errors
    /// If the cursor belongs to another list, or to this one before more spans arrived.
    fn offset(&self, opened: &OpenedTrace) -> Result<usize, Failure> {
        let Some(cursor) = &self.arguments.cursor else { return Ok(0) };
        let offset = cursor.split_once('@').filter(|(_, list)| *list == self.list_hash(opened));
        offset.and_then(|(offset, _)| offset.parse().ok()).ok_or_else(|| {
            let detail =
                "it belongs to another trace, view, depth or root, or spans have arrived since; call without \
                 it to start again";
            Failure::argument("cursor", detail).after_reading()
        })
    }

    fn cursor_argument(&self, opened: &OpenedTrace, offset: usize) -> (&'static str, Value) {
        ("cursor", Value::from(format!("{offset}@{}", self.list_hash(opened))))
    }

    /// Returns the call for the next page, after `held` entries from `offset`. If no entry fitted, the same page in
    /// the largest size.
    fn page(&self, opened: &OpenedTrace, offset: usize, held: usize) -> NextCall {
        let mut with = vec![self.cursor_argument(opened, offset + held)];
        let to = if held > 0 { "go on" } else { "see it in an answer that is large enough" };
        if held == 0 {
            with.push(("max_tokens", Value::from(MAX_TOKENS)));
        }
        NextCall {
            to,
            tool: Tool::GetTrace.name(),
            arguments: arguments::modified_arguments(self.context.sent, &[], &with),
        }
    }

    /// Returns the call for all lines, from the first.
    fn in_order(&self, opened: &OpenedTrace) -> NextCall {
        let arguments =
            arguments::modified_arguments(self.context.sent, &[], &[self.cursor_argument(opened, 0)]);
        NextCall { to: "see all lines in order", tool: Tool::GetTrace.name(), arguments }
    }

    /// Returns the call for the same trace in another view.
    fn other_view(&self, to: &'static str, with: &[(&str, Value)]) -> NextCall {
        let trace_id = ("trace_id", Value::from(self.arguments.trace_id.clone()));
        let with: Vec<(&str, Value)> = std::iter::once(trace_id).chain(with.iter().cloned()).collect();
        NextCall {
            to,
            tool: Tool::GetTrace.name(),
            arguments: arguments::modified_arguments(&Value::Null, &[], &with),
        }
    }

    /// Returns the call for all values of some spans; `None` if no id identifies them.
    fn spans(&self, tree: &Tree, indexes: impl Iterator<Item = usize>) -> Option<NextCall> {
        let span_ids = tree.readable_ids(indexes);
        if span_ids.is_empty() {
            return None;
        }
        let arguments = json!({ "trace_id": self.arguments.trace_id, "span_ids": span_ids });
        Some(NextCall { to: "see all their values", tool: Tool::GetSpans.name(), arguments })
    }
}
