//! `svc_critical_path`: the spans that determined the duration of a trace.

use std::collections::BTreeMap;
use std::iter;

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracewarden_service::Tool;

use super::{
    Context, DETAIL_LEVELS, Definition, DetailLevel, OpenedTrace, Totals, TraceOutline,
    join_service_and_name, left_out, run_blocking, start_call,
};
use crate::answer::{Budget, NextCall, Rendered, next_text};
use crate::failure::Failure;
use crate::numbers::{Nanos, percent, share};
use crate::span_text::{fenced, name_or_none, one_line};
use crate::trace::critical_path::critical_path;
use crate::trace::slowest::{KindTime, kinds_by_time};
use crate::trace::tree::Tree;

pub(crate) const DEFINITION: Definition = Definition::new::<Arguments, Answer>(
    "Critical path",
    "Which spans decided how long a trace took, longest first.",
    |context| start_call(call, context),
);

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// From svc_query_traces.
    trace_id: String,
    /// Maximum tokens of the answer, 1000 to 20000. Default 3000.
    max_tokens: Option<i64>,
}

/// Spans of one kind on the critical path.
#[derive(Debug, Serialize, JsonSchema)]
struct Step {
    service: String,
    name: String,
    /// Span with the longest time on the path.
    span_id: String,
    /// Number of spans of this kind on the path.
    spans: usize,
    /// Time on the path.
    path_ms: Nanos,
    /// Share of the whole path, 0 to 1.
    share: f64,
}

/// The answer.
#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    trace: Totals,
    /// The critical path, longest step first: at each moment the span that determined the end of the trace.
    steps: Vec<Step>,
    returned: usize,
    total: usize,
    truncated: bool,
    next: Vec<NextCall>,
}

async fn call(context: &Context<'_>, arguments: Arguments) -> Result<CallToolResult, Failure> {
    let budget = Budget::new(arguments.max_tokens)?;
    let opened = context.open(&arguments.trace_id, None).await?;
    let result = run_blocking(|| build_result(context, budget, &opened));
    opened.trace.close().await?;
    result
}

fn build_result(
    context: &Context<'_>,
    budget: Budget,
    opened: &OpenedTrace,
) -> Result<CallToolResult, Failure> {
    let TraceOutline { summary, tree } = &opened.outline;
    let (steps, whole) = steps(tree);
    let step = |step: &KindTime, detail_level: DetailLevel| {
        let span = tree.spans.get(step.span)?;
        Some(Step {
            service: one_line(span.service.as_deref().unwrap_or_default(), detail_level.name),
            name: name_or_none(span.name.as_deref().unwrap_or_default(), detail_level.name),
            span_id: one_line(&span.span_id, 64),
            spans: step.count,
            path_ms: Nanos(step.total),
            share: share(step.total.unsigned_abs(), whole.unsigned_abs()),
        })
    };
    let render = |count: usize, detail_level: DetailLevel| {
        let first = tree.readable_ids(steps.iter().take(count.min(3)).map(|step| step.span));
        let next = (!first.is_empty()).then(|| {
            let arguments = json!({ "trace_id": summary.trace_id, "span_ids": first });
            NextCall::new("see all values of the longest spans", Tool::GetSpans, arguments)
        });
        let answer = Answer {
            trace: Totals::new(summary, detail_level),
            steps: steps.iter().take(count).filter_map(|kind| step(kind, detail_level)).collect(),
            returned: count,
            total: steps.len(),
            truncated: count < steps.len() || opened.outline.left_out() > 0,
            next: context.next_calls(next, budget, count < steps.len()),
        };
        Rendered::new(text(&answer, opened.outline.left_out()), &answer)
    };
    budget.fit_with_levels(&DETAIL_LEVELS, steps.len(), render)
}

/// Returns the kinds of spans on the path by their time on it, and the time of the whole path.
fn steps(tree: &Tree) -> (Vec<KindTime>, i64) {
    let mut times: BTreeMap<usize, i64> = BTreeMap::new();
    for segment in critical_path(tree) {
        *times.entry(segment.span).or_default() += segment.to.saturating_sub(segment.from);
    }
    let whole = times.values().copied().fold(0, i64::saturating_add);
    (kinds_by_time(tree, times), whole)
}

fn text(answer: &Answer, unseen: u64) -> String {
    let line = |step: &Step| {
        let spans = if step.spans > 1 { format!(" in {} spans", step.spans) } else { String::new() };
        let name = join_service_and_name(Some(&step.service), Some(&step.name));
        format!("{} {} {name}{spans} [{}]", percent(step.share), step.path_ms, step.span_id)
    };
    let mut text =
        "critical path: the spans that determined the end of the trace, longest first\n".to_owned();
    text += &fenced(iter::once(answer.trace.text()).chain(answer.steps.iter().map(line)));
    if answer.total == 0 {
        text += "no critical path: the outermost spans have no duration\n";
    }
    if answer.returned < answer.total {
        text += &format!("{} of {} kinds of spans shown\n", answer.returned, answer.total);
    }
    text + &left_out(unseen) + &next_text(&answer.next)
}
