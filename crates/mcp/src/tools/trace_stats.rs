//! `svc_trace_stats`: counts, error rates and durations of all traces that match.

use itertools::Itertools as _;
use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracewarden_service::{
    Stats, StatsGroup, StatsNumbers, StatsOrder, StatsUnit, Tool, TraceStatsAnswer, TraceStatsRequest,
};

use super::{Context, Definition, NO_RESULTS, pluralize, start_call};
use crate::answer::{Budget, NextCall, Rendered, next_text};
use crate::arguments::{self, Condition};
use crate::failure::Failure;
use crate::numbers::{Nanos, percent, share};
use crate::span_text::{fenced, one_line, value_line};
use crate::window::{self, SearchedAround, WindowText};

pub(crate) const DEFINITION: Definition = Definition::new::<Arguments, Answer>(
    "Statistics of traces",
    "Counts, error rates and duration percentiles over all matching traces, by up to two fields. Start here to find where \
     errors or slowness are.",
    |context| start_call(call, context),
);

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// All must match (AND), each by any span of a trace. Default: none.
    conditions: Option<Vec<Condition>>,
    /// Groups of conditions: for each group, one span must satisfy all of its conditions.
    same_span: Option<Vec<Vec<Condition>>>,
    /// Conditions that no span of the trace may satisfy. Excludes traces.
    none: Option<Vec<Condition>>,
    /// At most two fields of type string or string_array, as svc_filter_schema writes them. Default: one total.
    group_by: Option<Vec<String>>,
    /// Order of groups: count (default), errors, error_rate, duration.
    measure: Option<StatsOrder>,
    /// span (default): statistics of spans; trace: of whole traces.
    per: Option<StatsUnit>,
    /// Start, RFC 3339. Default: 24 hours before `to`.
    from: Option<String>,
    /// End (exclusive), RFC 3339. Default: now.
    to: Option<String>,
    /// Instead of from and to: the time until now, e.g. 15m, 6h, 7d.
    last: Option<String>,
    /// Number of groups, at most 100. Default 10.
    limit: Option<i64>,
    /// Maximum tokens of the answer, 1000 to 20000. Default 3000.
    max_tokens: Option<i64>,
}

/// Statistics of some spans or traces.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
struct Numbers {
    traces: u64,
    spans: u64,
    errors: Option<u64>,
    /// Errors as a share of all spans, or of all traces.
    error_rate: Option<f64>,
    p50_ms: Option<Nanos>,
    p95_ms: Option<Nanos>,
    p99_ms: Option<Nanos>,
    /// Whether a span has a duration that is negative or not a number of nanoseconds, which counts as 0; absent if
    /// not.
    duration_invalid: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Group {
    /// Values of the fields, in their order.
    values: Vec<String>,
    #[serde(flatten)]
    numbers: Numbers,
}

/// The answer.
#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    window: WindowText,
    /// If there is no trace index: only spans in this time range were read to match traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    searched_around: Option<SearchedAround>,
    /// Statistics of all spans or traces, including those without a value to group by.
    all: Numbers,
    groups: Vec<Group>,
    /// Whether all traces were read; otherwise the newest million.
    complete: bool,
    returned: usize,
    /// Total number of groups.
    total: u64,
    truncated: bool,
    next: Vec<NextCall>,
}

impl Numbers {
    fn of(numbers: &StatsNumbers, per: StatsUnit) -> Self {
        let whole = match per {
            StatsUnit::Span => numbers.spans,
            StatsUnit::Trace => numbers.traces,
        };
        Self {
            traces: numbers.traces,
            spans: numbers.spans,
            errors: numbers.errors,
            error_rate: numbers.errors.map(|errors| share(errors, whole)),
            p50_ms: numbers.p50_nanos.map(Nanos),
            p95_ms: numbers.p95_nanos.map(Nanos),
            p99_ms: numbers.p99_nanos.map(Nanos),
            duration_invalid: numbers.duration_invalid.then_some(true),
        }
    }
}

