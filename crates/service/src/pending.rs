//! The audit record of something that takes time: begun durably before anything is shown, completed when it ends.

use serde_json::{Value, json};

use crate::audit::{AuditContext, Event, Outcome};
use crate::error::ServiceError;
use crate::principal::Identity;
use crate::service::Service;

/// A record that was begun. It is completed once: by [`Pending::complete`], or as aborted when it is dropped because
/// the client went away. A crash leaves the outcome `unknown`, never `success`.
pub(crate) struct Pending {
    service: Service,
    context: AuditContext,
    action: &'static str,
    sequence: u64,
    completed: bool,
    /// Counted so far.
    pub(crate) traces: u64,
    /// Counted so far.
    pub(crate) spans: u64,
}

impl Service {
    /// Writes the first record. Nothing may be shown when this fails.
    pub(crate) async fn begin_record(
        &self,
        identity: &Identity,
        action: &'static str,
        target: Option<&str>,
        detail: Value,
    ) -> Result<Pending, ServiceError> {
        let context = AuditContext::of(identity);
        let event = Event { action, outcome: Outcome::Unknown, target, detail };
        let mut tx = self.db().begin_write().await?;
        let sequence = context.append(&mut tx, self.now(), None, &event).await?;
        tx.commit().await?;
        Ok(Pending {
            service: self.clone(),
            context,
            action,
            sequence,
            completed: false,
            traces: 0,
            spans: 0,
        })
    }
}

impl Pending {
    /// Writes the second record.
    ///
    /// # Errors
    /// When it could not be written: then the answer must not end as if it were complete.
    pub(crate) async fn complete(
        &mut self,
        outcome: Outcome,
        code: Option<&str>,
    ) -> Result<(), ServiceError> {
        let detail = self.detail(code);
        write(&self.service, &self.context, self.action, self.sequence, outcome, detail).await?;
        self.completed = true;
        Ok(())
    }

    /// Completes as failed and passes the failure on; the failure stands whether or not the record can be written.
    pub(crate) async fn fail(mut self, error: ServiceError) -> ServiceError {
        if let Err(failure) = self.complete(Outcome::Failed, Some(error.code())).await {
            tracing::warn!(inside = failure.inside(), "the end of a request was not recorded");
        }
        error
    }

    fn detail(&self, code: Option<&str>) -> Value {
        match code {
            None => json!({ "traces": self.traces, "spans": self.spans }),
            Some(code) => json!({ "traces": self.traces, "spans": self.spans, "code": code }),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.completed {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (service, context, action, sequence) =
            (self.service.clone(), self.context.clone(), self.action, self.sequence);
        let detail = self.detail(None);
        runtime.spawn(async move {
            // When the completion that was under way had got through, this one is refused as a duplicate.
            let written = write(&service, &context, action, sequence, Outcome::Aborted, detail).await;
            if let Err(failure) = written {
                tracing::debug!(inside = failure.inside(), "an aborted request was not recorded");
            }
        });
    }
}

async fn write(
    service: &Service,
    context: &AuditContext,
    action: &'static str,
    sequence: u64,
    outcome: Outcome,
    detail: Value,
) -> Result<(), ServiceError> {
    let event = Event { action, outcome, target: None, detail };
    let mut tx = service.db().begin_write().await?;
    context.append(&mut tx, service.now(), Some(sequence), &event).await?;
    Ok(tx.commit().await?)
}
