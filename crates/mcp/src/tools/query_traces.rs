//! `svc_query_traces`: traces that match conditions, one line each.

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracewarden_service::{AnswerBody, PageCursors, QueryRequest, Summary, Tool, TraceOrder, View};

use super::{
    Context, DETAIL_LEVELS, Definition, DetailLevel, NO_RESULTS, Totals, pluralize, run_blocking, start_call,
};
use crate::answer::{Budget, NextCall, Rendered, largest, next_text};
use crate::arguments::{self, Condition};
use crate::failure::Failure;
use crate::span_text::{fenced, one_line};
use crate::window::{self, SearchedAround, WindowText};

pub(crate) const DEFINITION: Definition = Definition::new::<Arguments, Answer>(
    "Search traces",
    "Summaries of the traces that match the filter, with the ids of matched spans; newest first unless order is given.",
    |context| start_call(call, context),
);

/// Default number of traces in a response. Agents rarely read more.
const DEFAULT_LIMIT: i64 = 10;
/// Maximum number of ids of matching spans per trace.
const MAX_MATCHED: usize = 5;

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// All must match (AND). A condition matches a trace if any of its spans satisfies it. Default: none.
    conditions: Option<Vec<Condition>>,
    /// Groups of conditions: for each group, one span must satisfy all of its conditions.
    same_span: Option<Vec<Vec<Condition>>>,
    /// Conditions that no span of the trace may satisfy. Excludes traces.
    none: Option<Vec<Condition>>,
    /// Start, RFC 3339. Default: 24 hours before `to`.
    from: Option<String>,
    /// End (exclusive), RFC 3339. Default: now.
    to: Option<String>,
    /// Instead of from and to: the time until now, e.g. 15m, 6h, 7d.
    last: Option<String>,
    /// Order of all matching traces in the window. Default newest. With cursor: as before.
    order: Option<TraceOrder>,
    /// Number of traces, at most 200. Default 10.
    limit: Option<i64>,
    /// From `next` of the previous answer.
    cursor: Option<String>,
    /// Maximum tokens of the answer, 1000 to 20000. Default 3000.
    max_tokens: Option<i64>,
}

/// One trace.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundTrace {
    #[serde(flatten)]
    totals: Totals,
    /// Spans that satisfy a condition or a group of `same_span`, earliest first; at most five.
    matched_span_ids: Vec<String>,
}

/// The answer.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    window: WindowText,
    /// If there is no trace index: only spans in this time range were read to match traces.
    searched_around: Option<SearchedAround>,
    /// In the requested order.
    traces: Vec<FoundTrace>,
    /// URL of a trace for people: insert its id.
    link: String,
    returned: usize,
    /// Absent if there are more pages; svc_trace_stats counts all.
    total: Option<usize>,
    truncated: bool,
    next: Vec<NextCall>,
}

async fn call(context: &Context<'_>, arguments: Arguments) -> Result<CallToolResult, Failure> {
    let budget = Budget::new(arguments.max_tokens)?;
    let Arguments { conditions, same_span, none, from, to, last, order, limit, cursor, .. } = arguments;
    let filter = arguments::raw_filter(conditions, same_span, none)?;
    let (from, to) = match &cursor {
        None => {
            window::bounds(from.as_deref(), to.as_deref(), last.as_deref(), context.service.core().now())?
        }
        Some(_) if from.is_some() || to.is_some() || last.is_some() => {
            let detail = "it contains the window of the first page: leave `from`, `to` and `last` out";
            return Err(Failure::argument("cursor", detail));
        }
        Some(_) => (None, None),
    };
    let (order, first) = (order.unwrap_or_default(), cursor.is_none());
    let page = QueryRequest {
        from,
        to,
        filter,
        order,
        limit: Some(limit.unwrap_or(DEFAULT_LIMIT)),
        cursor,
        columns: None,
        view: View::Summary,
    };
    let begun = context.service.traces().begin_query(context.principal, page).await?;
    let window = begun.window();
    let (answer, page_cursors) = begun.run(None).await?;
    let AnswerBody::Summaries(traces) = answer.body else {
        return Err(Failure::internal("a page of summaries contains other items"));
    };
    let around = answer.schema.searched_around;
    let more = answer.next_cursor.is_some();
    let link = format!("{}/ui/trace/{{trace_id}}", context.origin);
    let render = |count: usize, detail_level: DetailLevel| {
        let shown: Vec<FoundTrace> =
            traces.iter().take(count).map(|summary| found_trace(summary, detail_level)).collect();
        let cut = count < traces.len();
        let answer = Answer {
            window: window::window_text(window),
            searched_around: window::searched_around(window, around),
            next: context.allowed_calls(next(context, &traces, count, &page_cursors)),
            traces: shown,
            link: link.clone(),
            returned: count,
            total: (first && !more).then_some(traces.len()),
            truncated: cut || more,
        };
        Rendered::new(text(&answer, order, first), &answer)
    };
    run_blocking(|| budget.fit_with_levels(&DETAIL_LEVELS, traces.len(), render))
}

