//! Planning: in which way the traces of a page are found.
//!
//! Three ways, each of which gives the same traces in the same order, and none of which is the fastest for all queries:
//!
//! | plan | finds | is fast where |
//! |---|---|---|
//! | [`Plan::Steps`] | from the newest end back, until the page is full | matches are dense: its cost follows the answer |
//! | [`Plan::Candidates`] | all traces that satisfy one demand, then decides about them by their ids | one demand is rarely satisfied |
//! | [`Plan::Grouped`] | everything in reach, grouped by trace | nothing else helps; the definitions word for word |
//!
//! The store's estimates choose between the first two, and what the first step met may change the choice; the third is turned to
//! when the others meet too much in vain, and for traces of which the trace index leaves something out. Nothing of that can change the answer:
//! `worlds.rs` runs every plan over the same traces. What each statement must be sure of is written beside it.

mod candidates;
mod decide;
mod demands;
mod edges;
mod estimates;
mod found;
mod grouped;
mod search;
mod slices;
mod steps;

use futures::StreamExt;
use tracewarden_model::Timestamp;

pub(crate) use demands::{Demand, Demands};
pub(crate) use estimates::{Memory, subject};
pub(crate) use found::{Found, Page};
pub(crate) use grouped::Among;
pub(crate) use search::{Search, Span, Spans};

use crate::StoreError;
use estimates::Experience;
use steps::{Patience, Went};

/// A way to find the traces of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Back in time; the first step is so many nanoseconds long.
    Steps {
        /// Nanoseconds.
        first: i64,
    },
    /// The traces that satisfy the demand, then the others about them.
    Candidates(Demand),
    /// One grouped pass.
    Grouped,
}

/// Whether a plan may be left when it disappoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The best by estimates, changed while running.
    Best,
    /// This one to the end, as far as it goes.
    Only(Plan),
}

/// Sizes at which one way becomes better than another. They change costs, and nothing else.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tuning {
    /// Up to so many rows to read, the whole window is one step.
    pub(crate) whole_rows: u64,
    /// Rows that the first step should read.
    pub(crate) step_rows: u64,
    /// Traces that steps may meet in vain before anything of the answer, as a multiple of those wanted.
    pub(crate) chunk: usize,
    /// Traces that any step has at most.
    pub(crate) max_chunk: usize,
    /// Candidates that are few.
    pub(crate) candidates: usize,
    /// Rows that it may cost to look for candidates, compared with those of stepping through the window.
    pub(crate) candidate_rows: u64,
    /// Rows that it may cost to look beyond the edges.
    pub(crate) edge_rows: u64,
    /// Traces that steps may meet in vain.
    pub(crate) rejected: usize,
    /// Traces that must have been met in vain before steps look at what shows the other demands, too; and how many for each
    /// of the answer.
    pub(crate) wide_rejected: usize,
    pub(crate) wide_in_vain: usize,
    /// Whether they do so though that is under keys of maps, which are costly to read.
    pub(crate) wide_maps: bool,
    /// Rows that can be read in the time that it takes to ask for one more trace by its id.
    pub(crate) rows_of_a_question: f64,
    /// Ids in one statement.
    pub(crate) ids: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            whole_rows: 1_000_000,
            step_rows: 100_000,
            chunk: 8,
            max_chunk: 20_000,
            candidates: 2_000,
            candidate_rows: 8_000_000,
            edge_rows: 4_000_000,
            rejected: 50_000,
            wide_rejected: 500,
            wide_in_vain: 9,
            wide_maps: false,
            rows_of_a_question: 300.0,
            ids: 20_000,
        }
    }
}

