//! Chooses how the traces of a page are found, by estimates.

use tracewarden_model::Timestamp;

use super::estimates::{Granules, estimate_granules};
use super::filtered_pass::filter_groups;
use super::required_predicates::RequiredPredicate;
use super::search::{Search, TimeRange};
use super::steps::StepOptions;
use crate::schema::WindowShare;

/// A way to find the traces of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Steps back in time.
    Steps(StepOptions),
    /// One statement over the window and its margins: all spans of the traces that satisfy these predicates, or, without any, the
    /// spans that satisfy any predicate.
    FilteredPass(Vec<RequiredPredicate>),
    /// One statement that groups all considered spans by trace, without a filter on predicates.
    GroupByTrace,
}

/// Divisors of the remaining window: possible lengths of the first step, besides the whole and the last day.
const STEP_DIVISORS: [i64; 2] = [16, 64];
/// A day in nanoseconds, by which tables are partitioned.
const DAY: i64 = 86_400 * 1_000_000_000;
/// A predicate is also rare if it selects at most one in this many granules: bloom filters have one false positive in a
/// hundred, which in a large table is more than any match.
const RARE_GRANULE_RATIO: u64 = 32;

/// A further predicate filters the traces of a rare one if it selects at most one in this many of the window's granules: reading
/// these costs less than reading the traces that it rejects.
const FILTER_GRANULE_RATIO: u64 = 4;

/// If a page is expected to need more than half of the window, a first step must save at least the cost of this many statements; if it
/// is expected to need several windows, that many times as much.
const MIN_STATEMENTS_SAVED: f64 = 4.0;
/// Maximum of these windows. So a search with many matches waits for a pass over at most some five million spans because one of the same
/// shape had hardly any.
const MAX_WINDOWS_NEEDED: f64 = 4.0;

/// Returns options without an estimate.
pub(crate) fn unestimated_steps(search: &Search<'_>) -> StepOptions {
    let left = remaining_length(search);
    StepOptions { first: (left / 16).max(1), statement: left / 4, ..no_steps(search) }
}

/// Returns options without a step: one pass reads the whole rest of the window.
pub(crate) fn no_steps(search: &Search<'_>) -> StepOptions {
    StepOptions {
        first: remaining_length(search),
        statement: 0,
        use_trace_index: true,
        window_share: WindowShare::Part,
        expects_few_matches: false,
        selects_traces: !filter_groups(search).is_empty(),
    }
}

/// Returns the length of the rest of the window, in nanoseconds.
fn remaining_length(search: &Search<'_>) -> i64 {
    search.begin().saturating_sub(search.window.from().as_nanos()).max(1)
}

/// Chooses the plan, and the step options to use if rare predicates match too many traces. It remembers a pass over few traces for
/// the next search of the same shape.
pub(crate) async fn choose_plan(search: &Search<'_>) -> (Plan, StepOptions) {
    let (begin, left) = (search.begin(), remaining_length(search));
    let step_lengths = step_lengths(begin, left);
    let newest = |length: &i64| {
        Some((Timestamp::from_nanos(begin.saturating_sub(*length)), Timestamp::from_nanos(begin)))
    };
    let required_predicates = search.required_predicates.all();
    let window = Some((search.window.from(), search.window.to()));
    // ClickHouse uses no skip index for predicates combined with `OR`.
    let step_filter = search.required_predicates.only();
    // The window without a filter, whose size is compared with that of the trace index.
    let unfiltered = step_filter.map(|_| (None, window));
    let reads: Vec<(Option<RequiredPredicate>, TimeRange)> = step_lengths
        .iter()
        .map(|length| (step_filter, newest(length)))
        .chain(unfiltered)
        .chain(required_predicates.iter().map(|predicate| (Some(*predicate), window)))
        .collect();
    let Some(granules) = estimate_granules(search, &reads).await else {
        let step_options = unestimated_steps(search);
        return (Plan::Steps(step_options), step_options);
    };
    let (steps, rest) = granules.split_at(step_lengths.len().min(granules.len()));
    let (unfiltered, rest) = rest.split_at(usize::from(unfiltered.is_some()).min(rest.len()));
    let (predicate_granules, index) = rest.split_at(required_predicates.len().min(rest.len()));
    let index = index.first().map_or(0, |granules| granules.selected);
    let window = unfiltered.first().or(steps.first()).copied().unwrap_or_default();
    let steps: Vec<(i64, u64)> =
        step_lengths.into_iter().zip(steps.iter().map(|granules| granules.selected)).collect();
    let mut step_options = choose_step_options(search, &steps, window, index);
    let whole = steps.first().map_or(0, |(_, granules)| *granules);
    tracing::debug!(granules = whole, index_granules = index, predicates = ?predicate_granules, "estimated");
    let most = search.max_rare_matches() as f64;
    let mut by_granules: Vec<(RequiredPredicate, Granules)> =
        required_predicates.into_iter().zip(predicate_granules.iter().copied()).collect();
    by_granules.sort_by_key(|(_, granules)| granules.selected);
    step_options.selects_traces = selects_traces(search, &by_granules);
    let window = search.window_length();
    let is_frequent = |predicate| {
        let hash = search.required_predicates.hash(predicate);
        let known = search.store.search_history.frequent_predicates.get(hash);
        known.is_some_and(|length| length <= window)
    };
    let is_rare = |(predicate, granules): &(RequiredPredicate, Granules)| {
        granules.selected <= whole && is_rare(*granules, most) && !is_frequent(*predicate)
    };
    // Policies often follow the sorting key, and then match whole granules.
    let of_filter = |predicate| matches!(predicate, RequiredPredicate::Group(_));
    let rare = || by_granules.iter().filter(|predicate| is_rare(predicate)).copied();
    let rarest = rare().find(|(predicate, _)| of_filter(*predicate)).or_else(|| rare().next());
    if let Some((rarest, rarest_granules)) = rarest
        && whole > search.options.statement_cost
        && search.can_merge_partial_results()
    {
        let filters = by_granules.iter().filter(|(predicate, granules)| {
            *predicate != rarest && granules.selected.saturating_mul(FILTER_GRANULE_RATIO) <= whole
        });
        let filters: Vec<_> = [rarest].into_iter().chain(filters.map(|(predicate, _)| *predicate)).collect();
        // Nothing limits the traces of an only predicate.
        if matches(rarest_granules) <= most && search.required_predicates.only().is_none() {
            search.remember_rare_traces(&filters, step_options.window_share);
        }
        return (Plan::FilteredPass(filters), step_options);
    }
    if !search.can_merge_partial_results() && step_options.first == left {
        return (Plan::GroupByTrace, step_options);
    }
    (Plan::Steps(step_options), step_options)
}