fn found_trace(summary: &Summary, detail_level: DetailLevel) -> FoundTrace {
    let matched = summary.matched_span_ids.iter().take(MAX_MATCHED);
    FoundTrace {
        totals: Totals::new(summary, detail_level),
        matched_span_ids: matched.map(|id| one_line(id, 64)).collect(),
    }
}

fn next(
    context: &Context<'_>,
    traces: &[Summary],
    count: usize,
    page_cursors: &PageCursors,
) -> Vec<NextCall> {
    let mut next = Vec::new();
    let shown = || traces.iter().take(count);
    let failed = shown().find(|summary| summary.error_count.is_some_and(|errors| errors > 0));
    if let Some(summary) = failed.or_else(|| shown().next()) {
        let arguments = match failed {
            Some(_) => json!({ "trace_id": summary.trace_id, "view": "errors" }),
            None => json!({ "trace_id": summary.trace_id }),
        };
        next.push(NextCall::new("look into a trace", Tool::GetTrace, arguments));
    }
    if count == 0 && !traces.is_empty() {
        next.push(context.repeat("see them in an answer that is large enough", &[], &[largest()]));
        return next;
    }
    match page_cursors.cursor_after(count) {
        Ok(Some(cursor)) => {
            let with = [("cursor", json!(cursor))];
            next.push(context.repeat("list the next traces", &["from", "to", "last"], &with));
        }
        Ok(None) => {}
        Err(error) => tracing::warn!(code = error.code(), "no cursor"),
    }
    next
}

/// Formats the ids of matching spans, and the number of matching spans without an id.
fn matched_text(ids: &[String]) -> String {
    let named: Vec<&str> = ids.iter().map(String::as_str).filter(|id| !id.is_empty()).collect();
    let mut text = String::new();
    if !named.is_empty() {
        text += &format!(" | matched {}", named.join(" "));
    }
    let without = (ids.len() - named.len()) as u64;
    if without > 0 {
        text += &format!(" | matched {} without an id", pluralize(without, "span"));
    }
    text
}

fn text(answer: &Answer, order: TraceOrder, first: bool) -> String {
    let WindowText { from, to } = &answer.window;
    // "most_errors" becomes "most errors first".
    let first_text = json!(order).as_str().unwrap_or_default().replace('_', " ");
    let more = if answer.truncated { "more follow" } else { "no more" };
    let traces = pluralize(answer.returned as u64, "trace");
    let mut text = format!("{traces} from {from} to {to}, {first_text} first, {more}\n");
    text.extend(answer.searched_around.iter().map(|around| around.words.as_str()));
    if answer.traces.is_empty() && first && !answer.truncated {
        text += NO_RESULTS;
    }
    let line = |trace: &FoundTrace| trace.totals.text() + &matched_text(&trace.matched_span_ids);
    text += &fenced(answer.traces.iter().map(line));
    if !answer.traces.is_empty() {
        text += &format!("link to the web application: {}\n", answer.link);
    }
    text + &next_text(&answer.next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_spans_without_an_id_are_counted() {
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(matched_text(&[]), "");
        assert_eq!(matched_text(&ids(&["a1", "b2"])), " | matched a1 b2");
        assert_eq!(matched_text(&ids(&["", "a1"])), " | matched a1 | matched 1 span without an id");
        assert_eq!(matched_text(&ids(&["", ""])), " | matched 2 spans without an id");
    }
}
