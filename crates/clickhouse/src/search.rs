//! Which traces a page holds, and whether a trace may be read.

mod plan;
mod select;
mod selection;

pub(crate) use plan::{
    Aggregates, MAX_LONG_TRACES, NO_FILTER, RequiredPredicates, SPANS_BEYOND_BOUNDS, Sample, Search,
    SpansNeeded, TraceScan, TraceSet, estimate_granules, is_valid_trace_id,
};
#[cfg(test)]
pub(crate) use plan::{
    BoundedTraces, PassOptions, Plan, PlannerOptions, RemainingWindow, RequiredPredicate, StepOptions,
    TraceBounds, filtered_pass_statement, grouped_statement, long_traces_statement, step_statement,
};
pub(crate) use selection::SelectedTrace;
pub use selection::{
    Position, ProgressCallback, SearchProgress, SelectRequest, Selection, TableProperties, TraceOrder,
};
