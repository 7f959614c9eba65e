//! Steps back in time: from the newest end of the window, or from the end of the previous page, until the page is full. The
//! cost depends on the number of matches, and is at most that of the whole window, which is the last step.
//!
//! A step is one statement. It groups the spans in its time range that satisfy any required predicate. ClickHouse rejects
//! traces that lie entirely within the step, by the trace index, and do not satisfy all predicates. Returned traces match or
//! extend beyond the step; only the latter are decided by id.

use std::collections::HashSet;
use std::pin::{Pin, pin};

use futures::future::{Either, MaybeDone, maybe_done, select};
use tracewarden_model::Timestamp;

use super::crossing::{IndexSize, decided_crossing};
use super::grouping::fill_by_grouping;
use super::page::Page;
use super::resolve::{Candidate, DecidedTraces, RESOLVE_STATEMENTS, resolve_candidates};
use super::search::Search;
use super::trace_id::with_valid_trace_id;
use crate::ClickHouseError;
use crate::schema::TraceIndex;
use crate::search::selection::Position;
use crate::sql::Statement;

/// Growth factor of a step after one that found nothing.
const STEP_GROWTH: i64 = 8;

/// Maximum statements of the grouped pass.
const GROUPING_STATEMENTS: usize = 2;
/// Maximum statements from the last step on: the step, the crossing traces, and settling the candidates or grouping the rest.
const LAST_STEP_STATEMENTS: usize = 4;

/// Options of the steps plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepOptions {
    /// Length of the first step, in nanoseconds.
    pub(crate) first: i64,
    /// Length that costs as much as one more statement, in nanoseconds.
    pub(crate) statement: i64,
    /// Whether the first step reads the trace index, which is worth it unless the index is much larger than the step.
    pub(crate) use_trace_index: bool,
    pub(crate) index_size: IndexSize,
}

/// The part of the window not yet read.
pub(crate) struct RemainingWindow {
    /// Where it ends, in nanoseconds, exclusive.
    pub(crate) top: i64,
    /// At its last tick, only traces after this position.
    pub(crate) after: Option<Position>,
}

/// Waits for the first future, and meanwhile drives the second as far as it gets.
async fn await_while_driving<A: Future, B: Future>(first: A, second: Pin<&mut MaybeDone<B>>) -> A::Output {
    match select(pin!(first), second).await {
        Either::Left((output, _)) => output,
        Either::Right((_, first)) => first.await,
    }
}

