//! `svc_get_trace`: one trace in one of four views, each within the answer's size and always with the whole trace's totals.

mod full;
mod views;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tracewarden_service::Tool;

use super::{Context, Opened, Totals};
use crate::answer::{Budget, MOST, Next};
use crate::arguments;
use crate::failure::Failure;
use crate::trace::tree::Tree;

/// What of a trace is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum View {
    /// A line a span; three or more siblings of a kind are one line.
    #[default]
    Outline,
    /// The spans where errors came from, with their messages.
    Errors,
    /// Kinds of spans by the time that they took by themselves.
    Slowest,
    /// Spans with all they say, in pages.
    Full,
}

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// As svc_query_traces gives it.
    trace_id: String,
    /// outline (default): the tree; errors: where errors came from; slowest: what took time; full: all values.
    view: Option<View>,
    /// outline: how many levels below the top.
    depth: Option<i64>,
    /// outline: a span id, to see only what is below it.
    root: Option<String>,
    /// full: only these columns, and the ids, timestamp and parent. Default: all.
    columns: Option<Vec<String>>,
    /// From `next` of the answer before.
    cursor: Option<String>,
    /// Most tokens of the answer, 1000 to 20000. Default 3000; twice that for the whole outline of at most 100 spans.
    max_tokens: Option<i64>,
}

/// One line of the outline.
#[derive(Debug, Serialize, JsonSchema)]
struct Line {
    /// Levels below the top.
    depth: usize,
    /// Of several, the slowest that failed, else the slowest.
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    /// Of several, what is not the same is #.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// After the start of the trace.
    start_ms: f64,
    /// Of several, the longest.
    duration_ms: f64,
    /// Whether any of them has a duration that is below zero or no number of nanoseconds, which counts as 0; absent where none has.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_invalid: Option<bool>,
    /// Spans that this line stands for; absent for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95_ms: Option<f64>,
    /// How many failed; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<usize>,
    /// Spans below that no line shows; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<usize>,
}

/// Failed spans of a kind below which nothing failed.
#[derive(Debug, Serialize, JsonSchema)]
struct ErrorOrigin {
    /// The first of them.
    span_id: String,
    /// "service: operation" of every caller, outermost first, and of the span.
    path: Vec<String>,
    /// How many.
    count: usize,
    /// After the start of the trace.
    start_ms: f64,
    duration_ms: f64,
    /// Whether the span's duration is below zero or no number of nanoseconds, which counts as 0; absent where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_invalid: Option<bool>,
    /// What the span says of why it failed; read of the first twenty.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// Spans of a kind.
#[derive(Debug, Serialize, JsonSchema)]
struct Slow {
    /// The one that took longest by itself.
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    count: usize,
    /// Time that they took by themselves, together.
    own_ms: f64,
    /// Of the longest, by itself.
    longest_ms: f64,
}

/// The answer. The view decides which list is there.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    trace: Totals,
    view: View,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Vec<Line>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<Vec<ErrorOrigin>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slowest: Option<Vec<Slow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<serde_json::Map<String, Value>>>")]
    spans: Option<Vec<Map<String, Value>>>,
    /// full: columns that spans have only where `columns` names them, since ClickHouse works them out at each reading.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    omitted_columns: Vec<String>,
    /// Entries of the list that are here, and that there are.
    returned: usize,
    total: usize,
    truncated: bool,
    next: Vec<Next>,
}

/// What all views need.
struct Call<'a> {
    context: &'a Context<'a>,
    arguments: &'a Arguments,
    budget: Budget,
}

pub(crate) async fn call(context: &Context<'_>, mut arguments: Arguments) -> Result<CallToolResult, Failure> {
    let budget = Budget::of(arguments.max_tokens)?;
    let view = arguments.view.unwrap_or_default();
    refuse_what_the_view_has_not(&arguments, view)?;
    let opened = context.open(&arguments.trace_id, arguments.columns.clone()).await?;
    // Its own id, where another notation was sent.
    arguments.trace_id = opened.trace.trace_id().to_owned();
    let call = Call { context, arguments: &arguments, budget };
    match view {
        View::Outline => views::outline(&call, opened).await,
        View::Errors => views::errors(&call, opened).await,
        View::Slowest => views::slowest(&call, opened).await,
        View::Full => full::full(&call, opened).await,
    }
}

