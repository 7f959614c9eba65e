//! Which traces a page holds, and whether a trace may be read.

mod plan;
mod select;
mod selection;

pub(crate) use plan::{
    Aggregates, MAX_LONG_TRACES, PlannerOptions, Sample, Search, SpanFilter, TraceScan, TraceSet,
    estimate_granules,
};
#[cfg(test)]
pub(crate) use plan::{
    BoundedTraces, CrossingKind, IndexSize, Plan, PlanChoice, RarePredicates, RemainingWindow,
    RequiredPredicate, RequiredPredicates, StepOptions, TraceBounds, crossing_statement, grouped_statement,
    step_statement,
};
pub(crate) use select::MAX_SEARCH_ATTEMPTS;
pub use selection::{Position, SelectRequest, Selection, TableProperties};
pub(crate) use selection::{SelectedTrace, id_list};