/// Steps back until the page is full. The grouped pass takes over where steps would take too many statements.
pub(crate) async fn fill_by_steps(
    search: &Search<'_>,
    step_options: StepOptions,
    page: &mut Page,
) -> Result<(), ClickHouseError> {
    let from = search.window.from().as_nanos();
    let begin = search.begin();
    let mut remainder = RemainingWindow { top: begin, after: search.after.clone() };
    let StepOptions { first: mut length, statement, mut use_trace_index, index_size } = step_options;
    // Candidates not yet resolved, in order.
    let mut candidates: Vec<Candidate> = Vec::new();
    // The page is complete up to here.
    let mut complete_to = search.after.clone();
    loop {
        let left = search.statements_left();
        let bottom =
            if left > LAST_STEP_STATEMENTS { step_bottom(search, remainder.top, length) } else { from };
        let is_last = bottom == from;
        // Without a trace index, crossing traces are unknown.
        if is_last && (search.index.is_none() || left < LAST_STEP_STATEMENTS) {
            return fill_by_grouping(search, complete_to.as_ref(), page).await;
        }
        let step = read_step(search, bottom, &remainder, use_trace_index.then_some(index_size));
        // The last step rarely fills the page, and then crossing traces are needed: they are read concurrently.
        let mut crossing = pin!(maybe_done(decided_crossing(search, index_size)));
        let step_candidates =
            if is_last { await_while_driving(step, crossing.as_mut()).await? } else { step.await? };
        let limit_reached = step_candidates.len() >= max_candidates(search);
        let known: HashSet<String> = candidates.iter().map(|known| known.trace.clone()).collect();
        candidates.extend(step_candidates.into_iter().filter(|candidate| !known.contains(&candidate.trace)));
        let satisfying = candidates.iter().filter(|candidate| candidate.satisfies_all).count();
        let found = page.len().saturating_add(satisfying);
        let needs_more = found < search.wanted && !limit_reached;
        if needs_more && !is_last && use_trace_index {
            length = next_step_length(search, bottom, found, statement);
            remainder = RemainingWindow { top: bottom, after: None };
            search.report_progress(bottom, page.len());
            continue;
        }
        let can_group = search.statements_left() >= RESOLVE_STATEMENTS.saturating_add(GROUPING_STATEMENTS);
        if is_last && !limit_reached && (needs_more || !can_group) {
            crossing.as_mut().await;
            let Some(decided) = crossing.take_output().transpose()?.flatten() else {
                return fill_by_grouping(search, complete_to.as_ref(), page).await;
            };
            resolve_candidates(search, &candidates, usize::MAX, &decided, page).await?;
            return Ok(());
        }
        // Twice as many as wanted fill the page, except when the index lacks spans of their traces: then grouping takes
        // one more statement.
        if is_last && !can_group && found < search.wanted.saturating_mul(2) {
            return fill_by_grouping(search, complete_to.as_ref(), page).await;
        }
        let enough = if is_last && !can_group { usize::MAX } else { search.wanted.saturating_mul(2) };
        let stopped =
            resolve_candidates(search, &candidates, enough, &DecidedTraces::default(), page).await?;
        let limit_reached = candidates.last().filter(|_| limit_reached).map(Candidate::position);
        remainder = match stopped.or(limit_reached) {
            // Read the rest again with the trace index, which reaches the `LIMIT` later.
            Some(position) => RemainingWindow {
                top: search.nanos(position.key.saturating_add(1)).min(begin),
                after: Some(position),
            },
            None => RemainingWindow { top: bottom, after: None },
        };
        let position = remainder.after.clone().unwrap_or_else(|| position_before(search, bottom));
        if page.count_up_to(&position) >= search.wanted {
            return Ok(());
        }
        complete_to = Some(position);
        if is_last {
            return fill_by_grouping(search, complete_to.as_ref(), page).await;
        }
        search.report_progress(remainder.top, page.len());
        length = next_step_length(search, bottom, page.len(), statement);
        use_trace_index = true;
        candidates.clear();
    }
}

/// The position after all spans at or after a time, and before all earlier ones.
fn position_before(search: &Search<'_>, nanos: i64) -> Position {
    Position { tier: 1, key: search.table.tick_at_or_after(nanos).saturating_sub(1), trace_id: String::new() }
}

/// `LIMIT` of a step.
fn max_candidates(search: &Search<'_>) -> usize {
    search.wanted.saturating_mul(4).max(search.options.min_step_limit)
}

/// Returns where a step begins, in nanoseconds: at a whole tick, so that no span is in two steps.
fn step_bottom(search: &Search<'_>, top: i64, length: i64) -> i64 {
    let from = search.window.from().as_nanos();
    let bottom = top.saturating_sub(length);
    let bottom = bottom.div_euclid(search.table.nanos_per_tick).saturating_mul(search.table.nanos_per_tick);
    bottom.max(from)
}

/// Returns the traces with ordering spans in a step, in order; at most [`max_candidates`].
async fn read_step(
    search: &Search<'_>,
    bottom: i64,
    remainder: &RemainingWindow,
    index_size: Option<IndexSize>,
) -> Result<Vec<Candidate>, ClickHouseError> {
    search.rows(step_statement(search, bottom, remainder, index_size)?).await
}

