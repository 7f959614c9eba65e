//! What the API answers, as far as it is shown. Members that are not known are of a newer service, and no matter.

use serde::Deserialize;
use serde_json::Value;
use tracewarden_rest::json::Json;

/// What applying a file would change, or a change did.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Plan {
    /// The version of the access model that the plan was compared with.
    pub(super) version: u64,
    pub(super) changes: Vec<Difference>,
    pub(super) warnings: Vec<Warning>,
    pub(super) tests: Option<Tests>,
    pub(super) members: Vec<Losing>,
    pub(super) impact: Option<Impact>,
    pub(super) notes: Vec<String>,
}

/// One thing that differs.
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

/// A remark on a policy.
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

/// How the tests of the file came out.
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

/// A role that is removed, with how many users lose it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Losing {
    pub(super) role: String,
    pub(super) users: u64,
    /// Some of them.
    pub(super) usernames: Vec<String>,
}

/// Who would see more or less.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Impact {
    pub(super) from: String,
    pub(super) to: String,
    /// `all` traces, or those that are `readable` for who asks.
    pub(super) among: String,
    pub(super) sampled: bool,
    /// What part of the traces was looked at.
    pub(super) fraction: f64,
    pub(super) members: u64,
    pub(super) members_compared: u64,
    pub(super) users: Vec<UserImpact>,
    pub(super) notes: Vec<String>,
}

/// What it means for one user, in traces.
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

/// What was applied.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Applied {
    pub(super) version: u64,
    pub(super) notes: Vec<String>,
}

/// Changes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct History {
    pub(super) changes: Vec<Change>,
}

/// A change in the history of the access model.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Change {
    /// The version of the access model that it made.
    pub(super) version: u64,
    pub(super) at: String,
    pub(super) by: Actor,
    pub(super) action: String,
    pub(super) target: Option<String>,
    pub(super) summary: Vec<String>,
}

/// Who made it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Actor {
    pub(super) username: String,
}

/// A change with what it changed, and the access model that it made.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChangeInFull {
    #[serde(flatten)]
    pub(super) entry: Change,
    #[serde(rename = "changes")]
    pub(super) differences: Vec<Difference>,
    pub(super) file: Json,
}