async fn call(context: &Context<'_>, arguments: Arguments) -> Result<CallToolResult, Failure> {
    let sent = context.sent;
    let budget = Budget::new(arguments.max_tokens)?;
    let Arguments { conditions, same_span, none, group_by, measure, per, from, to, last, limit, .. } =
        arguments;
    let filter = arguments::raw_filter(conditions, same_span, none)?;
    let sent_conditions = filter.all_conditions().count();
    let (from, to) =
        window::bounds(from.as_deref(), to.as_deref(), last.as_deref(), context.service.core().now())?;
    let (group_by, per) = (group_by.unwrap_or_default(), per.unwrap_or_default());
    let measure = measure.unwrap_or_default();
    let request = TraceStatsRequest {
        from,
        to,
        filter,
        group_by: group_by.clone(),
        per,
        order: measure,
        limit,
        buckets: None,
        facets: Vec::new(),
    };
    let found = context.service.traces().trace_stats(context.principal, request).await?;
    let stats = &found.stats;
    let render = |count: usize, brief: bool| {
        let window = window::window_text(found.window);
        let first = stats.groups.first().filter(|_| count > 0 && !brief);
        // The suggested next call follows the measure: if the group is first by errors, look at its errors.
        let failed = found.status.as_ref().filter(|_| {
            orders_by_errors(measure)
                && first.map_or(&stats.total, |group| &group.numbers).errors.is_some_and(|errors| errors > 0)
        });
        let value = |value: &String| if brief { one_line(value, 60) } else { value.clone() };
        let group = |group: &StatsGroup| Group {
            values: group.values.iter().map(value).collect(),
            numbers: Numbers::of(&group.numbers, per),
        };
        let next = (stats.total.traces > 0 && !brief)
            .then(|| next(&found, (sent, sent_conditions), &group_by, first, &window, failed));
        let left = count < stats.groups.len();
        let answer = Answer {
            window,
            searched_around: window::searched_around(found.window, found.schema.searched_around),
            all: Numbers::of(&stats.total, per),
            groups: stats.groups.iter().take(count).map(group).collect(),
            complete: stats.complete,
            returned: count,
            total: stats.distinct,
            truncated: stats.distinct > count as u64,
            next: context.next_calls(next.flatten(), budget, left),
        };
        Rendered::new(text(&answer, stats, &group_by, measure, left), &answer)
    };
    budget.fit_with_levels(&[false, true], stats.groups.len(), render)
}

/// Returns the call for the traces of the first group, limited to those with a failed span if the status field is known
/// and a condition may have as many values as it has for failures. `None` if this would exceed the limit of conditions.
fn next(
    found: &TraceStatsAnswer,
    (sent, sent_conditions): (&Value, usize),
    group_by: &[String],
    first: Option<&StatsGroup>,
    window: &WindowText,
    failed: Option<&(String, Vec<String>)>,
) -> Option<NextCall> {
    let values = first.map(|group| group.values.as_slice()).unwrap_or_default();
    let fields = group_by.iter().zip(&found.types).zip(values);
    let mut added: Vec<Value> =
        fields.map(|((field, logical), value)| Condition::equal_to(field, *logical, value)).collect();
    let failed = failed.filter(|(_, errors)| errors.len() <= found.limits.max_values);
    if let Some((status, errors)) = failed {
        added.push(json!({ "ref": status, "op": "in", "values": errors }));
    }
    if sent_conditions.saturating_add(added.len()) > found.limits.max_conditions {
        return None;
    }
    let conditions: Vec<&Value> =
        sent.get("conditions").and_then(Value::as_array).into_iter().flatten().chain(&added).collect();
    let to = match (first.is_some(), failed.is_some()) {
        (true, true) => "list traces with the first group and a failed span",
        (true, false) => "list traces of the first group",
        (false, true) => "list traces with a failed span",
        (false, false) => "list the traces",
    };
    let with = [
        ("conditions", json!(conditions)),
        ("from", json!(window.from)),
        ("to", json!(window.to)),
        ("limit", json!(5)),
    ];
    let without = ["group_by", "measure", "per", "last", "max_tokens"];
    let arguments = arguments::modified_arguments(sent, &without, &with);
    Some(NextCall::new(to, Tool::QueryTraces, arguments))
}

