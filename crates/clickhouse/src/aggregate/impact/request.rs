//! Requests for the impact of a change.

use std::sync::Arc;
use std::time::Duration;

use tracewarden_model::{Binding, MarkedField, Window};
use tracewarden_policy::{AccessScope, Predicate};

use super::collateral::CollateralQuery;

/// Maximum number of predicates of one request.
pub const MAX_IMPACT_PREDICATES: usize = 1_000;

/// One user's access before and after a change, each as indexes of predicates: a trace is accessible when any of its spans
/// satisfies any of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Comparison {
    /// Before.
    pub before: Vec<usize>,
    /// After.
    pub after: Vec<usize>,
}

/// A request for the impact of a change.
#[derive(Clone, Copy)]
pub struct ImpactRequest<'a> {
    /// The bound table.
    pub binding: &'a Binding,
    /// At most [`MAX_IMPACT_PREDICATES`].
    pub predicates: &'a [Predicate],
    /// Comparisons, without a limit on their number: equal ones are counted once.
    pub comparisons: &'a [Comparison],
    /// Which collateral access to count, if any.
    pub collateral: Option<CollateralQuery<'a>>,
    /// The window of the traces.
    pub window: Window,
    /// Ids and values of traces are returned only where this scope allows it.
    pub readable: &'a AccessScope,
    /// Whether other traces are not counted either.
    pub only_readable: bool,
    /// All fields of the policies behind the predicates, even if the predicates no longer refer to them.
    pub referenced_fields: &'a [Arc<MarkedField>],
    /// Maximum number of ids of gained traces, and of lost traces.
    pub samples: u32,
    /// Time-out for the whole request.
    pub timeout: Duration,
}
