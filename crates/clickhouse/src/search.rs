//! Which traces a page holds, and whether a trace may be read.

mod plan;
mod select;
mod selection;

pub(crate) use plan::{
    Aggregates, MAX_LONG_TRACES, PlannerOptions, Sample, Search, SpanFilter, TraceScan, TraceSet,
};
#[cfg(test)]
pub(crate) use plan::{
    BoundedTraces, CrossingKind, IndexSize, Plan, PlanChoice, RarePredicates, RemainingWindow,
    RequiredPredicate, RequiredPredicates, StepOptions,
};
pub(crate) use select::MAX_SEARCH_ATTEMPTS;
pub use selection::{Position, SelectRequest, Selection, TableProperties};
pub(crate) use selection::{SelectedTrace, id_list};
