//! Content of audit records.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tracewarden_appdb::{NewAuditRecord, WriteTx};
use tracewarden_model::Timestamp;

use crate::core::audit_detail::bounded;
use crate::core::audit_event::Event;
use crate::core::error::{Result, ServiceError};
use crate::core::principal::{Identity, RequestInfo, Transport};
use crate::core::text::sanitize;
use crate::core::tool_call::RecordedCall;

/// Caller and origin, for all records of one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct AuditContext {
    pub(crate) actor_id: Option<String>,
    pub(crate) actor_name: Option<String>,
    pub(crate) credential_id: Option<String>,
    pub(crate) via: &'static str,
    request_id: String,
    client_ip: Option<String>,
    user_agent: Option<String>,
    tool_call: Option<Arc<RecordedCall>>,
    pub(crate) oauth_client: Option<String>,
}

/// Detail of an event, and the tool call in which it happened.
#[derive(Serialize)]
struct RecordDetail<'a> {
    #[serde(flatten)]
    detail: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    mcp: Option<&'a RawValue>,
    /// Id of the OAuth client of an access token.
    #[serde(skip_serializing_if = "Option::is_none")]
    oauth_client: Option<&'a str>,
}

impl AuditContext {
    /// Creates the context of a request whose caller is known.
    pub(crate) fn new(identity: &Identity) -> Self {
        Self {
            actor_id: Some(identity.user.id.clone()),
            actor_name: Some(identity.user.username.clone()),
            credential_id: Some(identity.credential_id().to_owned()),
            via: match identity.info.via {
                Transport::Mcp => "mcp",
                Transport::Rest => identity.auth().into(),
            },
            oauth_client: identity.oauth_client().map(sanitize),
            ..Self::anonymous(&identity.info)
        }
    }

    /// Creates the context of a request whose caller is not known, or not yet.
    pub(crate) fn anonymous(info: &RequestInfo) -> Self {
        Self {
            via: match info.via {
                Transport::Mcp => "mcp",
                Transport::Rest => "session",
            },
            request_id: sanitize(&info.request_id),
            client_ip: info.client_ip.map(|address| address.to_canonical().to_string()),
            user_agent: info.user_agent.as_deref().map(sanitize),
            tool_call: info.tool_call.clone(),
            ..Self::default()
        }
    }

    /// Creates the context of the service's own actions.
    pub(crate) fn service() -> Self {
        Self { via: "service", ..Self::default() }
    }

    /// Appends a record to the transaction of a change.
    pub(crate) async fn append(&self, tx: &mut WriteTx, at: Timestamp, event: Event<'_>) -> Result<()> {
        let record = self.prepare(None, event)?;
        Ok(tx.append_audit(&record.at(at)).await.map(drop)?)
    }

    /// Prepares a record for the appender.
    pub(crate) fn prepare(&self, completes: Option<u64>, event: Event<'_>) -> Result<PreparedRecord> {
        let invalid_json = |error: serde_json::Error| ServiceError::failed("a record", error);
        // Only in the first record of an action; the record that completes it refers to the first.
        let call = self.tool_call.as_ref().filter(|_| completes.is_none());
        let mcp = call.map(|call| serde_json::from_str(&call.0)).transpose().map_err(invalid_json)?;
        let oauth_client = self.oauth_client.as_deref().filter(|_| completes.is_none());
        let recorded = RecordDetail { detail: &bounded(event.detail), mcp, oauth_client };
        Ok(PreparedRecord {
            context: self.clone(),
            completes,
            action: event.action,
            outcome: event.outcome.into(),
            target: event.target.map(sanitize),
            detail: serde_json::to_string(&recorded).map_err(invalid_json)?,
        })
    }
}

/// An audit record before it gets its time.
pub(crate) struct PreparedRecord {
    context: AuditContext,
    pub(crate) completes: Option<u64>,
    action: &'static str,
    outcome: &'static str,
    target: Option<String>,
    pub(crate) detail: String,
}

impl PreparedRecord {
    /// Whether a stored record has the same outcome and detail.
    pub(crate) fn has_result(&self, outcome: &str, detail: &str) -> bool {
        self.outcome == outcome && self.detail == detail
    }

    pub(crate) fn at(&self, at: Timestamp) -> NewAuditRecord<'_> {
        let Self { context, completes, action, outcome, target, detail } = self;
        NewAuditRecord {
            completes: *completes,
            at,
            actor_id: context.actor_id.as_deref(),
            actor_name: context.actor_name.as_deref(),
            credential_id: context.credential_id.as_deref(),
            via: context.via,
            action,
            outcome,
            request_id: &context.request_id,
            client_ip: context.client_ip.as_deref(),
            user_agent: context.user_agent.as_deref(),
            target: target.as_deref(),
            detail,
        }
    }
}
