//! `svc_get_spans`: all values of some spans of a trace.

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tracewarden_service::{MAX_SPANS_PER_ID, Tool};

use super::span_values::{
    Columns, SpanValues, VALUE_LIMITS, ValueLimits, lines, omitted, omitted_text, read_all,
};
use super::{Context, Definition, run_blocking, start_call};
use crate::answer::{Budget, MAX_TOKENS, NextCall, Rendered, next_text};
use crate::arguments;
use crate::failure::Failure;
use crate::span_text::{fenced, one_line};

pub(crate) const DEFINITION: Definition = Definition::new::<Arguments, Answer>(
    "Spans in full",
    "Up to 20 spans of a trace with all attributes and events; long values cut.",
    |context| start_call(call, context),
);

/// Maximum number of spans per call.
const MAX_SPANS: usize = 20;

/// Arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// From svc_query_traces.
    trace_id: String,
    /// One to twenty ids. If several spans have the same id, the first four are returned.
    span_ids: Vec<String>,
    /// Only these columns, and the ids, timestamp and parent. Default: all.
    columns: Option<Vec<String>>,
    /// Maximum tokens of the answer, 1000 to 20000. Default 3000.
    max_tokens: Option<i64>,
}

/// The answer.
#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    trace_id: String,
    /// Columns of the table by name. Empty values are left out, except the span's name. Long values are truncated,
    /// with their length. If there are many, less relevant ones are left out, with their number under "…". A number
    /// that a double cannot hold is a text with its digits. `duration_invalid` marks a duration that is negative or
    /// not a number of nanoseconds, which counts as 0.
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    spans: Vec<Map<String, Value>>,
    /// Columns that are returned only if `columns` names them, because ClickHouse computes them at each read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    omitted_columns: Vec<String>,
    /// Ids that no span of the trace has.
    missing: Vec<String>,
    /// Whether values were truncated or left out.
    cut: bool,
    returned: usize,
    total: usize,
    truncated: bool,
    next: Vec<NextCall>,
}

async fn call(context: &Context<'_>, arguments: Arguments) -> Result<CallToolResult, Failure> {
    let budget = Budget::new(arguments.max_tokens)?;
    let Arguments { trace_id, mut span_ids, columns, .. } = arguments;
    if span_ids.is_empty() || span_ids.len() > MAX_SPANS {
        let detail = format!(
            "1 to {MAX_SPANS} ids of spans, as svc_get_trace names them; {} were sent",
            span_ids.len()
        );
        return Err(Failure::argument("span_ids", detail));
    }
    span_ids.sort();
    span_ids.dedup();
    let mut trace = context.service.traces().open_trace(context.principal, &trace_id, columns).await?;
    let schema = trace.schema();
    let (columns, omitted) = (Columns::new(&schema.binding), omitted(&schema));
    let Some(read) = trace.spans(&span_ids).await? else {
        trace.close().await?;
        let detail = "these spans are too large to be read together: request fewer, or only some `columns`";
        return Err(Failure::argument("span_ids", detail).after_reading());
    };
    // A hostile emitter may repeat an id: show spans with the same id together.
    let mut found: Vec<(String, Vec<SpanValues>)> = Vec::new();
    for span in read_all(read, &columns).await {
        match found.iter_mut().find(|(known, _)| *known == span.id) {
            Some((_, spans)) => spans.push(span),
            None => found.push((span.id.clone(), vec![span])),
        }
    }
    let missing: Vec<String> =
        span_ids.iter().filter(|id| !found.iter().any(|(known, _)| known == *id)).cloned().collect();
    let result = run_blocking(|| build_result(context, budget, trace.trace_id(), &found, &missing, &omitted));
    trace.close().await?;
    result
}

fn build_result(
    context: &Context<'_>,
    budget: Budget,
    trace_id: &str,
    found: &[(String, Vec<SpanValues>)],
    missing: &[String],
    omitted: &[String],
) -> Result<CallToolResult, Failure> {
    let render = |count: usize, detail: ValueLimits| {
        let meter = budget.meter();
        let (mut ids, mut shown, mut first_cut) = (Vec::new(), Vec::new(), None);
        for (at, (id, spans)) in found.iter().take(count).enumerate() {
            for span in spans {
                let span = span.shown(detail, &meter);
                if meter.is_exceeded() {
                    return Rendered::too_large();
                }
                first_cut = first_cut.or((!span.whole).then_some(at));
                ids.push(id.as_str());
                shown.push(span.values);
            }
        }
        let rest: Vec<&String> = found.iter().skip(count).map(|(id, _)| id).collect();
        let with = if found.is_empty() {
            None
        } else if count == 0 {
            budget.can_grow().then(|| {
                ("see them in an answer that is large enough", vec![("max_tokens", json!(MAX_TOKENS))])
            })
        } else if !rest.is_empty() {
            Some(("get the others", vec![("span_ids", json!(rest))]))
        } else {
            // A single span in the largest response, unless this is that response.
            first_cut.filter(|_| budget.can_grow() || found.len() > 1).and_then(|at| found.get(at)).map(
                |(id, _)| {
                    (
                        "see one in a larger answer",
                        vec![("span_ids", json!([id])), ("max_tokens", json!(MAX_TOKENS))],
                    )
                },
            )
        };
        let next = with.map(|(to, with)| {
            NextCall::new(to, Tool::GetSpans, arguments::modified_arguments(context.sent, &[], &with))
        });
        let total = found.iter().map(|(_, spans)| spans.len()).sum();
        let answer = Answer {
            trace_id: one_line(trace_id, 256),
            returned: shown.len(),
            total,
            truncated: shown.len() < total || first_cut.is_some(),
            cut: first_cut.is_some(),
            omitted_columns: omitted.to_vec(),
            missing: missing.iter().map(|id| one_line(id, 64)).collect(),
            next: context.allowed_calls(next.into_iter().collect()),
            spans: shown,
        };
        Rendered::new(text(&answer, &ids), &answer)
    };
    // Prefer all spans with few details over some spans with many.
    match VALUE_LIMITS.into_iter().find(|detail| budget.holds(render(found.len(), *detail))) {
        Some(detail) => budget.fit(found.len(), |count| render(count, detail)),
        None => budget.fit_with_levels(&VALUE_LIMITS, found.len(), render),
    }
}

fn text(answer: &Answer, ids: &[&str]) -> String {
    let mut text = format!("{} of {} spans of trace {}\n", answer.returned, answer.total, answer.trace_id);
    let selection = |(span, id): (&Map<String, Value>, &&str)| {
        let mut own = vec![format!("span {}", one_line(id, 64))];
        own.extend(lines(span));
        own
    };
    text.push_str(&fenced(&answer.spans.iter().zip(ids).flat_map(selection).collect::<Vec<_>>()));
    let many = |id: &&&str| ids.iter().filter(|known| known == id).count() >= MAX_SPANS_PER_ID;
    if ids.iter().any(|id| many(&id)) {
        text.push_str(&format!(
            "of several spans with one id, at most {MAX_SPANS_PER_ID} are given, the first by start\n"
        ));
    }
    if !answer.missing.is_empty() {
        text.push_str(&format!("no such span in this trace: {}\n", answer.missing.join(", ")));
    }
    text.push_str(&omitted_text(&answer.omitted_columns));
    text + &next_text(&answer.next)
}
