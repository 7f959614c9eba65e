//! Writing of audit records.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Duration;
use tracewarden_appdb::{AppendTx, DbError, Epoch, NewAuditRecord, WriteTx};
use tracewarden_model::Timestamp;

use crate::core::Core;
use crate::core::audit_appender::{self, AuditQueue, AuditStore};
use crate::core::audit_context::{AuditContext, PreparedRecord};
use crate::core::audit_event::{Event, Outcome};
use crate::core::error::{Result, ServiceError};
use crate::core::principal::Identity;
use crate::core::tasks::run_to_completion;

impl AuditStore for Core {
    type Tx = AppendTx;

    fn queue(&self) -> &AuditQueue<AppendTx> {
        &self.audit_queue
    }

    fn max_wait(&self) -> Duration {
        self.db.timeout()
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn begin(&self) -> Result<AppendTx, DbError> {
        self.db.begin_append().await
    }

    async fn epoch(&self, tx: &mut AppendTx) -> Result<Epoch, DbError> {
        tx.epoch().await
    }

    async fn completions(
        &self,
        tx: &mut AppendTx,
        sequences: &[u64],
    ) -> Result<Vec<(u64, String, String)>, DbError> {
        tx.audit_completions(sequences).await
    }

    async fn append(
        &self,
        tx: &mut AppendTx,
        records: &[PreparedRecord],
        at: Timestamp,
    ) -> Result<u64, DbError> {
        let records: Vec<NewAuditRecord<'_>> = records.iter().map(|record| record.at(at)).collect();
        tx.append_audit(&records).await
    }

    async fn commit(&self, tx: AppendTx) -> Result<(), DbError> {
        tx.commit().await
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
        context.append(&mut tx, self.now(), event).await?;
        Ok(tx.commit().await?)
    }

    /// Records one event apart from a change.
    pub(crate) async fn record(
        self: &Arc<Self>,
        context: &AuditContext,
        completes: Option<u64>,
        event: Event<'_>,
    ) -> Result<()> {
        audit_appender::append(self, context.prepare(completes, event)?, None).await.map(drop)
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
            | ServiceError::InsufficientScope { .. }
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
            let recorded = core.record(&context, None, event).await;
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