impl Search<'_> {
    /// The traces behind the place where the page before ended, in order, as many as wanted.
    ///
    /// # Errors
    /// When the store fails. There is no partial answer.
    pub(crate) async fn run(&self, choice: Choice) -> Result<Vec<Found>, StoreError> {
        let mut page = Page::new(self.after.as_ref());
        // Pages that begin behind all matches inside the window.
        if choice != Choice::Only(Plan::Grouped) && self.after.as_ref().is_some_and(|after| after.tier == 0) {
            self.edges(&mut page).await?;
            return Ok(page.into_first(self.wanted));
        }
        let plan = match choice {
            Choice::Best => self.plan().await,
            Choice::Only(plan) => plan,
        };
        tracing::debug!(?plan, "searching");
        match plan {
            Plan::Grouped => self.by_grouping(self.after.as_ref(), &mut page).await?,
            Plan::Candidates(demand) if self.candidates(demand, &mut page).await? => {}
            Plan::Candidates(_) => self.back(self.first_step().await, Patience::Long, &mut page).await?,
            Plan::Steps { first } if choice == Choice::Best => {
                self.back(first, Patience::Short, &mut page).await?;
            }
            Plan::Steps { first } => self.back(first, Patience::Endless, &mut page).await?,
        }
        Ok(page.into_first(self.wanted))
    }

    /// Steps, and what follows in the order when they do not fill the page.
    async fn back(&self, first: i64, patience: Patience, page: &mut Page) -> Result<(), StoreError> {
        let mut walk = self.walk(first);
        let mut went = self.steps(&mut walk, patience, page).await?;
        if patience == Patience::Short
            && let Went::Disappointed(_) = &went
        {
            if self.candidates_instead(page).await? {
                return Ok(());
            }
            // Without a trace index, each trace met in vain has to be looked for everywhere.
            if self.index.is_some() {
                went = self.steps(&mut walk, Patience::Long, page).await?;
            }
        }
        match went {
            // Traces without a match inside may have been found before; others can still come before them.
            Went::Through if page.matched() >= self.wanted => Ok(()),
            Went::Through => self.edges(page).await,
            Went::Disappointed(place) => self.by_grouping(Some(&place), page).await,
        }
    }

    /// Candidates, after steps met many traces and none of the answer. `false` when there are too many of them, too.
    async fn candidates_instead(&self, page: &mut Page) -> Result<bool, StoreError> {
        let Some((_, demand)) = self.rarest(self.tuning.candidate_rows).await else { return Ok(false) };
        if !self.candidates(demand, page).await? {
            return Ok(false);
        }
        if let Ok(subject) = self.subject() {
            let at = self.demands.all().iter().position(|known| *known == demand);
            let experience = Experience { density: None, candidates: at, wide: false };
            self.store.memory.remember_experience(subject, experience);
        }
        Ok(true)
    }

    /// The demand with the fewest rows to read, beside the one that the order looks at.
    async fn rarest(&self, most: u64) -> Option<(u64, Demand)> {
        let options = self.estimates(|demand| Some(demand) != self.demands.implied(), |_| false).await;
        let affordable = options
            .into_iter()
            .filter_map(|(rows, demand)| Some((rows.filter(|rows| *rows <= most)?, demand)));
        affordable.min_by_key(|(rows, _)| *rows)
    }

    /// What the store reckons with for the traces that satisfy each of some demands, wherever spans count.
    async fn estimates(
        &self,
        which: impl Fn(Demand) -> bool,
        but_window: impl Fn(Demand) -> bool,
    ) -> Vec<(Option<u64>, Demand)> {
        let demands = self.demands.all().into_iter().filter(|demand| which(*demand));
        let asked = demands.map(|demand| {
            let but_window = but_window(demand);
            async move { (self.estimate(Spans::Of(demand), self.anywhere(), but_window).await, demand) }
        });
        futures::stream::iter(asked).buffered(4).collect().await
    }

    /// The plan to begin with.
    async fn plan(&self) -> Plan {
        let experience = self.experience();
        if let Some(Experience { candidates: Some(at), .. }) = experience
            && let Some(demand) = self.demands.all().get(at)
        {
            return Plan::Candidates(*demand);
        }
        if let Some(Experience { density: Some(density), .. }) = experience {
            let first = self.wanted as f64 / density * 1.25;
            return Plan::Steps { first: (first as i64).max(1) };
        }
        let window = Some((self.window.from(), self.window.to()));
        if let Some(key) = self.estimate(Spans::OfOrder, window, false).await
            && key > self.tuning.whole_rows
            && let Some((rows, demand)) = self.rarest(self.tuning.candidate_rows).await
            && rows.saturating_mul(4) <= key
        {
            return Plan::Candidates(demand);
        }
        Plan::Steps { first: self.first_step().await }
    }

    /// How long the first step is.
    async fn first_step(&self) -> i64 {
        let (from, to) = (self.window.from().as_nanos(), self.window.to().as_nanos());
        let whole = to.saturating_sub(from).max(1);
        let window = Some((self.window.from(), self.window.to()));
        let Some(rows) = self.estimate(Spans::OfOrder, window, false).await else {
            return (whole / 64).max(1);
        };
        if rows <= self.tuning.whole_rows {
            return whole;
        }
        let share = self.tuning.step_rows as f64 / rows as f64;
        let length = (whole as f64 * share) as i64;
        self.affordable(self.begin(), length).await
    }
}

/// Where the whole of a page's traces is looked at, around a window.
pub(crate) fn around(
    window: tracewarden_model::Window,
    max_trace_duration_nanos: Option<i64>,
) -> search::Span {
    max_trace_duration_nanos.map(|nanos| -> (Timestamp, Timestamp) {
        (window.from().saturating_sub(nanos), window.to().saturating_add(nanos))
    })
}
