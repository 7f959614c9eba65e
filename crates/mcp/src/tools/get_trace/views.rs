//! The views of the structure of a trace: outline, errors, slowest.

use std::collections::HashMap;

use rmcp::model::CallToolResult;
use serde_json::json;
use tracewarden_service::{SpanLine, SpanSummary};

use super::super::span_values::{Columns, read_all};
use super::super::{
    DETAIL_LEVELS, DetailLevel, OpenedTrace, join_service_and_name, pluralize, run_blocking, service_and_name,
};
use super::call::Call;
use super::wire::{Answer, ErrorOrigin, Line, SlowKind};
use crate::failure::Failure;
use crate::numbers::Nanos;
use crate::span_text::{name_or_none, one_line};
use crate::trace::errors::{Errors, Origin};
use crate::trace::outline::{Outline, ShownLine};
use crate::trace::slowest::{self, KindTime};
use crate::trace::tree::Tree;

/// Maximum number of error origins whose message is read.
const MAX_MESSAGES: usize = 20;
/// Traces up to this number of spans are shown completely if possible: a partial outline would only lead to another
/// call.
const SMALL_TRACE_SPANS: u64 = 100;
/// Maximum length of a message, as a multiple of the length of a name.
const MESSAGE_NAMES: usize = 4;
/// Maximum length of a path. The outermost and the innermost spans are named.
const MAX_PATH: usize = 8;

pub(super) fn outline(call: &Call<'_>, opened: &OpenedTrace) -> Result<CallToolResult, Failure> {
    let (summary, tree) = (&opened.outline.summary, &opened.outline.tree);
    let index_of = |id: &String| {
        tree.index_of(id).ok_or_else(|| {
            let id = one_line(id, 64);
            let detail = format!("the trace has no span `{id}`; leave `root` out for the whole trace");
            Failure::argument("root", detail).after_reading()
        })
    };
    let root = call.arguments.root.as_ref().map(index_of).transpose()?;
    let outline = Outline::new(tree, root);
    let depth = call.arguments.depth.and_then(|depth| usize::try_from(depth).ok());
    let all = outline.down_to(depth.unwrap_or(usize::MAX));
    let offset = call.offset(opened)?.min(all.len());
    let budget =
        if summary.span_count <= SMALL_TRACE_SPANS { call.budget.doubled_if_complete() } else { call.budget };
    // With a depth or a cursor the caller wants the lines in order; otherwise the most relevant ones.
    let continued = call.arguments.cursor.is_some();
    let in_order = call.arguments.depth.is_some() || continued;
    let render = |count: usize, detail_level: DetailLevel| {
        let complete = count == all.len() - offset;
        let shown: Vec<ShownLine> = if in_order || complete {
            all.iter().skip(offset).take(count).copied().collect()
        } else {
            outline.most_relevant(count)
        };
        let lines = || shown.iter().filter_map(|shown| Some((outline.lines.get(shown.line)?, shown.hidden)));
        let mut next = Vec::new();
        // Lines at the top level hide what the whole call is about, so they are excluded.
        let deep = lines().filter(|(line, hidden)| *hidden > 0 && line.depth > 0);
        // `root` selects the first span with an id, so it must be this one.
        let deep =
            deep.max_by_key(|(_, hidden)| *hidden).filter(|(line, _)| tree.is_first_with_id(line.span));
        if let Some(span) = deep.and_then(|(line, _)| tree.spans.get(line.span)) {
            let to = "see below the line that hides the most spans";
            next.push(call.other_view(to, "root", &span.span_id));
        }
        if !complete {
            next.push(if in_order { call.page(opened, offset, count) } else { call.in_order(opened) });
        } else if let (Some(depth), true) = (depth, lines().any(|(_, hidden)| hidden > 0)) {
            let deeper = ("depth", json!(depth.saturating_add(2)));
            next.push(call.context.repeat("see deeper levels", &["cursor"], &[deeper]));
        }
        if !continued && lines().any(|(line, _)| line.errors > 0) {
            next.push(call.other_view("see where errors came from", "view", "errors"));
        }
        let text = format!(
            "{} of {}: after the start, duration, service: operation [span id]\n",
            shown.len(),
            pluralize(all.len() as u64, "line")
        );
        let wire_lines: Vec<Line> =
            shown.iter().filter_map(|shown| line(tree, &outline, *shown, detail_level)).collect();
        let body: Vec<String> = wire_lines.iter().map(line_text).collect();
        let selected = "shown are the lines that failed or took long\n";
        let after = if complete || in_order { "" } else { selected };
        let answer = Answer {
            lines: Some(wire_lines),
            returned: count,
            total: all.len(),
            truncated: !complete || lines().any(|(_, hidden)| hidden > 0),
            ..Answer::default()
        };
        call.rendered(opened, detail_level, answer, (text, body, after), next)
    };
    budget.fit_with_levels(&DETAIL_LEVELS, all.len() - offset, render)
}

