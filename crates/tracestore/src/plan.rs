//! Planning: how the traces of a page are found.
//!
//! Every plan returns the same traces in the same order:
//!
//! - [`Plan::Steps`] searches backwards in time until the page is full; the last step covers the rest of the window. It is
//!   fast where matches are dense, and never costs much more than one pass over the window.
//! - [`Plan::Candidates`] finds the traces that satisfy a rare predicate, and decides them by id, in batches. It is fast
//!   where one predicate is rare and a skip index covers it.
//! - [`Plan::Grouped`] groups all considered spans by trace. It is used without a trace index, or if too many traces cross the
//!   window boundary. It is the reference definition.
//!
//! One `EXPLAIN` estimates the granules to read. The choice of plan cannot change the result: `worlds.rs` runs every plan over
//! the same traces. Each statement documents its own invariants.

mod candidates;
mod crossing;
mod decide;
mod demands;
mod estimates;
mod found;
mod grouped;
mod sample;
mod search;
mod settle;
mod steps;
#[cfg(test)]
mod tests;
mod trace_bounds;
mod trace_scan;

use std::sync::atomic::Ordering;

use tokio::time::Instant;
use tracewarden_model::Timestamp;

pub(crate) use candidates::Rare;
#[cfg(not(test))]
use crossing::IndexSize;
#[cfg(test)]
pub(crate) use crossing::{Crossed, IndexSize};
#[cfg(test)]
pub(crate) use decide::BoundedTraces;
pub(crate) use demands::{RequiredPredicate, RequiredPredicates};
use found::{MatchingTrace, Page};
pub(crate) use grouped::TraceSet;
pub(crate) use sample::Sample;
pub(crate) use search::{Search, SpanFilter};
#[cfg(test)]
pub(crate) use steps::{RemainingWindow, StepOptions};
pub(crate) use trace_scan::{Aggregates, MAX_LONG, TraceScan};

use crate::StoreError;
use estimates::Granules;
#[cfg(not(test))]
use steps::StepOptions;

/// A way to find the traces of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Steps back in time.
    Steps(StepOptions),
    /// The traces that satisfy a rare predicate, decided by id.
    Candidates(Rare),
    /// One grouped pass.
    Grouped,
}

/// How the plan is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlanChoice {
    /// The cheapest plan by estimate.
    Best,
    /// This plan; it may still fall back to another one.
    Only(Plan),
}

/// Thresholds at which one plan becomes better than another. They affect only the cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlannerOptions {
    /// Cost of one more statement, in granules. Below it, a shorter step gains nothing.
    pub(crate) small: u64,
    /// Maximum traces of the rare predicate; with more, steps take over.
    pub(crate) candidates: usize,
    /// Minimum size of the first batch of candidates.
    pub(crate) wave: usize,
    /// Minimum `LIMIT` of a step.
    pub(crate) chunk: usize,
    /// Without a trace index: traces decided by id after a step, per wanted trace.
    pub(crate) undecided: usize,
    /// Maximum ids in one statement, and maximum traces that cross the window boundary.
    pub(crate) ids: usize,
}

impl Default for PlannerOptions {
    fn default() -> Self {
        Self { small: 40, candidates: 2_000, wave: 64, chunk: 1_000, undecided: 8, ids: 20_000 }
    }
}

/// Divisors of the remaining window: candidate lengths of the first step, besides the whole and the last day.
const PARTS: [i64; 3] = [4, 16, 64];
/// A day in nanoseconds, by which tables are partitioned.
const DAY: i64 = 86_400 * 1_000_000_000;
/// A predicate is rare if its matches are expected to be at most this many times the wanted traces: with a more frequent
/// predicate, steps fill the page sooner.
const RARE: f64 = 16.0;
/// A predicate is also rare if it selects at most one in this many granules: bloom filters have one false positive in a
/// hundred, which in a large table is more than any match.
const RARE_SHARE: u64 = 32;

