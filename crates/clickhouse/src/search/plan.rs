//! Planning: how the traces of a page are found.
//!
//! `sorted_pages` reads orders other than `newest`. In this one, every plan returns the same traces in the same order:
//!
//! - [`Plan::Steps`] searches backwards in time until the page is full; a filtered pass reads the rest of the window. It is
//!   fast where matches are dense, and never costs much more than one pass over the window.
//! - [`Plan::FilteredPass`] is one statement over the window and its margins. Where one predicate is rare and a skip index covers
//!   it, it reads only the traces that satisfy this predicate.
//! - [`Plan::GroupByTrace`] groups all considered spans by trace. It is the reference definition, and used where partial results
//!   cannot be merged, or where a pass returns too many traces that do not fill the page.
//!
//! One `EXPLAIN` estimates the granules to read. The choice of plan cannot change the result: `randomized_tests/plans.rs` runs every plan over
//! the same traces. Each statement documents its own invariants.

mod candidates;
mod choice;
mod considered_spans;
mod estimates;
mod filtered_pass;
mod grouping;
mod long_traces;
mod page;
mod required_predicates;
mod resolve;
mod search;
mod sorted_pages;
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
pub(crate) use estimates::estimate_granules;
pub(crate) use filtered_pass::PassOptions;
use required_predicates::MAX_PREDICATES;
pub(crate) use required_predicates::{NO_FILTER, RequiredPredicates};
pub(crate) use search::{PlannerOptions, Search, window_with_margin};
pub(crate) use trace_scan::{Aggregates, MAX_LONG_TRACES, SPANS_BEYOND_BOUNDS, TraceScan};
pub(crate) use trace_set::{Sample, TraceSet};
#[cfg(test)]
pub(crate) use {
    filtered_pass::filtered_pass_statement,
    grouping::grouped_statement,
    long_traces::{WindowShare, long_traces_statement},
    required_predicates::RequiredPredicate,
    steps::{RemainingWindow, StepOptions, step_statement},
    trace_bounds::TraceBounds,
    trace_set::BoundedTraces,
};

use crate::Result;
use candidates::Candidates;
use choice::{choose_plan, no_steps};
use filtered_pass::fill_by_filtered_pass;
use grouping::fill_by_grouping;
use page::{MatchingTrace, Page};
use steps::fill_by_steps;

impl Search<'_> {
    /// Returns the traces after the end of the previous page, in order, as many as wanted. There is no partial answer.
    pub(crate) async fn run(&self, choice: &PlanChoice) -> Result<Vec<MatchingTrace>> {
        let mut page = Page::new(self.after.as_ref());
        // The grouped pass reads pages whose traces have no match inside the window, and filters with more predicates than bits.
        if self.after.as_ref().is_some_and(|after| after.tier == 0)
            || self.required_predicates.all().len() > MAX_PREDICATES
        {
            fill_by_grouping(self, self.after.as_ref(), &mut page).await?;
            return Ok(page.into_first(self.wanted));
        }
        let (plan, step_options) = match choice {
            PlanChoice::Auto => choose_plan(self).await,
            PlanChoice::Fixed(plan @ Plan::Steps(step_options)) => (plan.clone(), *step_options),
            PlanChoice::Fixed(plan) => (plan.clone(), no_steps(self)),
        };
        tracing::debug!(?plan, ?step_options, "searching");
        let begun = Instant::now();
        let is_filled = match plan {
            Plan::GroupByTrace => {
                fill_by_grouping(self, self.after.as_ref(), &mut page).await?;
                true
            }
            Plan::FilteredPass(trace_filters) if self.can_merge_partial_results() => {
                let after = self.after.clone();
                let options = PassOptions { trace_filters, after, ..PassOptions::default() };
                let none = Candidates::default();
                fill_by_filtered_pass(self, &options, none, step_options.window_share, &mut page).await?
            }
            Plan::FilteredPass(_) | Plan::Steps(_) => false,
        };
        if !is_filled {
            fill_by_steps(self, step_options, &mut page).await?;
        }
        let (statements, milliseconds) =
            (self.statements_sent.load(Ordering::Relaxed), begun.elapsed().as_millis());
        tracing::debug!(statements, milliseconds, traces = page.len(), "searched");
        let found = page.into_first(self.wanted);
        self.remember_length(&found);
        Ok(found)
    }
}
