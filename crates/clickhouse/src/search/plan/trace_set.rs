//! The traces that a statement reads.

use super::required_predicates::RequiredPredicate;
use super::sample::Sample;
use super::trace_bounds::TraceBounds;

/// The traces that a statement reads.
#[derive(Clone, Copy)]
pub(crate) enum TraceSet<'a> {
    /// All traces that have a span in the window.
    Window,
    /// These.
    Given(&'a [String]),
    /// These, with known bounds.
    Bounded(BoundedTraces<'a>),
    /// A sample of the traces of the window.
    Sample(Sample),
}

/// Traces with their bounds.
#[derive(Clone, Copy)]
pub(crate) struct BoundedTraces<'a> {
    pub(crate) traces: &'a [String],
    pub(crate) bounds: &'a TraceBounds,
    /// Predicates whose traces are found first, among these. Worth it where an index selects few granules, since the decision
    /// reads a granule for each span of the traces.
    pub(crate) filters: &'a [RequiredPredicate],
}