/// Maximum predicates whose traces are read as candidates.
const READ: usize = 2;
/// A predicate narrows the candidates of another one if it selects at most one in this many granules: finding its traces
/// among them then costs less than deciding the excluded ones.
const NARROW: u64 = 4;

impl Search<'_> {
    /// Returns the traces after the end of the previous page, in order, as many as wanted.
    ///
    /// # Errors
    /// When ClickHouse fails. There is no partial answer.
    pub(crate) async fn run(&self, choice: &PlanChoice) -> Result<Vec<MatchingTrace>, StoreError> {
        let mut page = Page::new(self.after.as_ref());
        // Pages that begin after all matches inside the window.
        if *choice != PlanChoice::Only(Plan::Grouped)
            && self.after.as_ref().is_some_and(|after| after.tier == 0)
        {
            self.by_crossing(&mut page).await?;
            return Ok(page.into_first(self.wanted));
        }
        let (plan, pace) = match choice {
            PlanChoice::Best => self.plan().await,
            PlanChoice::Only(plan @ Plan::Steps(pace)) => (plan.clone(), *pace),
            PlanChoice::Only(plan) => (plan.clone(), self.whole()),
        };
        tracing::debug!(?plan, ?pace, "searching");
        let begun = Instant::now();
        match plan {
            Plan::Grouped => self.by_grouping(self.after.as_ref(), &mut page).await?,
            Plan::Candidates(rare) if self.by_candidates(&rare, pace.index_size, &mut page).await? => {}
            Plan::Candidates(_) | Plan::Steps(_) => self.by_steps(pace, &mut page).await?,
        }
        let (statements, milliseconds) = (self.sent.load(Ordering::Relaxed), begun.elapsed().as_millis());
        tracing::debug!(statements, milliseconds, traces = page.len(), "searched");
        Ok(page.into_first(self.wanted))
    }

    /// Returns one step for the rest of the window.
    fn whole(&self) -> StepOptions {
        StepOptions { first: self.left(), statement: 0, use_trace_index: true, index_size: IndexSize::Large }
    }

    /// Returns the length of the rest of the window, in nanoseconds.
    fn left(&self) -> i64 {
        self.begin().saturating_sub(self.window.from().as_nanos()).max(1)
    }

    /// Chooses the plan, and the step options to use if rare predicates match too many traces.
    async fn plan(&self) -> (Plan, StepOptions) {
        let (begin, left) = (self.begin(), self.left());
        let lengths = lengths(begin, left);
        let newest = |length: &i64| {
            Some((Timestamp::from_nanos(begin.saturating_sub(*length)), Timestamp::from_nanos(begin)))
        };
        let demands = self.demands.all();
        let window = Some((self.window.from(), self.window.to()));
        // ClickHouse uses no skip index for predicates combined with `OR`.
        let of_steps = match (demands.as_slice(), self.not_implied().as_slice()) {
            ([only], []) => SpanFilter::Of(*only),
            _ => SpanFilter::All,
        };
        let asked: Vec<(SpanFilter, search::Span)> = lengths
            .iter()
            .map(|length| (of_steps, newest(length)))
            .chain(demands.iter().map(|demand| (SpanFilter::Of(*demand), window)))
            .collect();
        let Some(granules) = self.granules(&asked).await else {
            let pace = StepOptions {
                first: (left / 16).max(1),
                statement: left / 4,
                use_trace_index: true,
                index_size: IndexSize::Large,
            };
            return (Plan::Steps(pace), pace);
        };
        let (steps, rest) = granules.split_at(lengths.len().min(granules.len()));
        let (of_demands, index) = rest.split_at(demands.len().min(rest.len()));
        let steps: Vec<(i64, u64)> =
            lengths.into_iter().zip(steps.iter().map(|granules| granules.selected)).collect();
        let index = index.first().map_or(0, |granules| granules.selected);
        let pace = self.pace(&steps, index);
        let whole = steps.first().map_or(0, |(_, granules)| *granules);
        tracing::debug!(granules = whole, index_granules = index, predicates = ?of_demands, "estimated");
        let most = (self.wanted as f64 * RARE).min(self.options.candidates as f64);
        let mut by_granules: Vec<(RequiredPredicate, Granules)> =
            demands.into_iter().zip(of_demands.iter().copied()).collect();
        by_granules.sort_by_key(|(_, granules)| granules.selected);
        let those = |chosen: &dyn Fn(Granules) -> bool| -> Vec<RequiredPredicate> {
            let of_it = by_granules.iter().filter(|(_, granules)| chosen(*granules));
            of_it.map(|(predicate, _)| *predicate).collect()
        };
        let mut read = those(&|granules| granules.selected <= whole && is_rare(granules, most));
        if !read.is_empty() && whole > self.options.small {
            read.truncate(READ);
            let narrow = those(&|granules| granules.selected.saturating_mul(NARROW) <= whole);
            return (Plan::Candidates(Rare { read, narrow }), pace);
        }
        if self.index.is_none() && pace.first == left {
            return (Plan::Grouped, pace);
        }
        (Plan::Steps(pace), pace)
    }

    /// Chooses the first step from estimates for several lengths, longest first. A shorter step wins if it reads at most two
    /// thirds of the current choice and half of the window: in a table not sorted by time, a short step can read almost as much
    /// as a long one.
    fn pace(&self, steps: &[(i64, u64)], index: u64) -> StepOptions {
        let whole = steps.first().copied().unwrap_or((self.left(), 0));
        let chosen = steps.iter().copied().fold(whole, |chosen, step| {
            let saves = step.1.saturating_mul(3) <= chosen.1.saturating_mul(2);
            let is_part = step.1.saturating_mul(2) <= whole.1;
            if chosen.1 > self.options.small && saves && is_part { step } else { chosen }
        });
        let is_small = |of: u64| index <= of.saturating_mul(2).max(self.options.small);
        StepOptions {
            first: chosen.0.max(1),
            statement: (whole.0 as f64 * self.options.small as f64 / whole.1.max(1) as f64) as i64,
            use_trace_index: is_small(chosen.1),
            index_size: if is_small(whole.1) { IndexSize::Small } else { IndexSize::Large },
        }
    }
}

