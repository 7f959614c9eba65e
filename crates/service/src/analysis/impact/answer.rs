//! Result of a comparison: traces gained and lost, for the role and for each user.

use serde::Serialize;
use tracewarden_clickhouse::Difference;
use utoipa::ToSchema;

use crate::analysis::counted_traces::Counted;

/// The changes for one user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct UserImpact {
    /// User name.
    pub username: String,
    /// The changes in the access that all roles of the user grant together.
    #[serde(flatten)]
    // For a sample, the counts are estimates for the whole window.
    pub change: Difference,
}

/// The effect of a change of roles, fields or rows on the traces that users can see.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Impact)]
pub struct ImpactAnswer {
    /// The traces that were counted.
    #[serde(flatten)]
    pub counted: Counted,
    /// The changes in the access that the role in isolation grants to any of the evaluated members. If the role has no members,
    /// those for a hypothetical user with only this role and no attributes. Null when the request is not about a single role.
    #[schema(required = true)]
    pub traces: Option<Difference>,
    /// Number of users who have the role and are not disabled; if the request is not about a single role, number of all users
    /// whose access it may change.
    pub members: u64,
    /// Number of these users who were evaluated.
    pub members_compared: u64,
    /// Users whose access changes first, those who lose access before others; at most 200.
    pub users: Vec<UserImpact>,
}

impl UserImpact {
    /// Sort key for the order of [`ImpactAnswer::users`].
    pub(super) fn rank(&self) -> (bool, bool, &str) {
        let Difference { gained, lost, .. } = self.change;
        (gained == 0 && lost == 0, lost == 0, &self.username)
    }
}

impl ImpactAnswer {
    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.counted.notes.push(note.into());
    }
}
