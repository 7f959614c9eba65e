//! Planning: how the traces of a page are found.
//!
//! Every plan returns the same traces in the same order:
//!
//! - [`Plan::Steps`] searches backwards in time until the page is full; the last step covers the rest of the window. It is
//!   fast where matches are dense, and never costs much more than one pass over the window.
//! - [`Plan::RarePredicates`] finds the traces that satisfy a rare predicate, and decides them by id, in batches. It is fast
//!   where one predicate is rare and a skip index covers it.
//! - [`Plan::GroupByTrace`] groups all considered spans by trace. It is used without a trace index, or if too many traces cross the
//!   window boundary. It is the reference definition.
//!
//! One `EXPLAIN` estimates the granules to read. The choice of plan cannot change the result: `randomized_tests/plans.rs` runs every plan over
//! the same traces. Each statement documents its own invariants.

mod crossing;
mod decide;
mod estimates;
mod grouping;
mod page;
mod rare_predicates;
mod required_predicates;
mod resolve;
mod sample;
mod search;
mod steps;
#[cfg(test)]
mod tests;
mod trace_bounds;
mod trace_scan;

use std::sync::atomic::Ordering;

use tokio::time::Instant;
use tracewarden_model::Timestamp;

#[cfg(not(test))]
use crossing::IndexSize;
#[cfg(test)]
pub(crate) use crossing::{CrossingKind, IndexSize};
#[cfg(test)]
pub(crate) use decide::BoundedTraces;
pub(crate) use grouping::TraceSet;
use page::{MatchingTrace, Page};
pub(crate) use rare_predicates::RarePredicates;
pub(crate) use required_predicates::{RequiredPredicate, RequiredPredicates};
pub(crate) use sample::Sample;
pub(crate) use search::{Search, SpanFilter};
#[cfg(test)]
pub(crate) use steps::{RemainingWindow, StepOptions};
pub(crate) use trace_scan::{Aggregates, MAX_LONG_TRACES, TraceScan};

use crate::ClickHouseError;
use estimates::Granules;
#[cfg(not(test))]
use steps::StepOptions;

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

/// Thresholds at which one plan becomes better than another. They affect only the cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlannerOptions {
    /// Cost of one more statement, in granules. Below it, a shorter step gains nothing.
    pub(crate) statement_cost: u64,
    /// Maximum traces of the rare predicate; with more, steps take over.
    pub(crate) max_rare_traces: usize,
    /// Minimum size of the first batch of candidates.
    pub(crate) min_batch: usize,
    /// Minimum `LIMIT` of a step.
    pub(crate) min_step_limit: usize,
    /// Without a trace index: traces decided by id after a step, per wanted trace.
    pub(crate) undecided_per_result: usize,
    /// Maximum ids in one statement, and maximum traces that cross the window boundary.
    pub(crate) max_ids: usize,
}

impl Default for PlannerOptions {
    fn default() -> Self {
        Self {
            statement_cost: 40,
            max_rare_traces: 2_000,
            min_batch: 64,
            min_step_limit: 1_000,
            undecided_per_result: 8,
            max_ids: 20_000,
        }
    }
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

impl Search<'_> {
    /// Returns the traces after the end of the previous page, in order, as many as wanted.
    ///
    /// # Errors
    /// When ClickHouse fails. There is no partial answer.
    pub(crate) async fn run(&self, choice: &PlanChoice) -> Result<Vec<MatchingTrace>, ClickHouseError> {
        let mut page = Page::new(self.after.as_ref());
        // Pages that begin after all matches inside the window.
        if *choice != PlanChoice::Fixed(Plan::GroupByTrace)
            && self.after.as_ref().is_some_and(|after| after.tier == 0)
        {
            self.fill_by_crossing(&mut page).await?;
            return Ok(page.into_first(self.wanted));
        }
        let (plan, step_options) = match choice {
            PlanChoice::Auto => self.plan().await,
            PlanChoice::Fixed(plan @ Plan::Steps(step_options)) => (plan.clone(), *step_options),
            PlanChoice::Fixed(plan) => (plan.clone(), self.single_step()),
        };
        tracing::debug!(?plan, ?step_options, "searching");
        let begun = Instant::now();
        match plan {
            Plan::GroupByTrace => self.fill_by_grouping(self.after.as_ref(), &mut page).await?,
            Plan::RarePredicates(rare)
                if self.fill_by_rare_predicates(&rare, step_options.index_size, &mut page).await? => {}
            Plan::RarePredicates(_) | Plan::Steps(_) => self.fill_by_steps(step_options, &mut page).await?,
        }
        let (statements, milliseconds) =
            (self.statements_sent.load(Ordering::Relaxed), begun.elapsed().as_millis());
        tracing::debug!(statements, milliseconds, traces = page.len(), "searched");
        Ok(page.into_first(self.wanted))
    }

    /// Returns one step for the rest of the window.
    fn single_step(&self) -> StepOptions {
        StepOptions {
            first: self.remaining_length(),
            statement: 0,
            use_trace_index: true,
            index_size: IndexSize::Large,
        }
    }

