//! Chooses how the traces of a page are found, by estimates.

use tracewarden_model::Timestamp;

use super::crossing::IndexSize;
use super::estimates::{Granules, estimate_granules};
use super::rare_predicates::RarePredicates;
use super::required_predicates::RequiredPredicate;
use super::search::{Search, TimeRange};
use super::steps::StepOptions;

/// A way to find the traces of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Steps back in time.
    Steps(StepOptions),
    /// The traces that satisfy a rare predicate, decided by id.
    RarePredicates(RarePredicates),
    /// One grouped pass.
    GroupByTrace,
}

/// How the plan is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlanChoice {
    /// The cheapest plan by estimate.
    Auto,
    /// This plan; it may still fall back to another one.
    Fixed(Plan),
}

/// Divisors of the remaining window: candidate lengths of the first step, besides the whole and the last day.
const STEP_DIVISORS: [i64; 3] = [4, 16, 64];
/// A day in nanoseconds, by which tables are partitioned.
const DAY: i64 = 86_400 * 1_000_000_000;
/// A predicate is rare if its matches are expected to be at most this many times the wanted traces: with a more frequent
/// predicate, steps fill the page sooner.
const MAX_MATCHES_PER_RESULT: f64 = 16.0;
/// A predicate is also rare if it selects at most one in this many granules: bloom filters have one false positive in a
/// hundred, which in a large table is more than any match.
const RARE_GRANULE_RATIO: u64 = 32;

/// Maximum predicates whose traces are read as candidates.
const MAX_SOURCE_PREDICATES: usize = 2;
/// A predicate narrows the candidates of another one if it selects at most one in this many granules: finding its traces
/// among them then costs less than deciding the excluded ones.
const FILTER_GRANULE_RATIO: u64 = 4;

/// Whether the window holds so many of the table's granules that a set of the other traces costs less than grouping the whole
/// index.
fn is_most(window: u64, all: u64) -> bool {
    window.saturating_mul(5) >= all.saturating_mul(4)
}

/// Returns one step for the rest of the window.
pub(crate) fn single_step(search: &Search<'_>) -> StepOptions {
    StepOptions {
        first: remaining_length(search),
        statement: 0,
        use_trace_index: true,
        index_size: IndexSize::Large,
    }
}

/// Returns the length of the rest of the window, in nanoseconds.
fn remaining_length(search: &Search<'_>) -> i64 {
    search.begin().saturating_sub(search.window.from().as_nanos()).max(1)
}

/// Chooses the plan, and the step options to use if rare predicates match too many traces.
pub(crate) async fn choose_plan(search: &Search<'_>) -> (Plan, StepOptions) {
    let (begin, left) = (search.begin(), remaining_length(search));
    let step_lengths = step_lengths(begin, left);
    let newest = |length: &i64| {
        Some((Timestamp::from_nanos(begin.saturating_sub(*length)), Timestamp::from_nanos(begin)))
    };
    let required_predicates = search.required_predicates.all();
    let window = Some((search.window.from(), search.window.to()));
    // ClickHouse uses no skip index for predicates combined with `OR`.
    let step_filter =
        match (required_predicates.as_slice(), search.required_predicates.not_implied().as_slice()) {
            ([only], []) => Some(*only),
            _ => None,
        };
    let reads: Vec<(Option<RequiredPredicate>, TimeRange)> = step_lengths
        .iter()
        .map(|length| (step_filter, newest(length)))
        .chain(required_predicates.iter().map(|predicate| (Some(*predicate), window)))
        .chain([(None, window), (None, None)])
        .collect();
    let Some(granules) = estimate_granules(search, &reads).await else {
        let step_options =
            StepOptions { first: (left / 16).max(1), statement: left / 4, ..single_step(search) };
        return (Plan::Steps(step_options), step_options);
    };
    let (steps, rest) = granules.split_at(step_lengths.len().min(granules.len()));
    let (predicate_granules, rest) = rest.split_at(required_predicates.len().min(rest.len()));
    let selected = |at: usize| rest.get(at).map_or(0, |granules: &Granules| granules.selected);
    let (is_inside, index) = (is_most(selected(0), selected(1)), selected(2));
    let steps: Vec<(i64, u64)> =
        step_lengths.into_iter().zip(steps.iter().map(|granules| granules.selected)).collect();
    let step_options = choose_step_options(search, &steps, is_inside, index);
    let whole = steps.first().map_or(0, |(_, granules)| *granules);
    tracing::debug!(granules = whole, index_granules = index, predicates = ?predicate_granules, "estimated");
    let most = (search.wanted as f64 * MAX_MATCHES_PER_RESULT).min(search.options.max_rare_traces as f64);
    let mut by_granules: Vec<(RequiredPredicate, Granules)> =
        required_predicates.into_iter().zip(predicate_granules.iter().copied()).collect();
    by_granules.sort_by_key(|(_, granules)| granules.selected);
    let predicates_where = |chosen: &dyn Fn(Granules) -> bool| -> Vec<RequiredPredicate> {
        let chosen_predicates = by_granules.iter().filter(|(_, granules)| chosen(*granules));
        chosen_predicates.map(|(predicate, _)| *predicate).collect()
    };
    let mut sources = predicates_where(&|granules| granules.selected <= whole && is_rare(granules, most));
    if !sources.is_empty() && whole > search.options.statement_cost {
        sources.truncate(MAX_SOURCE_PREDICATES);
        let filters =
            predicates_where(&|granules| granules.selected.saturating_mul(FILTER_GRANULE_RATIO) <= whole);
        return (Plan::RarePredicates(RarePredicates { sources, filters }), step_options);
    }
    if search.index.is_none() && step_options.first == left {
        return (Plan::GroupByTrace, step_options);
    }
    (Plan::Steps(step_options), step_options)
}

