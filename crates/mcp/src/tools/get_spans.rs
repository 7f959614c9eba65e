//! `svc_get_spans`: all values of some spans of a trace.

use indexmap::IndexMap;
use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tracewarden_service::MAX_SPANS_PER_ID;

use super::span_values::{
    Columns, SpanValues, VALUE_LIMITS, ValueLimits, lines, omitted, omitted_text, read_all,
};
use super::{Context, Definition, run_blocking, start_call};
use crate::answer::{Budget, NextCall, Rendered, largest, next_text};
use crate::failure::Failure;
use crate::span_text::{fenced, one_line};

pub(crate) const DEFINITION: Definition = Definition::new::<Arguments, Answer>(
    "Spans in full",
    "Up to 20 spans of a trace with all attributes and events; long values cut.",
    |context| start_call(call, context),
);

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
    let mut found: IndexMap<String, Vec<SpanValues>> = IndexMap::new();
    for span in read_all(read, &columns).await {
        found.entry(span.id.clone()).or_default().push(span);
    }
    span_ids.retain(|id| !found.contains_key(id));
    let result =
        run_blocking(|| build_result(context, budget, trace.trace_id(), &found, &span_ids, &omitted));
    trace.close().await?;
    result
}

fn build_result(
    context: &Context<'_>,
    budget: Budget,
    trace_id: &str,
    found: &IndexMap<String, Vec<SpanValues>>,
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
        let rest: Vec<&String> = found.keys().skip(count).collect();
        let next = if found.is_empty() {
            None
        } else if count == 0 {
            let to = "see them in an answer that is large enough";
            budget.can_grow().then(|| context.repeat(to, &[], &[largest()]))
        } else if !rest.is_empty() {
            Some(context.repeat("get the others", &[], &[("span_ids", json!(rest))]))
        } else {
            // A single span in the largest response, unless this is that response.
            let cut = first_cut.filter(|_| budget.can_grow() || found.len() > 1);
            let one = |id| {
                context.repeat("see one in a larger answer", &[], &[("span_ids", json!([id])), largest()])
            };
            cut.and_then(|at| found.keys().nth(at)).map(one)
        };
        let total = found.values().map(Vec::len).sum();
        let answer = Answer {
            trace_id: one_line(trace_id, 256),
            returned: shown.len(),
            total,
            truncated: shown.len() < total || first_cut.is_some(),
            cut: first_cut.is_some(),
            omitted_columns: omitted.to_vec(),
            missing: missing.iter().map(|id| one_line(id, 64)).collect(),
            next: context.allowed_calls(next),
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
    text += &fenced(answer.spans.iter().zip(ids).flat_map(|(span, id)| lines(id, span)));
    let is_limited = |id: &&str| ids.iter().filter(|known| *known == id).count() >= MAX_SPANS_PER_ID;
    if ids.iter().any(is_limited) {
        text += &format!(
            "of several spans with one id, at most {MAX_SPANS_PER_ID} are given, the first by start\n"
        );
    }
    if !answer.missing.is_empty() {
        text += &format!("no such span in this trace: {}\n", answer.missing.join(", "));
    }
    text + &omitted_text(&answer.omitted_columns) + &next_text(&answer.next)
}
