//! `svc_field_values`: the values of a field in the traces that the caller may read.

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracewarden_service::{FieldValuesRequest, Tool, ValueCount};

use super::{Context, Definition, pluralize, start_call};
use crate::answer::{Budget, NextCall, Rendered, next_text};
use crate::arguments::Condition;
use crate::failure::Failure;
use crate::span_text::{fenced, one_line, value_line};
use crate::window::{self, SearchedAround, WindowText};

pub(crate) const DEFINITION: Definition = Definition::new::<Arguments, Answer>(
    "Values of a field",
    "Most frequent values of a field in the newest traces that you may read, for use in conditions.",
    |context| start_call(call, context),
);

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// A field of type string or string_array, as svc_filter_schema writes it.
    #[serde(rename = "ref")]
    reference: String,
    /// Prefix of the values.
    prefix: Option<String>,
    /// Text that the values contain, ignoring the case of ASCII letters.
    contains: Option<String>,
    /// Start, RFC 3339. Default: 24 hours before `to`.
    from: Option<String>,
    /// End (exclusive), RFC 3339. Default: now.
    to: Option<String>,
    /// Instead of from and to: the time until now, e.g. 15m, 6h, 7d.
    last: Option<String>,
    /// Number of values, at most 100. Default 20.
    limit: Option<i64>,
    /// Maximum tokens of the answer, 1000 to 20000. Default 3000.
    max_tokens: Option<i64>,
}

/// The answer.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    #[serde(rename = "ref")]
    reference: String,
    /// Most frequent first, by number of traces; each can be used in a condition.
    values: Vec<ValueCount>,
    window: WindowText,
    /// If there is no trace index: only spans in this time range were read to match traces.
    searched_around: Option<SearchedAround>,
    /// Number of traces that were sampled: the newest.
    sampled_traces: u64,
    /// Whether all traces with such a value were sampled.
    complete: bool,
    /// Number of values that are too long for a condition, or not text.
    unlisted: u64,
    returned: usize,
    /// Absent if there are more than the limit.
    total: Option<usize>,
    truncated: bool,
    next: Vec<NextCall>,
}

async fn call(context: &Context<'_>, arguments: Arguments) -> Result<CallToolResult, Failure> {
    let budget = Budget::new(arguments.max_tokens)?;
    let Arguments { reference, prefix, contains, from, to, last, limit, .. } = arguments;
    let (from, to) =
        window::bounds(from.as_deref(), to.as_deref(), last.as_deref(), context.service.core().now())?;
    let request = FieldValuesRequest { reference, prefix, contains, from, to, limit };
    let found = context.service.traces().field_values(context.principal, request).await?;
    let around = found.searched_around.map(|around| (around.from, around.to));
    let render = |count: usize, (with_next, longest): (bool, usize)| {
        let shown: Vec<&ValueCount> =
            found.values.iter().filter(|value| value.value.len() <= longest).take(count).collect();
        let window = window::window_text(found.window);
        let next = shown.first().filter(|_| with_next).map(|value| {
            let condition = Condition::equal_to(&found.reference, found.logical, &value.value);
            let arguments = json!({ "conditions": [condition], "from": window.from, "to": window.to });
            NextCall::new("list traces with the first value", Tool::QueryTraces, arguments)
        });
        let left = shown.len() < found.values.len();
        let answer = Answer {
            reference: found.reference.clone(),
            returned: shown.len(),
            values: shown.into_iter().cloned().collect(),
            window,
            searched_around: window::searched_around(found.window, around),
            sampled_traces: found.sampled_traces,
            complete: found.complete,
            unlisted: found.unlisted,
            total: (!found.more).then_some(found.values.len()),
            truncated: found.more || left,
            next: context.next_calls(next, budget, left),
        };
        Rendered::new(text(&answer, left), &answer)
    };
    // Next without a call that repeats the first value, then without long values.
    let forms = [(true, usize::MAX), (false, usize::MAX), (false, 60)];
    budget.fit_with_levels(&forms, found.values.len(), render)
}

fn text(answer: &Answer, left: bool) -> String {
    let which = if answer.complete { "all" } else { "the newest" };
    let mut text = format!(
        "values of {} in {which} {} from {} to {}\n",
        one_line(&answer.reference, 512),
        pluralize(answer.sampled_traces, "trace"),
        answer.window.from,
        answer.window.to
    );
    text.extend(answer.searched_around.iter().map(|around| around.words.as_str()));
    if answer.values.is_empty() {
        text += "None: no trace that you may read has such a value in this window. Try a longer `last`, or leave \
                 out `prefix` and `contains`; traces that you may not read are never counted.\n";
    }
    let line = |ValueCount { value, traces, spans }: &ValueCount| {
        let (traces, spans) = (pluralize(*traces, "trace"), pluralize(*spans, "span"));
        format!("{} ({traces}, {spans})", value_line(value, 1_024))
    };
    text += &fenced(answer.values.iter().map(line));
    if left {
        text +=
            &format!("{} shown; the others, or long ones, do not fit into `max_tokens`\n", answer.returned);
    } else if answer.truncated {
        text += &format!("{} shown of more; use `contains` or a larger `limit`\n", answer.returned);
    }
    if answer.unlisted > 0 {
        text += &format!("{} not listed: too long, or not text\n", pluralize(answer.unlisted, "value"));
    }
    text + &next_text(&answer.next)
}
