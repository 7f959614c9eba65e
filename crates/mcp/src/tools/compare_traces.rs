//! `svc_compare_traces`: work that only one of two traces did, or that took longer in one.

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
use crate::span_text::{fenced, name_or_none, one_line};
use crate::trace::compare::{Difference, Side, differences};

pub(crate) const DEFINITION: Definition = Definition::new::<Arguments, Answer>(
    "Compare two traces",
    "What differs between two traces, by kind of work: numbers, errors, time.",
    |context| start_call(call, context),
);

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The trace to compare with, e.g. one without problems.
    first_trace_id: String,
    /// The trace to explain.
    second_trace_id: String,
    /// Maximum tokens of the answer, 1000 to 20000. Default 3000.
    max_tokens: Option<i64>,
}

/// The answer.
#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    first: Totals,
    second: Totals,
    /// Kinds of work that differ: those with different errors first, then by difference of self time.
    differences: Vec<Difference>,
    returned: usize,
    total: usize,
    truncated: bool,
    next: Vec<NextCall>,
}

async fn call(context: &Context<'_>, arguments: Arguments) -> Result<CallToolResult, Failure> {
    let budget = Budget::new(arguments.max_tokens)?;
    let Arguments { first_trace_id, second_trace_id, .. } = arguments;
    let for_argument = |argument: &'static str| move |failure: Failure| failure.for_argument(argument);
    // One after the other, so that a caller who may run only one query at a time can compare traces, and so that a
    // problem with the second trace does not show as one with the first.
    let first = outline(context, &first_trace_id).await.map_err(for_argument("first_trace_id"))?;
    let second = outline(context, &second_trace_id).await.map_err(for_argument("second_trace_id"))?;
    run_blocking(|| build_result(context, budget, &first, &second))
}

/// Reads a trace completely and closes it.
async fn outline(context: &Context<'_>, trace_id: &str) -> Result<TraceOutline, Failure> {
    let OpenedTrace { trace, outline } = context.open(trace_id, None).await?;
    trace.close().await?;
    Ok(outline)
}

fn build_result(
    context: &Context<'_>,
    budget: Budget,
    first: &TraceOutline,
    second: &TraceOutline,
) -> Result<CallToolResult, Failure> {
    let found = differences(&first.tree, &second.tree);
    let unseen = first.left_out() + second.left_out();
    let render = |count: usize, detail_level: DetailLevel| {
        // The totals of two traces fill a small response.
        let next = (detail_level.services > 0).then(|| critical_path(&second.summary.trace_id));
        let answer = Answer {
            first: Totals::new(&first.summary, detail_level),
            second: Totals::new(&second.summary, detail_level),
            differences: found.iter().take(count).map(|difference| shown(difference, detail_level)).collect(),
            returned: count,
            total: found.len(),
            truncated: count < found.len() || unseen > 0,
            next: context.next_calls(next, budget, count < found.len()),
        };
        Rendered::new(text(&answer, unseen), &answer)
    };
    budget.fit_with_levels(&DETAIL_LEVELS, found.len(), render)
}

/// Returns the call that explains the time of the second trace.
fn critical_path(trace_id: &str) -> NextCall {
    let to = "see the critical path of the second trace";
    NextCall::new(to, Tool::CriticalPath, json!({ "trace_id": trace_id }))
}

fn shown(difference: &Difference, detail_level: DetailLevel) -> Difference {
    Difference {
        service: one_line(&difference.service, detail_level.name),
        name: name_or_none(&difference.name, detail_level.name),
        ..*difference
    }
}

fn text(answer: &Answer, unseen: u64) -> String {
    let totals = [format!("first:  {}", answer.first.text()), format!("second: {}", answer.second.text())];
    let line = |Difference { service, name, first, second }: &Difference| {
        let side = |side: &Side| match side {
            Side { spans: 0, .. } => "none".to_owned(),
            Side { spans, errors: 0, own_ms } => format!("×{spans} {own_ms}"),
            Side { spans, errors, own_ms } => format!("×{spans} {own_ms}, {errors} failed"),
        };
        let name = join_service_and_name(Some(service.as_str()), Some(name.as_str()));
        format!("{name} | first {} | second {}", side(first), side(second))
    };
    let mut text = "differences by kind of work (times exclude called spans):\n".to_owned();
    text += &fenced(totals.into_iter().chain(answer.differences.iter().map(line)));
    if answer.returned < answer.total {
        text += &format!("{} of {} differences shown\n", answer.returned, answer.total);
    }
    if answer.total == 0 {
        text += "no differences in numbers, errors and times\n";
    }
    text + &left_out(unseen) + &next_text(&answer.next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::definition;

    #[test]
    fn the_suggested_call_returns_the_critical_path() {
        let next = critical_path("4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(next.tool, Tool::CriticalPath.name());
        assert_eq!((definition(Tool::CriticalPath).check_arguments)(&next.arguments), Ok(()));
    }
}