/// Candidate lengths of the first step, longest first. One ends at the start of the last day: tables are partitioned by day,
/// and part of a partition can cost as much as all of it.
fn lengths(begin: i64, left: i64) -> Vec<i64> {
    let day = begin.saturating_sub(1).rem_euclid(DAY).saturating_add(1);
    let mut lengths: Vec<i64> = PARTS.iter().map(|part| left / part).chain([day]).collect();
    lengths.retain(|length| *length > 0 && *length < left);
    lengths.sort_unstable_by_key(|length| std::cmp::Reverse(*length));
    lengths.dedup();
    lengths.insert(0, left);
    lengths
}

/// Whether a predicate is expected to have at most `most` matches, or leaves hardly any granules to read.
fn is_rare(of_demand: Granules, most: f64) -> bool {
    matches(of_demand) <= most || of_demand.selected.saturating_mul(RARE_SHARE) <= of_demand.by_key
}

/// The expected matches of a predicate, from the share of granules that skip indexes leave of those left by the primary key:
/// matches spread at random over `n` granules leave the share `e^(-matches / n)` without any. Infinite without a skip index.
fn matches(of_demand: Granules) -> f64 {
    let without = 1.0 - of_demand.selected as f64 / of_demand.by_key.max(1) as f64;
    -without.ln() * of_demand.by_key as f64
}

/// Returns the time range around a window in which the whole of a page's traces is read.
pub(crate) fn around(
    window: tracewarden_model::Window,
    max_trace_duration_nanos: Option<i64>,
) -> search::Span {
    max_trace_duration_nanos.map(|nanos| -> (Timestamp, Timestamp) {
        (window.from().saturating_sub(nanos), window.to().saturating_add(nanos))
    })
}
