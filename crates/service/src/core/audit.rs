//! Writing of audit records.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tracewarden_appdb::{NewAuditRecord, WriteTx};
use tracewarden_model::Timestamp;

use crate::core::Core;
use crate::core::audit_detail::bounded;
use crate::core::audit_event::{Event, Outcome};
use crate::core::error::{Result, ServiceError};
use crate::core::principal::{Identity, RequestInfo, Transport};
use crate::core::tasks::run_to_completion;
use crate::core::text::sanitize;
use crate::core::tool_call::RecordedCall;

/// Caller and origin, for all records of one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct AuditContext {
    pub(crate) actor_id: Option<String>,
    pub(crate) actor_name: Option<String>,
    credential_id: Option<String>,
    via: &'static str,
    request_id: String,
    client_ip: Option<String>,
    user_agent: Option<String>,
    tool_call: Option<Arc<RecordedCall>>,
}

/// Detail of an event, and the tool call in which it happened.
#[derive(Serialize)]
struct RecordDetail<'a> {
    #[serde(flatten)]
    detail: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    mcp: Option<&'a RawValue>,
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
            ..Self::anonymous(&identity.info)
        }
    }

    /// Creates the context of a request whose caller is not known, or not yet.
    pub(crate) fn anonymous(info: &RequestInfo) -> Self {
        Self {
            via: "session",
            request_id: sanitize(&info.request_id),
            client_ip: info.client_ip.map(|address| address.to_canonical().to_string()),
            user_agent: info.user_agent.as_deref().map(sanitize),
            tool_call: info.tool_call.clone(),
            ..Self::default()
        }
    }

    /// Creates the context of the service's own actions.
    fn service() -> Self {
        Self { via: "service", ..Self::default() }
    }

    pub(crate) async fn append(
        &self,
        tx: &mut WriteTx,
        at: Timestamp,
        completes: Option<u64>,
        event: &Event<'_>,
    ) -> Result<u64> {
        let invalid_json = |error: serde_json::Error| ServiceError::failed("a record", error);
        // Only in the first record of an action; the record that completes it refers to the first.
        let call = self.tool_call.as_ref().filter(|_| completes.is_none());
        let mcp = call.map(|call| serde_json::from_str(&call.0)).transpose().map_err(invalid_json)?;
        let recorded = RecordDetail { detail: &bounded(event.detail.clone()), mcp };
        let detail = serde_json::to_string(&recorded).map_err(invalid_json)?;
        let target = event.target.map(sanitize);
        let record = NewAuditRecord {
            completes,
            at,
            actor_id: self.actor_id.as_deref(),
            actor_name: self.actor_name.as_deref(),
            credential_id: self.credential_id.as_deref(),
            via: self.via,
            action: event.action,
            outcome: event.outcome.into(),
            request_id: &self.request_id,
            client_ip: self.client_ip.as_deref(),
            user_agent: self.user_agent.as_deref(),
            target: target.as_deref(),
            detail: &detail,
        };
        Ok(tx.append_audit(&record).await?)
    }
}

impl Core {
    /// Commits a change with its audit record.
    pub(crate) async fn commit_change(
        &self,
        tx: WriteTx,
        identity: &Identity,
        action: &'static str,
        target: Option<&str>,
        detail: Value,
    ) -> Result<()> {
        self.commit(tx, &AuditContext::new(identity), action, target, detail).await
    }

    /// Commits a change that the service makes on its own, with its audit record.
    pub(crate) async fn commit_own_change(
        &self,
        tx: WriteTx,
        action: &'static str,
        target: Option<&str>,
        detail: Value,
    ) -> Result<()> {
        self.commit(tx, &AuditContext::service(), action, target, detail).await
    }

    async fn commit(
        &self,
        mut tx: WriteTx,
        context: &AuditContext,
        action: &'static str,
        target: Option<&str>,
        detail: Value,
    ) -> Result<()> {
        let event = Event { action, outcome: Outcome::Success, target, detail };
        context.append(&mut tx, self.now(), None, &event).await?;
        Ok(tx.commit().await?)
    }

    /// Records one event in its own transaction, queued behind the caller's earlier ones.
    pub(crate) async fn record_in_own_transaction(
        &self,
        context: &AuditContext,
        event: &Event<'_>,
    ) -> Result<()> {
        let mut tx = match &context.actor_id {
            // In another queue than the same user's changes: a user whose key is abused must be able to revoke it.
            Some(user) => self.db.begin_queued_write(&format!("{user} alone"), self.db.timeout()).await?,
            None => self.db.begin_write().await?,
        };
        context.append(&mut tx, self.now(), None, event).await?;
        Ok(tx.commit().await?)
    }

    /// Returns `result`; records it if it is an error. The error stands even if the record cannot be written: nothing has
    /// been changed or shown. An unknown outcome is not recorded as a failure: if the change was made, its own record was
    /// committed with it.
    pub(crate) async fn audit_denial<T>(
        self: &Arc<Self>,
        identity: &Identity,
        action: &'static str,
        target: Option<&str>,
        result: Result<T>,
    ) -> Result<T> {
        if let Err(error) = &result
            && !matches!(error, ServiceError::OutcomeUnknown { .. })
        {
            let detail = serde_json::json!({ "code": error.code() });
            self.record_rejection(identity, action, error, target, detail).await;
        }
        result
    }

    /// Records a denied or failed call, if the database accepts the record.
    pub(crate) async fn record_rejection(
        self: &Arc<Self>,
        identity: &Identity,
        action: &'static str,
        error: &ServiceError,
        target: Option<&str>,
        detail: Value,
    ) {
        let outcome = match error {
            ServiceError::SessionRequired
            | ServiceError::Forbidden
            | ServiceError::ScopedKey
            | ServiceError::ToolNotPermitted
            | ServiceError::PasswordChangeRequired
            | ServiceError::Unauthenticated { .. }
            | ServiceError::TooManyQueries => Outcome::Denied,
            _ => Outcome::Failed,
        };
        self.record_if_possible(identity, Event { action, outcome, target, detail }).await;
    }

    /// Records that nothing was done, if the database accepts the record; also if the client disconnects. The number of
    /// waiting records of one user is limited; further ones are reported in the process log only.
    pub(crate) async fn record_if_possible(self: &Arc<Self>, identity: &Identity, event: Event<'_>) {
        let Some(waiting) = self.permits.audit_records.try_acquire(identity.user_id()) else {
            tracing::warn!(
                user_id = identity.user_id(),
                action = event.action,
                outcome = <&str>::from(event.outcome),
                "could not record a denied or failed request: too many records of this user are waiting"
            );
            return;
        };
        let (core, context) = (Arc::clone(self), AuditContext::new(identity));
        let Event { action, outcome, target, detail } = event;
        let target = target.map(str::to_owned);
        let recorded = run_to_completion(async move {
            let event = Event { action, outcome, target: target.as_deref(), detail };
            let recorded = core.record_in_own_transaction(&context, &event).await;
            drop(waiting);
            recorded
        });
        if let Err(failure) = recorded.await {
            tracing::warn!(
                code = failure.code(),
                log_cause = failure.log_cause(),
                "could not record a denied or failed request"
            );
        }
    }
}