    /// Returns the length of the rest of the window, in nanoseconds.
    fn remaining_length(&self) -> i64 {
        self.begin().saturating_sub(self.window.from().as_nanos()).max(1)
    }

    /// Chooses the plan, and the step options to use if rare predicates match too many traces.
    async fn plan(&self) -> (Plan, StepOptions) {
        let (begin, left) = (self.begin(), self.remaining_length());
        let step_lengths = step_lengths(begin, left);
        let newest = |length: &i64| {
            Some((Timestamp::from_nanos(begin.saturating_sub(*length)), Timestamp::from_nanos(begin)))
        };
        let required_predicates = self.required_predicates.all();
        let window = Some((self.window.from(), self.window.to()));
        // ClickHouse uses no skip index for predicates combined with `OR`.
        let step_filter = match (required_predicates.as_slice(), self.not_implied().as_slice()) {
            ([only], []) => SpanFilter::Predicate(*only),
            _ => SpanFilter::All,
        };
        let reads: Vec<(SpanFilter, search::TimeRange)> = step_lengths
            .iter()
            .map(|length| (step_filter, newest(length)))
            .chain(required_predicates.iter().map(|predicate| (SpanFilter::Predicate(*predicate), window)))
            .collect();
        let Some(granules) = self.estimate_granules(&reads).await else {
            let step_options = StepOptions {
                first: (left / 16).max(1),
                statement: left / 4,
                use_trace_index: true,
                index_size: IndexSize::Large,
            };
            return (Plan::Steps(step_options), step_options);
        };
        let (steps, rest) = granules.split_at(step_lengths.len().min(granules.len()));
        let (predicate_granules, index) = rest.split_at(required_predicates.len().min(rest.len()));
        let steps: Vec<(i64, u64)> =
            step_lengths.into_iter().zip(steps.iter().map(|granules| granules.selected)).collect();
        let index = index.first().map_or(0, |granules| granules.selected);
        let step_options = self.choose_step_options(&steps, index);
        let whole = steps.first().map_or(0, |(_, granules)| *granules);
        tracing::debug!(granules = whole, index_granules = index, predicates = ?predicate_granules, "estimated");
        let most = (self.wanted as f64 * MAX_MATCHES_PER_RESULT).min(self.options.max_rare_traces as f64);
        let mut by_granules: Vec<(RequiredPredicate, Granules)> =
            required_predicates.into_iter().zip(predicate_granules.iter().copied()).collect();
        by_granules.sort_by_key(|(_, granules)| granules.selected);
        let predicates_where = |chosen: &dyn Fn(Granules) -> bool| -> Vec<RequiredPredicate> {
            let chosen_predicates = by_granules.iter().filter(|(_, granules)| chosen(*granules));
            chosen_predicates.map(|(predicate, _)| *predicate).collect()
        };
        let mut sources = predicates_where(&|granules| granules.selected <= whole && is_rare(granules, most));
        if !sources.is_empty() && whole > self.options.statement_cost {
            sources.truncate(MAX_SOURCE_PREDICATES);
            let filters =
                predicates_where(&|granules| granules.selected.saturating_mul(FILTER_GRANULE_RATIO) <= whole);
            return (Plan::RarePredicates(RarePredicates { sources, filters }), step_options);
        }
        if self.index.is_none() && step_options.first == left {
            return (Plan::GroupByTrace, step_options);
        }
        (Plan::Steps(step_options), step_options)
    }

    /// Chooses the first step from estimates for several lengths, longest first. A shorter step wins if it reads at most two
    /// thirds of the current choice and half of the window: in a table not sorted by time, a short step can read almost as much
    /// as a long one.
    fn choose_step_options(&self, steps: &[(i64, u64)], index: u64) -> StepOptions {
        let whole = steps.first().copied().unwrap_or((self.remaining_length(), 0));
        let chosen = steps.iter().copied().fold(whole, |chosen, step| {
            let saves = step.1.saturating_mul(3) <= chosen.1.saturating_mul(2);
            let is_part = step.1.saturating_mul(2) <= whole.1;
            if chosen.1 > self.options.statement_cost && saves && is_part { step } else { chosen }
        });
        let is_small = |granules: u64| index <= granules.saturating_mul(2).max(self.options.statement_cost);
        StepOptions {
            first: chosen.0.max(1),
            statement: (whole.0 as f64 * self.options.statement_cost as f64 / whole.1.max(1) as f64) as i64,
            use_trace_index: is_small(chosen.1),
            index_size: if is_small(whole.1) { IndexSize::Small } else { IndexSize::Large },
        }
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

/// Returns the time range around a window in which the whole of a page's traces is read.
pub(crate) fn window_with_margin(
    window: tracewarden_model::Window,
    max_trace_duration_nanos: Option<i64>,
) -> search::TimeRange {
    max_trace_duration_nanos.map(|nanos| -> (Timestamp, Timestamp) {
        (window.from().saturating_sub(nanos), window.to().saturating_add(nanos))
    })
}
