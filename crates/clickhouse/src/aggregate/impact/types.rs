//! Requests for the impact of a change, and their results.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tracewarden_model::{Binding, MarkedField, Window};
use tracewarden_policy::{AccessScope, Predicate};
use utoipa::ToSchema;

use super::collateral::{CollateralQuery, CollateralValues};
use crate::client::Cost;

/// Maximum number of predicates of one request.
pub const MAX_IMPACT_PREDICATES: usize = 1_000;

/// One user's access before and after a change, each as indexes of predicates: a trace is accessible when any of its spans
/// satisfies any of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// The binding after the change, if it reads the table differently: other rows, or another trace index. `after` of the
    /// comparisons then refers to its rows, and `collateral` must be `None`.
    pub binding_after: Option<&'a Binding>,
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

/// Changes, and collateral access.
#[derive(Debug, Clone, PartialEq)]
pub struct Impact {
    /// In the order of the comparisons.
    pub compared: Vec<Difference>,
    /// In the order of [`CollateralQuery::predicate_sets`].
    pub collateral_values: Vec<CollateralValues>,
    /// Number of compared traces, accessible or not.
    pub traces: u64,
    /// The share of the traces that was read: 1 for all of them, when the counts are exact. All counts are for that share,
    /// not scaled.
    pub fraction: f64,
    /// Cost of the statements.
    pub cost: Cost,
}

/// Traces that become visible or invisible.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, ToSchema)]
#[schema(as = TraceChange)]
pub struct Difference {
    /// Number of traces visible after the change but not before.
    pub gained: u64,
    /// Number of traces visible before the change but not after.
    pub lost: u64,
    /// Number of traces visible before and after the change.
    pub unchanged: u64,
    /// Ids of gained traces that the caller may read, at most 10, newest first.
    // Those with the latest span in the window first, then by id.
    pub gained_ids: Vec<String>,
    /// Ids of lost traces that the caller may read, at most 10, newest first.
    pub lost_ids: Vec<String>,
}
