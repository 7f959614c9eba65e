//! Thresholds of the planner.

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
