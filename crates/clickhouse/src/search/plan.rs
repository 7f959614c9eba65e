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
//! One `EXPLAIN` estimates the granules to read, unless it chose few traces for a recent search with the same policies, fields and operators.
//! The choice of plan cannot change the result: `randomized_tests/plans.rs` runs every plan over the same traces. Each
//! statement documents its own invariants.

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

pub(crate) use choice::Plan;
pub(crate) use estimates::estimate_granules;
pub(crate) use filtered_pass::PassOptions;
use required_predicates::MAX_PREDICATES;
pub(crate) use required_predicates::{NO_FILTER, RequiredPredicates};
pub(crate) use search::{PlannerOptions, Search, window_with_margin};
pub(crate) use steps::StepOptions;
pub(crate) use trace_id::is_valid_trace_id;
pub(crate) use trace_scan::{Aggregates, MAX_LONG_TRACES, SPANS_BEYOND_BOUNDS, SpansNeeded, TraceScan};
pub(crate) use trace_set::{Sample, TraceSet};
#[cfg(test)]
pub(crate) use {
    filtered_pass::filtered_pass_statement,
    grouping::grouped_statement,
    long_traces::long_traces_statement,
    required_predicates::RequiredPredicate,
    steps::{RemainingWindow, step_statement},
    trace_bounds::TraceBounds,
    trace_set::BoundedTraces,
};

use crate::Result;
use candidates::Candidates;
use choice::{choose_plan, no_steps, unestimated_steps};
use filtered_pass::fill_by_filtered_pass;
use grouping::{GROUPING_STATEMENTS, fill_by_grouping};
use page::{MatchingTrace, Page};
use steps::fill_by_steps;

impl Search<'_> {
    /// Returns the traces after the end of the previous page, in order, as many as wanted. There is no partial answer. `fixed` is the
    /// plan of a test, which may still fall back to another one; otherwise the cheapest by estimate, or that of the last search of
    /// the same shape, is used.
    pub(crate) async fn run(&self, fixed: Option<&Plan>) -> Result<Vec<MatchingTrace>> {
        let mut page = Page::new(self.after.as_ref());
        // The grouped pass reads pages whose traces have no match inside the window, and filters with more predicates than bits.
        if self.after.as_ref().is_some_and(|after| after.tier == 0)
            || self.required_predicates.all().len() > MAX_PREDICATES
        {
            fill_by_grouping(self, self.after.as_ref(), &mut page).await?;
            return Ok(page.into_first(self.wanted));
        }
        let begun = Instant::now();
        let is_attempted = fixed.is_none() && self.fill_without_estimate(&mut page).await?;
        if !is_attempted {
            let (plan, step_options) = match fixed {
                None => choose_plan(self).await,
                Some(plan @ Plan::Steps(step_options)) => (plan.clone(), *step_options),
                Some(plan) => (plan.clone(), no_steps(self)),
            };
            self.fill(plan, step_options, false, &mut page).await?;
        }
        let (statements, milliseconds) =
            (self.statements_sent.load(Ordering::Relaxed), begun.elapsed().as_millis());
        tracing::debug!(statements, milliseconds, traces = page.len(), "searched");
        let found = page.into_first(self.wanted);
        self.remember_length(&found);
        Ok(found)
    }

    /// Fills the page by the pass over few traces that an estimate chose for a recent search of the same shape. It ends itself if this
    /// search has more traces, or it may exceed a limit; steps then fill the page, since another estimate would leave no statement for
    /// them. Returns `false` if there is no such pass.
    async fn fill_without_estimate(&self, page: &mut Page) -> Result<bool> {
        if !self.can_merge_partial_results() {
            return Ok(false);
        }
        let history = &self.store.search_history.rare_traces;
        let recent = history.get(self.shape()).flatten();
        // With more wanted traces, more are rare.
        let rare = recent.filter(|rare| rare.window >= self.window_length() && rare.wanted <= self.wanted);
        let Some(rare) = rare else { return Ok(false) };
        let all = self.required_predicates.all();
        let plan = Plan::FilteredPass(rare.filters.iter().filter_map(|at| all.get(*at).copied()).collect());
        let mut step_options = unestimated_steps(self);
        if rare.window == self.window_length() {
            step_options.window_share = rare.window_share;
        }
        match self.fill(plan, step_options, true, page).await {
            Err(error) if error.is_over_limit() => {
                history.insert(self.shape(), None);
                // Not even the grouped pass has its statements.
                if self.statements_left() < GROUPING_STATEMENTS {
                    return Err(error);
                }
                fill_by_steps(self, step_options, page).await.map(|()| true)
            }
            filled => filled.map(|()| true),
        }
    }

    /// Fills the page according to a plan; by steps if its first filter has too many traces.
    async fn fill(
        &self,
        plan: Plan,
        step_options: StepOptions,
        is_unestimated: bool,
        page: &mut Page,
    ) -> Result<()> {
        tracing::debug!(?plan, ?step_options, "searching");
        let is_filled = match plan {
            Plan::GroupByTrace => return fill_by_grouping(self, self.after.as_ref(), page).await,
            Plan::FilteredPass(trace_filters) if self.can_merge_partial_results() => {
                let after = self.after.clone();
                let options = PassOptions { trace_filters, is_unestimated, after, ..PassOptions::default() };
                let none = Candidates::default();
                fill_by_filtered_pass(self, &options, none, step_options.window_share, page).await?
            }
            Plan::FilteredPass(_) | Plan::Steps(_) => false,
        };
        if is_filled { Ok(()) } else { fill_by_steps(self, step_options, page).await }
    }
}