/// Chooses the first step from estimates for several lengths, longest first. A shorter step wins if it reads at most two
/// thirds of the current choice and half of the window: in a table not sorted by time, a short step can read almost as much
/// as a long one. If a page is expected to need more than half of the window, a step must save more, in proportion: the fewer
/// matches, the less likely the step is to fill the page.
fn choose_step_options(
    search: &Search<'_>,
    steps: &[(i64, u64)],
    window: Granules,
    index: u64,
) -> StepOptions {
    let whole = steps.first().copied().unwrap_or((remaining_length(search), 0));
    let chosen = steps.iter().copied().fold(whole, |chosen, step| {
        let saves = step.1.saturating_mul(3) <= chosen.1.saturating_mul(2);
        let is_part = step.1.saturating_mul(2) <= whole.1;
        if chosen.1 > search.options.statement_cost && saves && is_part { step } else { chosen }
    });
    let windows_needed = search.expected_length().map_or(0.0, |length| length as f64 / whole.0 as f64);
    let min_saved = MIN_STATEMENTS_SAVED * windows_needed.clamp(1.0, MAX_WINDOWS_NEEDED);
    let saved = whole.1.saturating_sub(chosen.1) as f64 / search.options.statement_cost.max(1) as f64;
    let is_left_out =
        chosen != whole && windows_needed > 0.5 && saved < min_saved && search.can_merge_partial_results();
    let chosen = if is_left_out { whole } else { chosen };
    let is_small = |granules: u64| index <= granules.saturating_mul(2).max(search.options.statement_cost);
    let is_inside = is_small(window.selected)
        && window.after_primary_key.saturating_mul(5) >= window.table.saturating_mul(4);
    StepOptions {
        first: chosen.0.max(1),
        statement: (whole.0 as f64 * search.options.statement_cost as f64 / whole.1.max(1) as f64) as i64,
        use_trace_index: is_small(chosen.1),
        window_share: if is_inside { WindowShare::Most } else { WindowShare::Part },
        expects_few_matches: is_left_out,
        ..no_steps(search)
    }
}

/// Whether a pass with few matches first selects traces by the filter. One group of conditions alone can select traces that fill
/// all granules, so that the pass reads maps twice, which costs more than grouping the spans of the policies.
fn selects_traces(search: &Search<'_>, by_granules: &[(RequiredPredicate, Granules)]) -> bool {
    let groups = filter_groups(search);
    let [one @ RequiredPredicate::Group(at)] = groups.as_slice() else { return !groups.is_empty() };
    let is_selective = |(predicate, granules): &(RequiredPredicate, Granules)| {
        predicate == one && granules.selected.saturating_mul(2) <= granules.after_primary_key
    };
    !search.required_predicates.reads_maps(*at) || by_granules.iter().any(is_selective)
}

/// Possible lengths of the first step, longest first. One ends at the start of the last day: tables are partitioned by day,
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
    granules.selected.saturating_mul(2) <= granules.after_primary_key && matches(granules) <= most
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

    /// A user with ten traces in a table of 128 granules, and in one of 100,000 with 1,000 false positives of bloom filters; a
    /// tenant in each granule, and a service without a skip index.
    #[test]
    fn rare_predicates_are_those_with_few_matches() {
        let of = |selected, after_primary_key| Granules { table: 100_000, selected, after_primary_key };
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
            assert_eq!(is_rare(granules, 21.0 * 16.0), rare, "{granules:?}: {} matches", matches(granules));
        }
    }
}
