//! Answers of the API, with the members that the commands show. Unknown members come from a newer service and are ignored.

use serde::Deserialize;
use serde_json::Value;
use tracewarden_documents::Json;

/// The changes that a file would make.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Plan {
    /// Version of the access model that the plan was compared with.
    pub(super) version: u64,
    pub(super) changes: Vec<Difference>,
    pub(super) warnings: Vec<Warning>,
    pub(super) tests: Option<Tests>,
    pub(super) members: Vec<RoleRemoval>,
    pub(super) impact: Option<Impact>,
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Difference {
    /// `binding`, `field`, `role`, `policy` or `tests`.
    pub(super) kind: String,
    pub(super) name: String,
    /// `added`, `removed`, `changed` or `moved`.
    pub(super) change: String,
    pub(super) before: Value,
    pub(super) after: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Warning {
    pub(super) role: String,
    pub(super) title: String,
    pub(super) code: String,
    pub(super) message: String,
    pub(super) hint: Option<String>,
    pub(super) line: u32,
    pub(super) column: u32,
    pub(super) length: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tests {
    pub(super) passed: u64,
    pub(super) failed: Vec<FailedTest>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FailedTest {
    pub(super) name: String,
    pub(super) message: String,
}

/// A role that is removed, with the number of users who lose it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RoleRemoval {
    pub(super) role: String,
    pub(super) users: u64,
    /// Some of these users.
    pub(super) usernames: Vec<String>,
}

/// The users who would see more or fewer traces.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Impact {
    pub(super) from: String,
    pub(super) to: String,
    /// `all` traces, or the traces that are `readable` for the caller.
    pub(super) counted_traces: String,
    pub(super) sampled: bool,
    /// Fraction of the traces that were sampled.
    pub(super) fraction: f64,
    pub(super) members: u64,
    pub(super) members_compared: u64,
    pub(super) users: Vec<UserImpact>,
    pub(super) notes: Vec<String>,
}

/// Impact on one user, in traces.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UserImpact {
    pub(super) username: String,
    pub(super) gained: u64,
    pub(super) lost: u64,
    pub(super) unchanged: u64,
    pub(super) gained_ids: Vec<String>,
    pub(super) lost_ids: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApplyResult {
    pub(super) version: u64,
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct History {
    pub(super) changes: Vec<Change>,
}

/// A change in the history of the access model.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Change {
    /// Version of the access model that the change made.
    pub(super) version: u64,
    pub(super) at: String,
    pub(super) by: Actor,
    pub(super) action: String,
    pub(super) target: Option<String>,
    pub(super) summary: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Actor {
    pub(super) username: String,
}

/// A change with its differences, and the access model that it made.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChangeDetails {
    #[serde(flatten)]
    pub(super) entry: Change,
    #[serde(rename = "changes")]
    pub(super) differences: Vec<Difference>,
    pub(super) file: Json,
}
