//! Events of the audit log, and their outcomes.

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Outcome of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The action succeeded.
    Success,
    /// The caller was denied.
    Denied,
    /// The action failed because of an error in the request or in a system.
    Failed,
    /// The trace is absent or not authorised; the log does not tell which, because the service does not check.
    NotFound,
    /// The client disconnected before the end.
    Aborted,
    /// The action was started; a record that keeps this outcome was never completed.
    Unknown,
}

/// Audited event.
#[derive(Debug, Clone)]
pub(crate) struct Event<'a> {
    pub(crate) action: &'static str,
    pub(crate) outcome: Outcome,
    pub(crate) target: Option<&'a str>,
    pub(crate) detail: Value,
}
