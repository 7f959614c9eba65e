//! `svc_critical_path`: the spans that determined the duration of a trace.

use std::collections::HashMap;

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracewarden_service::Tool;

use super::{
    Context, DETAIL_LEVELS, DetailLevel, OpenedTrace, Totals, join_service_and_name, left_out, run_blocking,
};
use crate::answer::{Budget, NextCall, Rendered, next_text};
use crate::failure::Failure;
use crate::numbers::{duration_text, milliseconds, percent};
use crate::span_text::{fenced, name_or_none, one_line};
use crate::trace::critical_path::critical_path;
use crate::trace::tree::{Tree, kind};

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// From svc_query_traces.
    trace_id: String,
    /// Maximum tokens of the answer, 1000 to 20000. Default 3000.
    max_tokens: Option<i64>,
}

/// Spans of one kind on the critical path.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct Step {
    service: String,
    name: String,
    /// Span with the longest time on the path.
    span_id: String,
    /// Number of spans of this kind on the path.
    spans: usize,
    /// Time on the path.
    path_ms: f64,
    /// Share of the whole path, 0 to 1.
    share: f64,
    #[serde(skip)]
    nanos: i64,
    /// Index of the span in the trace.
    #[serde(skip)]
    index: usize,
}

/// The answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    trace: Totals,
    /// The critical path, longest step first: at each moment the span that determined the end of the trace.
    steps: Vec<Step>,
    returned: usize,
    total: usize,
    truncated: bool,
    next: Vec<NextCall>,
}

pub(crate) async fn call(context: &Context<'_>, arguments: Arguments) -> Result<CallToolResult, Failure> {
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
    let summary = &opened.outline.summary;
    let steps = steps(&opened.outline.tree);
    let render = |count: usize, detail_level: DetailLevel| {
        let mut next = Vec::new();
        let first = opened.outline.tree.readable_ids(steps.iter().take(count.min(3)).map(|step| step.index));
        if !first.is_empty() {
            next.push(NextCall {
                to: "see all values of the longest spans",
                tool: Tool::GetSpans.name(),
                arguments: json!({ "trace_id": summary.trace_id, "span_ids": first }),
            });
        }
        if count < steps.len() && budget.can_grow() {
            next.push(context.larger_answer());
        }
        let answer = Answer {
            trace: Totals::new(summary, detail_level),
            steps: steps.iter().take(count).map(|step| step.shown(detail_level)).collect(),
            returned: count,
            total: steps.len(),
            truncated: count < steps.len() || opened.outline.left_out() > 0,
            next: context.allowed_calls(next),
        };
        Rendered::new(text(&answer, summary.duration_nanos, opened.outline.left_out()), &answer)
    };
    budget.fit_with_levels(&DETAIL_LEVELS, steps.len(), render)
}

impl Step {
    fn shown(&self, detail_level: DetailLevel) -> Self {
        let span_id = one_line(&self.span_id, 64);
        let service = one_line(&self.service, detail_level.name);
        Self { service, name: name_or_none(&self.name, detail_level.name), span_id, ..self.clone() }
    }
}

fn steps(tree: &Tree) -> Vec<Step> {
    // Time on the path for each span.
    let mut times: HashMap<usize, i64> = HashMap::new();
    for segment in critical_path(tree) {
        *times.entry(segment.span).or_default() += segment.to.saturating_sub(segment.from);
    }
    let whole = times.values().copied().fold(0, i64::saturating_add).max(1);
    let mut spans: Vec<(usize, i64)> = times.into_iter().collect();
    spans.sort_by_key(|(span, nanos)| (std::cmp::Reverse(*nanos), *span));
    let mut steps: Vec<Step> = Vec::new();
    let mut indexes: HashMap<(String, String), usize> = HashMap::new();
    for (index, nanos) in spans {
        let Some(span) = tree.spans.get(index) else { continue };
        let known = *indexes.entry(kind(span)).or_insert(steps.len());
        match steps.get_mut(known) {
            Some(step) => {
                step.spans += 1;
                step.nanos = step.nanos.saturating_add(nanos);
            }
            None => steps.push(Step {
                service: span.service.clone().unwrap_or_default(),
                name: span.name.clone().unwrap_or_default(),
                span_id: span.span_id.clone(),
                spans: 1,
                path_ms: 0.0,
                share: 0.0,
                nanos,
                index,
            }),
        }
    }
    steps.sort_by_key(|step| std::cmp::Reverse(step.nanos));
    for step in &mut steps {
        step.path_ms = milliseconds(step.nanos);
        step.share = (step.nanos as f64 / whole as f64 * 10_000.0).round() / 10_000.0;
    }
    steps
}

fn text(answer: &Answer, duration: Option<i64>, unseen: u64) -> String {
    let mut lines = vec![answer.trace.text(duration)];
    lines.extend(answer.steps.iter().map(|step| {
        let spans = if step.spans > 1 { format!(" in {} spans", step.spans) } else { String::new() };
        format!(
            "{} {} {}{spans} [{}]",
            percent(step.share),
            duration_text(step.nanos),
            join_service_and_name(Some(&step.service), Some(&step.name)),
            step.span_id
        )
    }));
    let mut text =
        "critical path: the spans that determined the end of the trace, longest first\n".to_owned();
    text.push_str(&fenced(&lines));
    if answer.total == 0 {
        text.push_str("no critical path: the outermost spans have no duration\n");
    }
    if answer.returned < answer.total {
        text.push_str(&format!("{} of {} kinds of spans shown\n", answer.returned, answer.total));
    }
    text.push_str(&left_out(unseen));
    text + &next_text(&answer.next)
}
