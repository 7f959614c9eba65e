//! `svc_field_values`: the values of a field in the traces that the caller may read.

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracewarden_service::{FieldValuesRequest, Tool, ValueCount};

use super::{Context, counted};
use crate::answer::{Budget, Next, Rendered, said};
use crate::arguments::Condition;
use crate::failure::Failure;
use crate::span_text::{fenced, one_line, value_line};
use crate::window::{self, Around, Said, Times};

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// A field of type string or string_array, as svc_filter_schema writes it.
    #[serde(rename = "ref")]
    reference: String,
    /// Prefix of the values.
    prefix: Option<String>,
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

#[derive(Debug, Serialize, JsonSchema)]
struct Counted {
    value: String,
    /// Number of traces with this value.
    traces: u64,
    /// Number of their spans with this value.
    spans: u64,
}

/// The answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    #[serde(rename = "ref")]
    reference: String,
    /// Most frequent first, by number of traces; each can be used in a condition.
    values: Vec<Counted>,
    window: Said,
    /// If there is no trace index: only spans in this time range were read to match traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    searched_around: Option<Around>,
    /// Number of traces that were sampled: the newest.
    sampled_traces: u64,
    /// Whether all traces with such a value were sampled.
    complete: bool,
    /// Number of values that are too long for a condition, or not text.
    unlisted: u64,
    returned: usize,
    /// Absent if there are more than the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<usize>,
    truncated: bool,
    next: Vec<Next>,
}

pub(crate) async fn call(context: &Context<'_>, arguments: Arguments) -> Result<CallToolResult, Failure> {
    let budget = Budget::of(arguments.max_tokens)?;
    let Arguments { reference, prefix, from, to, last, limit, .. } = arguments;
    let bounds = Times { from: &from, to: &to, last: &last }.bounds(context.service.now())?;
    let request = FieldValuesRequest { reference, prefix, from: bounds.from, to: bounds.to, limit };
    let found = context.service.field_values(context.principal, request).await?;
    let render = |count: usize, way: Way| {
        let shown: Vec<&ValueCount> =
            found.values.iter().filter(|value| way.shows(value)).take(count).collect();
        let window = window::said(found.window);
        let mut next = Vec::new();
        if let Some(value) = shown.first().filter(|_| way == Way::All) {
            let condition = Condition::having(&found.reference, found.logical, &value.value);
            next.push(Next {
                to: "list traces with the first value",
                tool: Tool::QueryTraces.name(),
                arguments: json!({ "conditions": [condition], "from": window.from, "to": window.to }),
            });
        }
        let left = shown.len() < found.values.len();
        if left && budget.can_grow() {
            next.push(context.larger());
        }
        let counted = |value: &ValueCount| Counted {
            value: value.value.clone(),
            traces: value.traces,
            spans: value.spans,
        };
        let answer = Answer {
            reference: found.reference.clone(),
            returned: shown.len(),
            values: shown.into_iter().map(counted).collect(),
            window,
            searched_around: window::around(found.window, found.searched_around),
            sampled_traces: found.sampled_traces,
            complete: found.complete,
            unlisted: found.unlisted,
            total: (!found.more).then_some(found.values.len()),
            truncated: found.more || left,
            next: context.offered(next),
        };
        Rendered::new(text(&answer, left), &answer)
    };
    budget.fit_briefly(&[Way::All, Way::WithoutNext, Way::Short], found.values.len(), render)
}

/// Forms of the response, tried in this order until one fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    All,
    /// Without a next call that repeats the first value.
    WithoutNext,
    /// Without long values.
    Short,
}

impl Way {
    fn shows(self, value: &ValueCount) -> bool {
        const SHORT: usize = 60;
        self != Self::Short || value.value.len() <= SHORT
    }
}

fn text(answer: &Answer, left: bool) -> String {
    let which = if answer.complete { "all" } else { "the newest" };
    let mut text = format!(
        "values of {} in {which} {} from {} to {}\n",
        one_line(&answer.reference, 512),
        counted(answer.sampled_traces, "trace"),
        answer.window.from,
        answer.window.to
    );
    text.push_str(window::around_said(answer.searched_around.as_ref()));
    if answer.values.is_empty() {
        text.push_str(
            "None: no trace that you may read has such a value in this window. Try a longer `last`, or no \
             `prefix`; traces that you may not read are never counted.\n",
        );
    }
    let line = |value: &Counted| {
        format!(
            "{} ({}, {})",
            value_line(&value.value, 1_024),
            counted(value.traces, "trace"),
            counted(value.spans, "span")
        )
    };
    text.push_str(&fenced(&answer.values.iter().map(line).collect::<Vec<_>>()));
    if left {
        text.push_str(&format!(
            "{} shown; the others, or long ones, do not fit into `max_tokens`\n",
            answer.returned
        ));
    } else if answer.truncated {
        text.push_str(&format!("{} shown of more; use `prefix` or a larger `limit`\n", answer.returned));
    }
    if answer.unlisted > 0 {
        text.push_str(&format!("{} not listed: too long, or not text\n", counted(answer.unlisted, "value")));
    }
    text + &said(&answer.next)
}
