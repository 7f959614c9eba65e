//! Finds the traces that satisfy a rare predicate and decides them by id in batches, latest end first.

use std::collections::BTreeSet;

use futures::future::join;

use super::crossing::{CrossingKind, IndexSize, crossing_traces};
use super::grouping::{fill_by_grouping, matching_traces};
use super::page::Page;
use super::required_predicates::RequiredPredicate;
use super::search::Search;
use super::trace_bounds::{TraceBounds, read_trace_bounds};
use super::trace_id::is_valid_trace_id;
use super::trace_set::BoundedTraces;
use crate::ClickHouseError;
use crate::search::selection::Position;
use crate::sql::Statement;

/// Batches before the last, which takes all remaining traces; each is this many times larger than the one before.
const BATCHES: u32 = 2;
const BATCH_GROWTH: usize = 16;

/// The predicates by which candidates are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RarePredicates {
    /// The candidates are the traces that satisfy all of these predicates, except predicates with too many traces. The number of
    /// granules does not tell the number of traces: a predicate that follows the sorting key matches few granules and fills them.
    pub(crate) sources: Vec<RequiredPredicate>,
    /// They exclude candidates before these are decided.
    pub(crate) filters: Vec<RequiredPredicate>,
}

/// The traces of rare predicates.
struct RareTraces {
    traces: BTreeSet<String>,
    /// Other required predicates that an index serves.
    filters: Vec<RequiredPredicate>,
}

/// Fills the page if few enough traces satisfy one of the predicates. Otherwise returns `false` and leaves the page
/// unchanged.
pub(crate) async fn fill_by_rare_predicates(
    search: &Search<'_>,
    rare: &RarePredicates,
    index_size: IndexSize,
    page: &mut Page,
) -> Result<bool, ClickHouseError> {
    let Some(RareTraces { mut traces, filters }) = rare_traces(search, rare).await? else {
        return Ok(false);
    };
    let mut bounds = TraceBounds::new(search.default_range);
    if search.index.is_some() {
        let candidate_bounds = read_trace_bounds(search, traces.iter().cloned().collect());
        let (candidate_bounds, far) =
            join(candidate_bounds, crossing_traces(search, CrossingKind::Far, index_size)).await;
        let Some(far) = far? else {
            fill_by_grouping(search, search.after.as_ref(), page).await?;
            return Ok(true);
        };
        bounds = candidate_bounds?;
        bounds.extend(far.bounds);
        traces.extend(far.traces);
    }
    let traces = traces.into_iter().collect();
    decide_in_batches(search, traces, &bounds, &filters, page).await?;
    search.report_progress(search.window.from().as_nanos(), page.len());
    Ok(true)
}

/// Returns the traces that satisfy every predicate with few enough traces; `None` if each has too many.
async fn rare_traces(
    search: &Search<'_>,
    rare: &RarePredicates,
) -> Result<Option<RareTraces>, ClickHouseError> {
    let rows: Vec<(u8, String, u8)> = search.rows(candidates_statement(search, rare)?).await?;
    let (mut traces, mut filters): (Option<BTreeSet<String>>, _) = (None, rare.filters.clone());
    for (number, predicate) in (0..).zip(&rare.sources) {
        let rows_of_predicate = || rows.iter().filter(|row| row.0 == number);
        if rows_of_predicate().count() > search.options.max_rare_traces {
            continue;
        }
        filters.retain(|other| other != predicate);
        let valid: BTreeSet<String> = rows_of_predicate()
            .filter(|(_, _, is_valid_trace_id)| *is_valid_trace_id == 1)
            .map(|(_, trace, _)| trace.clone())
            .collect();
        traces = Some(match traces {
            None => valid,
            Some(mut traces) => {
                traces.retain(|trace| valid.contains(trace));
                traces
            }
        });
    }
    Ok(traces.map(|traces| RareTraces { traces, filters }))
}

/// Returns the statement for traces with a span that satisfies a predicate, for each predicate: in the window and
/// `max_trace_duration` around it, where traces that the trace index lacks can have spans.
fn candidates_statement(search: &Search<'_>, rare: &RarePredicates) -> Result<Statement, ClickHouseError> {
    let mut statement = search.table.statement();
    let trace = statement.alias("trace");
    let mut branches = Vec::new();
    for (number, predicate) in rare.sources.iter().enumerate() {
        let span_condition =
            search.required_predicates.span_condition(*predicate, search.table, &mut statement)?;
        let range = search.range(search.default_range, &mut statement);
        // `DISTINCT` streams ids and `LIMIT` stops it early; `GROUP BY` would not. Ids are validated in the outer query: an
        // inner condition would read the id of every span.
        branches.push(format!(
            "SELECT toUInt8({number}), {trace}, toUInt8({is_valid_trace_id}) \
             FROM (SELECT DISTINCT {id} AS {trace} FROM {spans} LIMIT {limit})",
            is_valid_trace_id = is_valid_trace_id(&trace),
            id = search.table.trace_id.text,
            spans = search.table.spans(&format!("{range} AND {span_condition}"), &mut statement),
            limit = search.options.max_rare_traces.saturating_add(1),
        ));
    }
    statement.push(&branches.join(" UNION ALL "));
    Ok(statement)
}

/// Decides traces in batches until the page is full. Traces that end last go first: a trace is never ordered by a time
/// after its end.
async fn decide_in_batches(
    search: &Search<'_>,
    mut traces: Vec<String>,
    bounds: &TraceBounds,
    filters: &[RequiredPredicate],
    page: &mut Page,
) -> Result<(), ClickHouseError> {
    let last = |trace: &String| bounds.get(trace).map_or(i64::MAX, |(_, to)| to);
    traces.sort_by_cached_key(|trace| std::cmp::Reverse(last(trace)));
    let mut size = search.wanted.saturating_mul(2).max(search.options.min_batch);
    let mut rest = traces.as_slice();
    for batch in 0..=BATCHES {
        let Some(next) = rest.first() else { break };
        let ends = search.table.tick_at_or_after(last(next).min(search.window.to().as_nanos()));
        let position = Position { tier: 1, key: ends.saturating_sub(1), trace_id: String::new() };
        if page.count_up_to(&position) >= search.wanted {
            break;
        }
        let (now, later) = rest.split_at(if batch < BATCHES { size.min(rest.len()) } else { rest.len() });
        page.extend(matching_traces(search, BoundedTraces { traces: now, bounds, filters }).await?);
        rest = later;
        size = size.saturating_mul(BATCH_GROWTH);
    }
    Ok(())
}