/// An argument that would have no effect is a misunderstanding.
fn refuse_what_the_view_has_not(arguments: &Arguments, view: View) -> Result<(), Failure> {
    let of_outline = view == View::Outline;
    if arguments.depth.is_some() && !of_outline {
        return Err(Failure::argument("depth", "only for the view outline"));
    }
    if arguments.depth.is_some_and(|depth| depth < 0) {
        return Err(Failure::argument("depth", "0 or more: 0 shows the outermost spans alone"));
    }
    if arguments.root.is_some() && !of_outline {
        return Err(Failure::argument("root", "only for the view outline"));
    }
    if arguments.columns.is_some() && view != View::Full {
        return Err(Failure::argument("columns", "only for the view full; svc_get_spans takes columns too"));
    }
    Ok(())
}

/// An answer without a list.
fn answer(trace: Totals, view: View, returned: usize, total: usize, next: Vec<Next>) -> Answer {
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
    /// What a place in a list means: where it is in another list, it is another entry.
    fn of_list(&self, opened: &Opened) -> String {
        let Arguments { trace_id, view, depth, root, .. } = self.arguments;
        let mut hasher = DefaultHasher::new();
        (trace_id, view.unwrap_or_default() as u8, depth, root, opened.seen.summary.span_count)
            .hash(&mut hasher);
        format!("{:08x}", hasher.finish() as u32)
    }

    /// Where the page begins.
    ///
    /// # Errors
    /// When the cursor is of another list, or of this one before spans arrived.
    fn offset(&self, opened: &Opened) -> Result<usize, Failure> {
        let Some(cursor) = &self.arguments.cursor else { return Ok(0) };
        let place = cursor.split_once('@').filter(|(_, list)| *list == self.of_list(opened));
        place.and_then(|(place, _)| place.parse().ok()).ok_or_else(|| {
            let detail = "it is of another trace, view, depth or root, or spans have arrived since; call without it to begin anew";
            Failure::argument("cursor", detail).after_reading()
        })
    }

    fn at(&self, opened: &Opened, place: usize) -> (&'static str, Value) {
        ("cursor", Value::from(format!("{place}@{}", self.of_list(opened))))
    }

    /// The call for the page behind one that began there and held so many; the same page, larger, when nothing of it fitted.
    fn page(&self, opened: &Opened, offset: usize, held: usize) -> Next {
        let mut with = vec![self.at(opened, offset + held)];
        let to = if held > 0 { "go on" } else { "see it in an answer that is large enough" };
        if held == 0 {
            with.push(("max_tokens", Value::from(MOST)));
        }
        Next { to, tool: Tool::GetTrace.name(), arguments: arguments::again(self.context.sent, &[], &with) }
    }

    /// All lines, from the first.
    fn in_order(&self, opened: &Opened) -> Next {
        let arguments = arguments::again(self.context.sent, &[], &[self.at(opened, 0)]);
        Next { to: "see all lines in order", tool: Tool::GetTrace.name(), arguments }
    }

    /// The same trace in another way.
    fn instead(&self, to: &'static str, with: &[(&str, Value)]) -> Next {
        let trace_id = ("trace_id", Value::from(self.arguments.trace_id.clone()));
        let with: Vec<(&str, Value)> = std::iter::once(trace_id).chain(with.iter().cloned()).collect();
        Next { to, tool: Tool::GetTrace.name(), arguments: arguments::again(&Value::Null, &[], &with) }
    }

    /// All that some spans say; `None` where no id leads to them.
    fn spans(&self, tree: &Tree, places: impl Iterator<Item = usize>) -> Option<Next> {
        let span_ids = tree.ids_to_read(places);
        if span_ids.is_empty() {
            return None;
        }
        let arguments = json!({ "trace_id": self.arguments.trace_id, "span_ids": span_ids });
        Some(Next { to: "see all they say", tool: Tool::GetSpans.name(), arguments })
    }
}