fn after_start(tree: &Tree, nanos: i64) -> i64 {
    nanos.saturating_sub(tree.start())
}

fn line(tree: &Tree, outline: &Outline, shown: ShownLine, detail_level: DetailLevel) -> Option<Line> {
    let line = outline.lines.get(shown.line)?;
    let span = tree.spans.get(line.span)?;
    let some = |count: usize| Some(count).filter(|count| *count > 0);
    let several = line.count > 1;
    Some(Line {
        depth: line.depth,
        span_id: one_line(&span.span_id, 64),
        service: span.service.as_deref().map(|service| one_line(service, detail_level.name)),
        name: span.name.as_ref().map(|_| name_or_none(&line.name, detail_level.name)),
        start_ms: Nanos(after_start(tree, line.start)),
        duration_ms: Nanos(line.longest),
        duration_invalid: line.duration_invalid.then_some(true),
        count: several.then_some(line.count),
        p50_ms: several.then_some(Nanos(line.median)),
        p95_ms: several.then_some(Nanos(line.p95)),
        errors: some(line.errors),
        hidden: some(shown.hidden),
    })
}

fn line_text(line: &Line) -> String {
    let mut text = format!("{}+{} {}", " ".repeat(line.depth.min(40)), line.start_ms, line.duration_ms);
    if let (Some(count), Some(p50), Some(p95)) = (line.count, line.p50_ms, line.p95_ms) {
        text += &format!(" ×{count} p50 {p50} p95 {p95}");
    }
    let name = join_service_and_name(line.service.as_deref(), line.name.as_deref());
    text += &format!(" {name} [{}]", line.span_id);
    match (line.errors, line.count) {
        (None, _) => {}
        (Some(_), None) => text += " FAILED",
        (Some(errors), Some(_)) => text += &format!(" {errors} FAILED"),
    }
    if line.duration_invalid.is_some() {
        text += " (duration below zero or no number of nanoseconds)";
    }
    text.extend(line.hidden.map(|hidden| format!(" (+{hidden} below)")));
    text
}

/// # Errors
/// If spans cannot be read; the trace is then closed.
pub(super) async fn errors(
    call: &Call<'_>,
    opened: &mut OpenedTrace,
) -> Result<Result<CallToolResult, Failure>, Failure> {
    let found = run_blocking(|| Errors::new(&opened.outline.tree));
    let offset = match call.offset(opened) {
        Ok(offset) => offset.min(found.origins.len()),
        Err(failure) => return Ok(Err(failure)),
    };
    let messages = messages(opened, found.origins.get(offset..).unwrap_or_default()).await?;
    Ok(run_blocking(|| errors_result(call, opened, &found, offset, &messages)))
}

/// Returns the messages of the first error origins, by the indexes of their spans.
async fn messages(opened: &mut OpenedTrace, origins: &[Origin]) -> Result<HashMap<usize, String>, Failure> {
    let indexes: Vec<usize> = origins.iter().take(MAX_MESSAGES).map(|origin| origin.span).collect();
    let spans = &opened.outline.tree.spans;
    let spans: Vec<SpanSummary> = indexes.iter().filter_map(|index| spans.get(*index)).cloned().collect();
    let columns = Columns::new(&opened.trace.schema().binding);
    // If the spans are too large, the response still lists their ids.
    let (found, read): (Vec<usize>, Vec<SpanLine>) =
        opened.trace.spans_by_identity(&spans, &[]).await?.unwrap_or_default().into_iter().unzip();
    let found = found.into_iter().zip(read_all(read, &columns).await);
    Ok(found.filter_map(|(at, span)| Some((*indexes.get(at)?, span.message()?))).collect())
}