/// Chooses the first step from estimates for several lengths, longest first. A shorter step wins if it reads at most two
/// thirds of the current choice and half of the window: in a table not sorted by time, a short step can read almost as much
/// as a long one.
fn choose_step_options(
    search: &Search<'_>,
    steps: &[(i64, u64)],
    is_inside: bool,
    index: u64,
) -> StepOptions {
    let whole = steps.first().copied().unwrap_or((remaining_length(search), 0));
    let chosen = steps.iter().copied().fold(whole, |chosen, step| {
        let saves = step.1.saturating_mul(3) <= chosen.1.saturating_mul(2);
        let is_part = step.1.saturating_mul(2) <= whole.1;
        if chosen.1 > search.options.statement_cost && saves && is_part { step } else { chosen }
    });
    let is_small = |granules: u64| index <= granules.saturating_mul(2).max(search.options.statement_cost);
    StepOptions {
        first: chosen.0.max(1),
        statement: (whole.0 as f64 * search.options.statement_cost as f64 / whole.1.max(1) as f64) as i64,
        use_trace_index: is_small(chosen.1),
        index_size: match (is_small(whole.1), is_inside) {
            (true, true) => IndexSize::Inside,
            (true, false) => IndexSize::Small,
            (false, _) => IndexSize::Large,
        },
    }
}

/// Candidate lengths of the first step, longest first. One ends at the start of the last day: tables are partitioned by day,
/// and part of a partition can cost as much as all of it.
fn step_lengths(begin: i64, left: i64) -> Vec<i64> {
    let day = begin.saturating_sub(1).rem_euclid(DAY).saturating_add(1);
    let mut step_lengths: Vec<i64> = STEP_DIVISORS.iter().map(|part| left / part).chain([day]).collect();
    step_lengths.retain(|length| *length > 0 && *length < left);
    step_lengths.sort_unstable_by_key(|length| std::cmp::Reverse(*length));
    step_lengths.dedup();
    step_lengths.insert(0, left);
    step_lengths
}

/// Whether a predicate is expected to have at most `most` matches, or leaves hardly any granules to read.
fn is_rare(granules: Granules, most: f64) -> bool {
    matches(granules) <= most
        || granules.selected.saturating_mul(RARE_GRANULE_RATIO) <= granules.after_primary_key
}

/// The expected matches of a predicate, from the share of granules that skip indexes leave of those left by the primary key:
/// matches spread at random over `n` granules leave the share `e^(-matches / n)` without any. Infinite without a skip index.
fn matches(granules: Granules) -> f64 {
    let without = 1.0 - granules.selected as f64 / granules.after_primary_key.max(1) as f64;
    -without.ln() * granules.after_primary_key as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_with_most_of_the_table_has_most_of_the_index() {
        for (window, all, expected) in [(0, 0, true), (8, 10, true), (7, 10, false), (1, 1_000, false)] {
            assert_eq!(is_most(window, all), expected, "{window} of {all}");
        }
    }

    /// A user with ten traces in a table of 128 granules, and in one of 100,000 with 1,000 false positives of bloom filters; a
    /// tenant in each granule, and a service without a skip index.
    #[test]
    fn rare_predicates_are_those_with_few_matches() {
        let of = |selected, after_primary_key| Granules { selected, after_primary_key };
        for (granules, rare) in [
            (of(10, 128), true),
            (of(60, 128), true),
            (of(1_010, 100_000), true),
            (of(30_000, 100_000), false),
            (of(128, 128), false),
            (of(4, 4), false),
            (of(0, 0), true),
            (of(0, 128), true),
        ] {
            assert_eq!(
                is_rare(granules, 21.0 * MAX_MATCHES_PER_RESULT),
                rare,
                "{granules:?}: {} matches",
                matches(granules)
            );
        }
    }
}
