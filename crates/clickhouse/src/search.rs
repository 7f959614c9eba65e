//! Which traces a page holds, and whether a trace may be read.

mod plan;
mod select;
mod selection;

pub(crate) use plan::{
    Aggregates, MAX_LONG_TRACES, RequiredPredicates, Sample, Search, TraceScan, TraceSet, estimate_granules,
};
#[cfg(test)]
pub(crate) use plan::{
    BoundedTraces, CrossingKind, IndexSize, Plan, PlanChoice, PlannerOptions, RarePredicates,
    RemainingWindow, RequiredPredicate, StepOptions, TraceBounds, crossing_statement, grouped_statement,
    step_statement,
};
pub use selection::{Position, ProgressCallback, SearchProgress, SelectRequest, Selection, TableProperties};
pub(crate) use selection::{SelectedTrace, id_list};