fn errors_result(
    call: &Call<'_>,
    opened: &OpenedTrace,
    found: &Errors,
    offset: usize,
    messages: &HashMap<usize, String>,
) -> Result<CallToolResult, Failure> {
    let (summary, tree) = (&opened.outline.summary, &opened.outline.tree);
    let origins = found.origins.get(offset..).unwrap_or_default();
    let entry = |origin: &Origin, detail_level: DetailLevel| {
        let span = tree.spans.get(origin.span)?;
        let (start, end) = tree.interval(origin.span);
        let message = messages.get(&origin.span);
        Some(ErrorOrigin {
            path: path(tree, origin.span, detail_level),
            count: origin.count,
            start_ms: Nanos(after_start(tree, start)),
            duration_ms: Nanos(end.saturating_sub(start)),
            duration_invalid: span.duration_invalid.then_some(true),
            message: message.map(|text| one_line(text, MESSAGE_NAMES * detail_level.name)),
            span_id: one_line(&span.span_id, 64),
        })
    };
    let render = |count: usize, detail_level: DetailLevel| {
        let shown: Vec<ErrorOrigin> =
            origins.iter().take(count).filter_map(|origin| entry(origin, detail_level)).collect();
        let more = offset + count < found.origins.len();
        let first = origins.iter().take(count.min(3)).map(|origin| origin.span);
        let page = more.then(|| call.page(opened, offset, count));
        let next = call.spans(tree, first).into_iter().chain(page);
        let line = |origin: &ErrorOrigin| {
            let times = if origin.count > 1 { format!("×{} ", origin.count) } else { String::new() };
            let message = origin.message.as_ref().map(|text| format!(" — {text}")).unwrap_or_default();
            format!("{times}{} [{}]{message}", origin.path.join(" > "), origin.span_id)
        };
        let lines: Vec<String> = shown.iter().map(line).collect();
        let text = match (summary.error_count, found.failed) {
            (None, _) => "no status column is bound; the view slowest shows what took time\n".to_owned(),
            (Some(0), _) => {
                "no span of this trace failed; the view slowest shows what took time\n".to_owned()
            }
            (Some(_), 0) => "spans failed, but none of those that were read\n".to_owned(),
            (Some(_), failed) => format!(
                "{} failed; shown are those without a failed span below, by callers > span [span id] — \
                 message:\n",
                pluralize(failed as u64, "span")
            ),
        };
        let cut = format!("messages were read of the first {MAX_MESSAGES}\n");
        let after = if count > MAX_MESSAGES { &cut } else { "" };
        let answer = Answer {
            errors: Some(shown),
            returned: count,
            total: found.origins.len(),
            truncated: more,
            ..Answer::default()
        };
        call.rendered(opened, detail_level, answer, (text, lines, after), next)
    };
    call.budget.fit_with_levels(&DETAIL_LEVELS, origins.len(), render)
}

/// Returns the outermost ancestor, and the innermost ones down to the span.
fn path(tree: &Tree, index: usize, detail_level: DetailLevel) -> Vec<String> {
    let name = |span: &SpanSummary| {
        service_and_name(span.service.as_deref(), span.name.as_deref(), detail_level.name)
    };
    let (path, left_out) = tree.path(index, MAX_PATH);
    let mut names: Vec<String> =
        path.into_iter().filter_map(|index| tree.spans.get(index)).map(name).collect();
    if left_out > 0 {
        names.insert(1.min(names.len()), format!("… {left_out} more"));
    }
    names
}

pub(super) fn slowest(call: &Call<'_>, opened: &OpenedTrace) -> Result<CallToolResult, Failure> {
    let tree = &opened.outline.tree;
    let all = slowest::slowest(tree);
    let offset = call.offset(opened)?.min(all.len());
    let kinds = all.get(offset..).unwrap_or_default();
    let entry = |kind_time: &KindTime, detail_level: DetailLevel| {
        let span = tree.spans.get(kind_time.span)?;
        Some(SlowKind {
            span_id: one_line(&span.span_id, 64),
            service: span.service.as_deref().map(|service| one_line(service, detail_level.name)),
            name: span.name.as_deref().map(|name| name_or_none(name, detail_level.name)),
            count: kind_time.count,
            own_ms: Nanos(kind_time.total),
            longest_ms: Nanos(kind_time.longest),
        })
    };
    let render = |count: usize, detail_level: DetailLevel| {
        let shown: Vec<SlowKind> =
            kinds.iter().take(count).filter_map(|kind_time| entry(kind_time, detail_level)).collect();
        let more = offset + count < all.len();
        let first = kinds.iter().take(count.min(3)).map(|kind_time| kind_time.span);
        let spans = call.spans(tree, first).filter(|_| call.arguments.cursor.is_none());
        let page = more.then(|| call.page(opened, offset, count));
        let next = spans.into_iter().chain(page);
        let line = |kind: &SlowKind| {
            let several = match kind.count {
                0 | 1 => String::new(),
                count => format!(" ×{count}, longest {}", kind.longest_ms),
            };
            let name = join_service_and_name(kind.service.as_deref(), kind.name.as_deref());
            format!("{}{several} {name} [{}]", kind.own_ms, kind.span_id)
        };
        let lines: Vec<String> = shown.iter().map(line).collect();
        let text = "kinds of spans by their own time, without the time of called spans:\n".to_owned();
        let answer = Answer {
            slowest: Some(shown),
            returned: count,
            total: all.len(),
            truncated: more,
            ..Answer::default()
        };
        call.rendered(opened, detail_level, answer, (text, lines, ""), next)
    };
    call.budget.fit_with_levels(&DETAIL_LEVELS, kinds.len(), render)
}
