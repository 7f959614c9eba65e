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

mod choice;
mod considered_spans;
mod crossing;
mod estimates;
mod grouping;
mod page;
mod rare_predicates;
mod required_predicates;
mod resolve;
mod search;
mod steps;
#[cfg(test)]
mod tests;
mod trace_bounds;
mod trace_id;
mod trace_scan;
mod trace_set;

use std::sync::atomic::Ordering;

use tokio::time::Instant;

pub(crate) use choice::{Plan, PlanChoice};
#[cfg(test)]
pub(crate) use crossing::{CrossingKind, IndexSize, crossing_statement};
pub(crate) use estimates::estimate_granules;
#[cfg(test)]
pub(crate) use grouping::grouped_statement;
#[cfg(test)]
pub(crate) use rare_predicates::RarePredicates;
#[cfg(test)]
pub(crate) use required_predicates::RequiredPredicate;
pub(crate) use required_predicates::RequiredPredicates;
pub(crate) use search::{PlannerOptions, Search, window_with_margin};
#[cfg(test)]
pub(crate) use steps::{RemainingWindow, StepOptions, step_statement};
#[cfg(test)]
pub(crate) use trace_bounds::TraceBounds;
pub(crate) use trace_scan::{Aggregates, MAX_LONG_TRACES, TraceScan};
#[cfg(test)]
pub(crate) use trace_set::BoundedTraces;
pub(crate) use trace_set::{Sample, TraceSet};

use crate::ClickHouseError;
use choice::{choose_plan, single_step};
use crossing::fill_by_crossing;
use grouping::fill_by_grouping;
use page::{MatchingTrace, Page};
use rare_predicates::fill_by_rare_predicates;
use steps::fill_by_steps;

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
            fill_by_crossing(self, &mut page).await?;
            return Ok(page.into_first(self.wanted));
        }
        let (plan, step_options) = match choice {
            PlanChoice::Auto => choose_plan(self).await,
            PlanChoice::Fixed(plan @ Plan::Steps(step_options)) => (plan.clone(), *step_options),
            PlanChoice::Fixed(plan) => (plan.clone(), single_step(self)),
        };
        tracing::debug!(?plan, ?step_options, "searching");
        let begun = Instant::now();
        match plan {
            Plan::GroupByTrace => fill_by_grouping(self, self.after.as_ref(), &mut page).await?,
            Plan::RarePredicates(rare)
                if fill_by_rare_predicates(self, &rare, step_options.index_size, &mut page).await? => {}
            Plan::RarePredicates(_) | Plan::Steps(_) => fill_by_steps(self, step_options, &mut page).await?,
        }
        let (statements, milliseconds) =
            (self.statements_sent.load(Ordering::Relaxed), begun.elapsed().as_millis());
        tracing::debug!(statements, milliseconds, traces = page.len(), "searched");
        Ok(page.into_first(self.wanted))
    }
}
