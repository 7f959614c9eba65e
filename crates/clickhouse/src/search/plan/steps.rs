//! Steps back in time: from the newest end of the window, or from the end of the previous page, until the page is full. The
//! cost depends on the number of matches, and is about that of the whole window at most: one pass reads the rest.
//!
//! A step is one statement. It groups the spans in its time range that satisfy any predicate or exclusion. ClickHouse rejects
//! traces that lie entirely within the step, by the trace index, and do not satisfy all predicates. Returned traces match or
//! extend beyond the step; partial results of the latter, of several steps and the pass, are merged.

use tracewarden_model::Timestamp;

use super::candidates::{Candidate, CandidateColumns, Candidates};
use super::filtered_pass::{PassOptions, fill_by_filtered_pass, filtered_pass_statements};
use super::grouping::{GROUPING_STATEMENTS, fill_by_grouping};
use super::page::Page;
use super::resolve::{RESOLVE_STATEMENTS, Resolution, resolve_candidates};
use super::search::Search;
use super::trace_bounds::TraceBounds;
use super::trace_id::with_valid_trace_id;
use crate::Result;
use crate::schema::{TraceIndex, WindowShare};
use crate::search::selection::Position;
use crate::sql::Statement;

/// Growth factor of a step after one that found nothing.
const STEP_GROWTH: i64 = 8;

/// Matches are few if the window is expected to have fewer than this many times the wanted traces.
const FEW_MATCHES_PER_RESULT: f64 = 2.0;

/// Cost of a span in a step, as a multiple of that in a pass that reads only traces that satisfy the filter, if these are few: 0.54
/// and 0.24 microseconds of elapsed time in searches with two conditions and five roles.
const STEP_COST_RATIO: i64 = 2;

/// Options of the steps plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepOptions {
    /// Length of the first step, in nanoseconds.
    pub(crate) first: i64,
    /// Length that costs as much as one more statement, in nanoseconds.
    pub(crate) statement: i64,
    /// Whether the first step reads the trace index, which is worth it unless the index is much larger than the step.
    pub(crate) use_trace_index: bool,
    pub(crate) window_share: WindowShare,
    /// Whether [few](are_matches_few) traces are expected to match, before anything is read.
    pub(crate) expects_few_matches: bool,
    /// Whether a pass with few matches first selects traces by the filter.
    pub(crate) selects_traces: bool,
}

/// The part of the window not yet read.
pub(crate) struct RemainingWindow {
    /// Where it ends, in nanoseconds, exclusive.
    pub(crate) top: i64,
    /// At its last tick, only traces after this position.
    pub(crate) after: Option<Position>,
}

/// Steps back until the page is full. One pass over the rest takes over before steps would take too many statements.
pub(crate) async fn fill_by_steps(
    search: &Search<'_>,
    step_options: StepOptions,
    page: &mut Page,
) -> Result<()> {
    let from = search.window.from().as_nanos();
    let begin = search.begin();
    let mut remainder = RemainingWindow { top: begin, after: search.after.clone() };
    let StepOptions { first: mut length, mut use_trace_index, window_share, mut expects_few_matches, .. } =
        step_options;
    let further_step = match search.can_merge_partial_results() {
        // The grouped pass, which may read all times, never costs less.
        false => (1, 0),
        true if !step_options.selects_traces => (1, step_options.statement),
        true => (STEP_COST_RATIO, step_options.statement),
    };
    // Candidates not yet resolved, and the pass over the rest.
    let mut candidates = Candidates::default();
    let mut rest = PassOptions { after: search.after.clone(), ..PassOptions::default() };
    loop {
        let (left, of_pass) = (search.statements_left(), filtered_pass_statements(search));
        let bottom = step_bottom(search, remainder.top, length);
        // Keeps statements to resolve and group after a step that reaches its `LIMIT`.
        if bottom == from || left <= of_pass.max(RESOLVE_STATEMENTS.saturating_add(GROUPING_STATEMENTS)) {
            if search.can_merge_partial_results() && left >= of_pass {
                rest.selects_traces = expects_few_matches && step_options.selects_traces;
                return fill_by_filtered_pass(search, &rest, candidates, window_share, page).await.map(drop);
            }
            return fill_by_grouping(search, rest.after.as_ref(), page).await;
        }
        let step = step_statement(search, bottom, &remainder, use_trace_index)?;
        let step: Vec<Candidate> = search.rows(step).await?;
        let cut = step.last().filter(|_| step.len() >= search.max_candidates());
        let cut = cut.map(|last| last.position().unwrap_or_else(|| position_before(search, bottom)));
        candidates.merge(step);
        let found = page.len().saturating_add(candidates.provisional_matches(search));
        if found < search.wanted && cut.is_none() {
            remainder = RemainingWindow { top: bottom, after: None };
            (length, expects_few_matches) =
                next_step((from, begin), (bottom, bottom), (found, search.wanted), further_step);
            rest.steps_read_from = Some(bottom);
            search.report_progress(bottom, page.len());
            continue;
        }
        // If rows are missing, no candidate can be rejected: a missing row may hold what it lacks.
        let read_to = rest.after.as_ref().map_or(begin, |after| search.nanos(after.key).min(begin));
        let read = if cut.is_some() { (0, 0) } else { (bottom, read_to) };
        // Traces without an ordering span in the steps come later, and later statements read them again.
        let mut sorted = std::mem::take(&mut candidates).into_sorted();
        sorted.retain(|candidate| candidate.order_key.is_some());
        let enough = search.wanted.saturating_mul(2);
        let none = TraceBounds::default();
        let resolution = resolve_candidates(search, &sorted, read, enough, &none, page).await?;
        let position = match (resolution, cut) {
            (Resolution::Undecided, _) => {
                return fill_by_grouping(search, rest.after.as_ref(), page).await;
            }
            // Read the rest again with the trace index, which reaches the `LIMIT` later.
            (Resolution::UpTo(position), _) | (Resolution::Complete, Some(position)) => {
                let top = search.nanos(position.key.saturating_add(1)).min(begin);
                remainder = RemainingWindow { top, after: Some(position.clone()) };
                position
            }
            (Resolution::Complete, None) => {
                remainder = RemainingWindow { top: bottom, after: None };
                position_before(search, bottom)
            }
        };
        if page.count_up_to(&position) >= search.wanted {
            return Ok(());
        }
        rest = PassOptions { after: Some(position), ..PassOptions::default() };
        search.report_progress(remainder.top, page.len());
        (length, expects_few_matches) =
            next_step((from, begin), (bottom, remainder.top), (page.len(), search.wanted), further_step);
        use_trace_index = true;
    }
}

