//! Result of a comparison: traces gained and lost, for the role and for each user.

use tracewarden_clickhouse::Cost;
use tracewarden_model::Window;

use crate::analysis::counted_traces::CountedTraces;

/// Traces gained and lost. For a sample, the counts are estimates for the whole window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceChange {
    /// Traces that are accessible after the change only.
    pub gained: u64,
    /// Traces that are accessible before the change only.
    pub lost: u64,
    /// Traces that are accessible before and after.
    pub unchanged: u64,
    /// Ids of some gained traces that the caller may read, newest first.
    pub gained_ids: Vec<String>,
    /// Ids of some lost traces that the caller may read, newest first.
    pub lost_ids: Vec<String>,
}

/// Impact on one user, by all their roles together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserImpact {
    /// User name.
    pub username: String,
    /// Traces gained and lost.
    pub change: TraceChange,
}

/// Impact of a change of roles.
#[derive(Debug, Clone, PartialEq)]
pub struct ImpactAnswer {
    /// Time window that was evaluated.
    pub window: Window,
    /// The set of traces that was counted.
    pub counted_traces: CountedTraces,
    /// Share of the traces that was read: 1 if the counts are exact. If several statements read different shares, the
    /// smallest.
    pub fraction: f64,
    /// Impact of the one role in isolation, for any of its members who were evaluated; `None` if the request names no role.
    pub traces: Option<TraceChange>,
    /// Number of users whom the change may affect: enabled users with the role, or all whose roles change.
    pub members: u64,
    /// Number of these users who were compared.
    pub members_compared: u64,
    /// Users; those whose access changes come first, then by name.
    pub users: Vec<UserImpact>,
    /// Cost of the statements.
    pub cost: Cost,
    /// Notes on omitted results and their reasons, for the user.
    pub notes: Vec<String>,
}
