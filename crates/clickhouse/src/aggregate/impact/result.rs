//! The impact of a change.

use super::collateral::CollateralValues;
use crate::client::Cost;

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

/// Changes for one user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// Number of traces that are accessible after the change and not before.
    pub gained: u64,
    /// Number of traces that are accessible before and not after.
    pub lost: u64,
    /// Number of traces that are accessible before and after.
    pub unchanged: u64,
    /// Ids of gained traces that may be returned, those with the latest span in the window first, then by id.
    pub gained_ids: Vec<String>,
    /// Ids of lost traces, likewise.
    pub lost_ids: Vec<String>,
}