/// The position after all spans at or after a time, and before all earlier ones.
fn position_before(search: &Search<'_>, nanos: i64) -> Position {
    Position { tier: 1, key: search.table.tick_at_or_after(nanos).saturating_sub(1), trace_id: String::new() }
}

/// Returns where a step begins, in nanoseconds: at a whole tick, so that no span is in two steps.
fn step_bottom(search: &Search<'_>, top: i64, length: i64) -> i64 {
    let from = search.window.from().as_nanos();
    let bottom = top.saturating_sub(length);
    let bottom = bottom.div_euclid(search.table.nanos_per_tick).saturating_mul(search.table.nanos_per_tick);
    bottom.max(from)
}

/// Writes the statement of a step.
pub(crate) fn step_statement(
    search: &Search<'_>,
    bottom: i64,
    remainder: &RemainingWindow,
    use_trace_index: bool,
) -> Result<Statement> {
    let RemainingWindow { top, after } = remainder;
    let predicates = &search.required_predicates;
    let is_simple = predicates.not_implied().is_empty() && !predicates.has_exclusions();
    let statement = search.table.statement();
    // ClickHouse uses no skip index for predicates combined with `OR`.
    let mut statement = if is_simple { statement } else { statement.evaluated_per_row() };
    let (id, ticks) = (&search.table.trace_id.text, &search.table.ticks);
    let key = predicates.key(&mut statement)?;
    let candidate = CandidateColumns::new(search, &format!("maxOrNullIf({ticks}, {key})"), &mut statement)?;
    let satisfies_any = predicates.satisfies_any(&mut statement)?;
    let range = Some((Timestamp::from_nanos(bottom), Timestamp::from_nanos(*top)));
    let range = search.range(range, &mut statement);
    let (trace, order_key) = (&candidate.trace, &candidate.order_key);
    // Excludes spans, not traces: a trace whose newest span does not count has a later position, by another span.
    let after_condition = match after {
        None => String::new(),
        Some(after) => {
            let (key, after) = (statement.int(after.key), statement.string(&after.trace_id));
            format!(" AND ({ticks} < {key} OR {id} > {after})")
        }
    };
    let may_match = match &search.index {
        Some(index) if use_trace_index && !is_simple && index.covers(search.window) => {
            // At the tick of `after`, some spans are excluded, so it is not part of the range.
            let range = (bottom, after.as_ref().map_or(*top, |after| search.nanos(after.key).min(*top)));
            let lies_within = lies_within(search, index, trace, range, &mut statement);
            format!("({} OR NOT {lies_within})", candidate.satisfies_all(search))
        }
        _ => "1".to_owned(),
    };
    let in_step =
        search.table.spans(&format!("{range}{after_condition} AND {satisfies_any}"), &mut statement);
    statement.push(&format!(
        "SELECT {columns} FROM {in_step} GROUP BY {trace} \
         HAVING {may_match} ORDER BY {order_key} DESC, {trace} ASC LIMIT {limit}",
        columns = candidate.columns,
        may_match = with_valid_trace_id(trace, &may_match),
        limit = search.max_candidates(),
    ));
    Ok(statement)
}