/// Formats the answer; `left` tells whether some groups are not shown.
fn text(answer: &Answer, stats: &Stats, group_by: &[String], measure: StatsOrder, left: bool) -> String {
    let mut text = format!("from {} to {}: {}\n", answer.window.from, answer.window.to, line(&answer.all));
    text.extend(answer.searched_around.iter().map(|around| around.words.as_str()));
    let mut fields = group_by.iter().map(|field| one_line(field, 512));
    if answer.all.traces == 0 {
        text += NO_RESULTS;
    } else if stats.groups.is_empty() && !group_by.is_empty() {
        text += &format!("no span of these traces has a value in {}\n", fields.join(" and "));
    } else if !group_by.is_empty() {
        text += &format!("by {}:\n", fields.join(", "));
    }
    if answer.all.errors.is_none() && orders_by_errors(measure) {
        text += "no status column is bound: groups are not ordered by errors\n";
    }
    if answer.all.p95_ms.is_none() && answer.all.traces > 0 && measure == StatsOrder::Duration {
        text += "no duration column is bound: groups are not ordered by duration\n";
    }
    text += &fenced(answer.groups.iter().map(|group| {
        let values = group.values.iter().map(|value| value_line(value, 256)).join(", ");
        format!("{values}: {}", line(&group.numbers))
    }));
    if answer.truncated {
        let of = format!("{} of {} shown", answer.returned, pluralize(answer.total, "group"));
        let why = if left {
            "a larger `max_tokens` shows more"
        } else {
            "a larger `limit` shows more, but for values that are too long"
        };
        text += &format!("{of}; {why}\n");
    }
    if !answer.complete {
        text += "only the newest million traces were counted; use a shorter window for all\n";
    }
    text + &next_text(&answer.next)
}

fn orders_by_errors(measure: StatsOrder) -> bool {
    matches!(measure, StatsOrder::Errors | StatsOrder::ErrorRate)
}

fn line(numbers: &Numbers) -> String {
    let mut line = format!("{}, {}", pluralize(numbers.traces, "trace"), pluralize(numbers.spans, "span"));
    if let (Some(errors), Some(rate)) = (numbers.errors, numbers.error_rate) {
        line += &format!(", {} ({})", pluralize(errors, "error"), percent(rate));
    }
    if let (Some(p50), Some(p95), Some(p99)) = (numbers.p50_ms, numbers.p95_ms, numbers.p99_ms) {
        line += &format!(", p50 {p50} p95 {p95} p99 {p99}");
    }
    line
}

#[cfg(test)]
mod tests {
    use tracewarden_model::{Binding, Display, LogicalType, Timestamp, Window};
    use tracewarden_service::{Limits, SchemaEcho};

    use super::*;

    fn answer(max_values: usize) -> TraceStatsAnswer {
        let binding = Binding {
            database: "otel".to_owned(),
            table: "otel_traces".to_owned(),
            trace_id: "TraceId".to_owned(),
            span_id: "SpanId".to_owned(),
            timestamp: "Timestamp".to_owned(),
            parent_span_id: "ParentSpanId".to_owned(),
            trace_index: None,
            display: Display::default(),
            ..Binding::default()
        };
        TraceStatsAnswer {
            schema: SchemaEcho { binding, version: 1, omitted_columns: None, searched_around: None },
            window: Window::new(Timestamp::from_nanos(0), Timestamp::from_nanos(1)).unwrap(),
            stats: Stats::default(),
            types: vec![LogicalType::String],
            limits: Limits { max_values, ..Limits::default() },
            status: Some(("StatusCode".to_owned(), vec!["Error".to_owned(), "STATUS_CODE_ERROR".to_owned()])),
        }
    }

    #[test]
    fn a_failed_span_is_named_only_with_its_condition() {
        let check = |max_values: usize, grouped: bool, to: &str, conditions: Value| {
            let found = answer(max_values);
            let group = StatsGroup { values: vec!["a".to_owned()], numbers: StatsNumbers::default() };
            let first = grouped.then_some(&group);
            let group_by = ["ServiceName".to_owned()];
            let window = window::window_text(found.window);
            let next = next(&found, (&json!({}), 0), &group_by, first, &window, found.status.as_ref());
            let next = next.unwrap();
            assert_eq!((next.to, &next.arguments["conditions"]), (to, &conditions));
        };
        let failed = json!({"ref": "StatusCode", "op": "in", "values": ["Error", "STATUS_CODE_ERROR"]});
        let group = json!({"ref": "ServiceName", "op": "eq", "value": "a"});
        check(2, true, "list traces with the first group and a failed span", json!([group, failed]));
        check(2, false, "list traces with a failed span", json!([failed]));
        check(1, true, "list traces of the first group", json!([group]));
        check(1, false, "list the traces", json!([]));
    }
}
