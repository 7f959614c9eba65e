//! The view with all values, in pages.

use std::collections::HashMap;

use rmcp::model::CallToolResult;
use tracewarden_service::{SpanLine, SpanSummary};

use super::super::span_values::{Columns, SpanValues, VALUE_LIMITS, ValueLimits, lines, omitted, read_all};
use super::super::{DETAIL_LEVELS, DetailLevel, OpenedTrace, run_blocking};
use super::call::Call;
use super::wire::Answer;
use crate::answer::Rendered;
use crate::failure::Failure;

/// Number of spans that are read for a page, few of which fit. If they are too large to be read together, fewer are
/// read.
const READ_SIZES: [usize; 3] = [50, 8, 1];
/// Minimum number of spans of a page before values are truncated further.
const MIN_PAGE_SPANS: usize = 3;
/// Message for a span that could not be identified among those read.
const INDISTINCT: &str = "not read: many spans share this id, start, name and service, or the id is too long";

/// # Errors
/// If spans cannot be read; the trace is then closed.
pub(super) async fn full(
    call: &Call<'_>,
    opened: &mut OpenedTrace,
) -> Result<Result<CallToolResult, Failure>, Failure> {
    let schema = opened.trace.schema();
    let (columns, omitted) = (Columns::new(&schema.binding), omitted(&schema));
    let offset = match call.offset(opened) {
        // The cursor may be forged.
        Ok(offset) => offset.min(opened.outline.tree.spans.len()),
        Err(failure) => return Ok(Err(failure)),
    };
    let spans = page(opened, offset, &columns).await?;
    Ok(run_blocking(|| build_result(call, opened, offset, &spans, &omitted)))
}

/// Returns the spans from an offset, one for each position. A span that cannot be read is marked as such.
async fn page(
    opened: &mut OpenedTrace,
    offset: usize,
    columns: &Columns,
) -> Result<Vec<SpanValues>, Failure> {
    for wanted in READ_SIZES {
        let (before, spans) = opened.outline.tree.spans.split_at_checked(offset).unwrap_or_default();
        let spans: Vec<SpanSummary> = spans.iter().take(wanted).cloned().collect();
        let Some(read) = opened.trace.spans_by_identity(&spans, before).await? else { continue };
        let (found, read): (Vec<usize>, Vec<SpanLine>) = read.into_iter().unzip();
        let mut by_index: HashMap<usize, SpanValues> =
            found.into_iter().zip(read_all(read, columns).await).collect();
        let at = |(index, span): (usize, &SpanSummary)| {
            by_index.remove(&index).unwrap_or_else(|| SpanValues::unread(columns, &span.span_id, INDISTINCT))
        };
        return Ok(spans.iter().enumerate().map(at).collect());
    }
    let id = opened.outline.tree.spans.get(offset).map(|span| span.span_id.clone()).unwrap_or_default();
    Ok(vec![SpanValues::unread(columns, &id, "too large to be read; svc_get_spans takes columns")])
}

fn build_result(
    call: &Call<'_>,
    opened: &OpenedTrace,
    offset: usize,
    spans: &[SpanValues],
    omitted: &[String],
) -> Result<CallToolResult, Failure> {
    let (summary, tree) = (&opened.outline.summary, &opened.outline.tree);
    let render = |count: usize, (detail, detail_level): (ValueLimits, DetailLevel)| {
        let meter = call.budget.meter();
        let mut shown = Vec::new();
        for span in spans.iter().take(count) {
            shown.push(span.shown(detail, &meter));
            if meter.is_exceeded() {
                return Rendered::too_large();
            }
        }
        let more = offset + count < tree.spans.len();
        let next = more.then(|| call.page(opened, offset, count));
        let body: Vec<String> =
            spans.iter().zip(&shown).flat_map(|(span, shown)| lines(&span.id, &shown.values)).collect();
        let text =
            format!("spans {} to {} of {}, by start\n", offset + 1, offset + count, summary.span_count);
        let was_cut = shown.iter().any(|span| !span.whole);
        let all = usize::try_from(summary.span_count).unwrap_or(usize::MAX);
        let answer = Answer {
            spans: Some(shown.into_iter().map(|span| span.values).collect()),
            omitted_columns: omitted.to_vec(),
            returned: count,
            total: all,
            truncated: more || was_cut,
            ..Answer::default()
        };
        call.rendered(opened, detail_level, answer, (text, body, ""), next)
    };
    let min_spans = spans.len().min(MIN_PAGE_SPANS);
    let [full, .., least] = DETAIL_LEVELS;
    let widest_fitting =
        VALUE_LIMITS.into_iter().find(|detail| call.budget.holds(render(min_spans, (*detail, full))));
    let [.., briefest] = VALUE_LIMITS;
    let levels = [(widest_fitting.unwrap_or(briefest), full), (briefest, least)];
    call.budget.fit_with_levels(&levels, spans.len(), render)
}
