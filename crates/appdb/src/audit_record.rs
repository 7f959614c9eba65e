//! An audit record, as callers write it.

use tracewarden_model::Timestamp;

/// An audit record before it is appended to the chain.
#[derive(Debug, Clone)]
pub struct NewAuditRecord<'a> {
    /// Sequence number of the record that this one completes. An operation that takes time is recorded before it
    /// begins, with the outcome `unknown`; a second record completes it.
    pub completes: Option<u64>,
    /// Current time.
    pub at: Timestamp,
    /// The user's id.
    pub actor_id: Option<&'a str>,
    /// The user's name at the time.
    pub actor_name: Option<&'a str>,
    /// Id of the session or key.
    pub credential_id: Option<&'a str>,
    /// `session`, `api_key`, `mcp`, or `service` for actions of the service itself.
    pub via: &'a str,
    /// The action, such as `role.put`.
    pub action: &'a str,
    /// `success`, `failed`, `denied`, `aborted` or `unknown`.
    pub outcome: &'a str,
    /// Id of the request.
    pub request_id: &'a str,
    /// Address of the client.
    pub client_ip: Option<&'a str>,
    /// User agent of the client.
    pub user_agent: Option<&'a str>,
    /// Target of the action.
    pub target: Option<&'a str>,
    /// Details, a JSON object as text. Never span data, never secrets.
    pub detail: &'a str,
}