/// SQL: whether a trace lies entirely in a range of nanoseconds. All of its entries must: the exporter writes one per
/// batch, so a trace may cross the boundary between two entries.
fn lies_within(
    search: &Search<'_>,
    index: &TraceIndex,
    trace: &str,
    (bottom, top): (i64, i64),
    statement: &mut Statement,
) -> String {
    let bottom = search.nanos(search.table.tick_at_or_after(bottom));
    let within = index.entry_within(search.window, (bottom, top), statement);
    let (id, index) = (&index.trace_id, &index.name);
    // Restricts the second set to traces with an entry in the step; otherwise, for a short step, it holds most of the index.
    let of_step = format!("GLOBAL IN (SELECT {id} FROM {index} WHERE {within})");
    format!(
        "({trace} {of_step} AND {trace} GLOBAL NOT IN (SELECT {id} FROM {index} WHERE NOT {within} AND {id} {of_step}))"
    )
}

/// Returns the length of the next step in a window, and whether it is expected to have few matches. `bottom` is where the last step
/// began, `top` where the next one ends, and the first trace count that of matches after `top`, decided or provisional. The last
/// argument is as in [`next_length`]; the ratio applies if matches are few.
fn next_step(
    (from, begin): (i64, i64),
    (bottom, top): (i64, i64),
    (found, wanted): (usize, usize),
    (ratio, statement): (i64, i64),
) -> (i64, bool) {
    let counted = begin.saturating_sub(top);
    let few = counted > 0 && are_matches_few((counted, begin.saturating_sub(from)), (found, wanted));
    let read = if found > 0 { counted } else { begin.saturating_sub(bottom) };
    let cost = (if few { ratio } else { 1 }, statement);
    (next_length((read.max(1), top.saturating_sub(from)), (found, wanted), cost), few)
}

/// Whether the whole window, in nanoseconds, is expected to have few matches, at the density of those found in the part read.
fn are_matches_few((read, whole): (i64, i64), (found, wanted): (usize, usize)) -> bool {
    found as f64 * whole as f64 / (read as f64) < (wanted as f64) * FEW_MATCHES_PER_RESULT
}

/// Returns the length of the next step in nanoseconds, extrapolated from the traces found so far: all of the rest, if a pass over it
/// costs less than the step and another statement. `ratio` is the cost of a span in a step, as a multiple of that in the pass.
fn next_length(
    (read, rest): (i64, i64),
    (found, wanted): (usize, usize),
    (ratio, statement): (i64, i64),
) -> i64 {
    let missing = wanted.saturating_sub(found).max(1);
    let length = match found {
        0 => read.saturating_mul(STEP_GROWTH),
        found => (read as f64 * missing as f64 / found as f64 * 1.5) as i64,
    };
    let cost = length.saturating_add(statement).saturating_mul(ratio);
    if cost > rest { rest } else { length.max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_few_where_their_density_does_not_fill_two_pages() {
        assert!(are_matches_few((10, 160), (0, 21)));
        assert!(are_matches_few((10, 160), (2, 21)));
        assert!(!are_matches_few((10, 160), (3, 21)));
        assert!(!are_matches_few((80, 160), (21, 21)));
    }

    #[test]
    fn the_next_step_begins_where_the_last_traces_were_decided() {
        for (searched, found, ratio, expected) in [
            ((150, 150), 0, 2, (150, true)),
            ((150, 150), 0, 1, (80, true)),
            ((150, 150), 10, 2, (15, false)),
            // After a step that reached its `LIMIT`.
            ((100, 150), 10, 2, (15, false)),
            ((100, 150), 0, 2, (150, true)),
            ((150, 160), 0, 2, (80, false)),
            ((100, 160), 0, 2, (160, false)),
        ] {
            let next = next_step((0, 160), searched, (found, 20), (ratio, 0));
            assert_eq!(next, expected, "{searched:?}, {found} found, {ratio}");
        }
    }

    #[test]
    fn the_next_step_is_all_of_the_rest_if_a_pass_over_it_costs_less() {
        for (part, found, cost, expected) in [
            ((10, 90), 0, (1, 5), 80),
            ((10, 90), 10, (1, 5), 15),
            ((10, 90), 5, (1, 5), 45),
            ((10, 50), 5, (1, 5), 45),
            ((10, 49), 5, (1, 5), 49),
            ((10, 20), 5, (1, 0), 20),
            ((10, 90), 0, (2, 5), 90),
            ((10, 90), 10, (2, 5), 15),
            ((10, 100), 5, (2, 5), 45),
            ((10, 99), 5, (2, 5), 99),
        ] {
            assert_eq!(next_length(part, (found, 20), cost), expected, "{part:?}, {found}, {cost:?}");
        }
        assert_eq!(next_length((i64::MAX, 1), (1, 200), (2, i64::MAX)), 1);
    }
}