/// Writes the statement of a step.
pub(crate) fn step_statement(
    search: &Search<'_>,
    bottom: i64,
    remainder: &RemainingWindow,
    index_size: Option<IndexSize>,
) -> Result<Statement, ClickHouseError> {
    let RemainingWindow { top, after } = remainder;
    let others = search.required_predicates.not_implied();
    let statement = search.table.statement();
    // ClickHouse uses no skip index for predicates combined with `OR`.
    let mut statement = if others.is_empty() { statement } else { statement.evaluated_per_row() };
    let key = search.required_predicates.key(search.table, &mut statement)?;
    let satisfies_all = search.required_predicates.having_clause(&others, search.table, &mut statement)?;
    let satisfies_any = search.required_predicates.satisfies_any(search.table, &mut statement)?;
    let range = Some((Timestamp::from_nanos(bottom), Timestamp::from_nanos(*top)));
    let range = search.range(range, &mut statement);
    let [trace, newest, spans, all] = statement.aliases(["trace", "newest", "spans", "all"]);
    let (id, ticks) = (&search.table.trace_id.text, &search.table.ticks);
    // Excludes spans, not traces: a trace whose newest span does not count has a later position, by another span.
    let after_condition = match after {
        None => String::new(),
        Some(after) => {
            let (key, after) = (statement.int(after.key), statement.string(&after.trace_id));
            format!(" AND ({ticks} < {key} OR {id} > {after})")
        }
    };
    let not_excluded = match (&search.index, index_size) {
        (Some(index), Some(size)) if !others.is_empty() && index.covers(search.window) => {
            // At the tick of `after`, some spans are excluded, so it is not part of the range.
            let top = after.as_ref().map_or(*top, |after| search.nanos(after.key).min(*top));
            let lies_within = lies_within(search, index, size, &trace, (bottom, top), &mut statement);
            format!(" AND ({all} OR NOT {lies_within})")
        }
        _ => String::new(),
    };
    let in_step =
        search.table.spans(&format!("{range}{after_condition} AND {satisfies_any}"), &mut statement);
    statement.push(&format!(
        "SELECT {id} AS {trace}, maxIf({ticks}, {key}) AS {newest}, min({ticks}), max({ticks}), countIf({key}) AS {spans}, \
         toUInt8({satisfies_all}) AS {all} FROM {in_step} GROUP BY {trace} \
         HAVING {is_valid_trace_id} ORDER BY {newest} DESC, {trace} ASC LIMIT {limit}",
        is_valid_trace_id = with_valid_trace_id(&trace, &format!("{spans} > 0{not_excluded}")),
        limit = max_candidates(search),
    ));
    Ok(statement)
}

/// SQL: whether a trace lies entirely in a range of nanoseconds. All of its entries must: the exporter writes one per
/// batch, so a trace may cross the boundary between two entries.
fn lies_within(
    search: &Search<'_>,
    index: &TraceIndex,
    size: IndexSize,
    trace: &str,
    (bottom, top): (i64, i64),
    statement: &mut Statement,
) -> String {
    let bottom = search.nanos(search.table.tick_at_or_after(bottom));
    let within = index.entry_within(search.window, (bottom, top), statement);
    let (id, index) = (&index.trace_id, &index.name);
    // Restricts the set to traces of the step, unless most of a small index is in the window.
    let restricted = match size {
        IndexSize::Inside => String::new(),
        IndexSize::Small | IndexSize::Large => {
            format!(" AND {id} GLOBAL IN (SELECT {id} FROM {index} WHERE {within})")
        }
    };
    format!(
        "({trace} GLOBAL IN (SELECT {id} FROM {index} WHERE {within}) \
         AND {trace} GLOBAL NOT IN (SELECT {id} FROM {index} WHERE NOT {within}{restricted}))"
    )
}

/// Returns the length of the next step, after one that ended at `bottom`.
fn next_step_length(search: &Search<'_>, bottom: i64, found: usize, statement: i64) -> i64 {
    let read = search.begin().saturating_sub(bottom).max(1);
    let rest = bottom.saturating_sub(search.window.from().as_nanos());
    next_length((read, rest), (found, search.wanted), statement)
}

/// Returns the length of the next step in nanoseconds, extrapolated from the traces found so far: all of the rest if the remainder
/// would cost less than a statement.
fn next_length((read, rest): (i64, i64), (found, wanted): (usize, usize), statement: i64) -> i64 {
    if found == 0 {
        return read.saturating_mul(STEP_GROWTH);
    }
    let missing = wanted.saturating_sub(found).max(1);
    let length = ((read as f64 * missing as f64 / found as f64 * 1.5) as i64).max(1);
    if length.saturating_add(statement) > rest { rest } else { length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_step_leaves_no_rest_that_costs_less_than_a_statement() {
        assert_eq!(next_length((10, 90), (0, 20), 5), 80);
        assert_eq!(next_length((10, 90), (10, 20), 5), 15);
        assert_eq!(next_length((10, 90), (5, 20), 5), 45);
        assert_eq!(next_length((10, 50), (5, 20), 5), 45);
        assert_eq!(next_length((10, 49), (5, 20), 5), 49);
        assert_eq!(next_length((10, 20), (5, 20), 0), 20);
        assert_eq!(next_length((i64::MAX, 1), (1, 200), i64::MAX), 1);
    }
}
