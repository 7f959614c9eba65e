//! Audit record of an action that takes time: durable before any result is returned, completed when the action ends.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::core::Core;
use crate::core::access::Access;
use crate::core::audit::AuditContext;
use crate::core::audit_event::{Event, Outcome};
use crate::core::authority::Authority;
use crate::core::error::ServiceError;
use crate::core::metrics::ReadMeasurement;
use crate::core::permits::Permit;
use crate::core::principal::{Administrator, Principal};
use crate::core::tasks::run_to_completion;

/// An open audit record. It is completed once: by [`OpenAuditRecord::complete`], or as aborted when it is dropped because the client
/// disconnected. A crash leaves the outcome `unknown`, never `success`.
pub(crate) struct OpenAuditRecord {
    core: Arc<Core>,
    context: AuditContext,
    action: &'static str,
    sequence: u64,
    /// Target as requested.
    target: Option<String>,
    /// Id of the trace that was found, if its notation differs from the requested one.
    found_trace: Option<String>,
    completed: bool,
    measurement: ReadMeasurement,
    /// Number of traces so far.
    pub(crate) traces: u64,
    /// Number of spans so far.
    pub(crate) spans: u64,
    /// The answer counts as one of the user's queries until its record is completed.
    _permit: Arc<Permit>,
}

/// A permitted read of traces: the caller's access, the plan, and the detail of the record.
pub(crate) struct PreparedRead<P> {
    pub(crate) access: Access,
    pub(crate) plan: P,
    pub(crate) detail: Value,
}

/// A decision, its inputs, and the detail of the record.
struct DecisionInputs<T> {
    authority: Arc<Authority>,
    detail: Value,
    payload: T,
}

/// Maximum number of preparations of a read if the inputs of its decision change each time before its record is written. A
/// preparation takes milliseconds; administrators do not make changes that fast that often.
const MAX_PREPARATIONS: usize = 4;

impl Core {
    /// Begins a read of traces: prepares it, and writes the first record in a transaction that checks that the inputs have
    /// not changed since. A caller who was revoked in the meantime is rejected; after other changes the read is prepared
    /// again. Policies are compiled before that transaction, because no other writer can proceed during it.
    ///
    /// Every way to read traces begins here. Nothing may be shown if this fails.
    ///
    /// # Errors
    /// [`ServiceError::TooManyQueries`], those of `prepare` and of authentication; denied and failed calls are recorded.
    pub(crate) async fn begin_read<'a, P>(
        self: &Arc<Self>,
        principal: &Principal,
        action: &'static str,
        target: Option<&str>,
        prepare: impl Fn() -> BoxFuture<'a, Result<PreparedRead<P>, ServiceError>> + Send + Sync,
    ) -> Result<(Access, P, OpenAuditRecord), ServiceError>
    where
        P: Send + 'a,
    {
        let prepare = || {
            let prepared = prepare();
            let decision_inputs = async move {
                let PreparedRead { access, plan, detail } = prepared.await?;
                Ok(DecisionInputs {
                    authority: Arc::clone(&access.authority),
                    detail,
                    payload: (access, plan),
                })
            };
            decision_inputs.boxed()
        };
        let ((access, plan), open_audit_record) =
            self.open_record(principal, action, target, prepare).await?;
        Ok((access, plan, open_audit_record))
    }

    /// Begins another action that shows span data to administrators without a policy. Its record is like that of a read, and
    /// it counts among their queries.
    ///
    /// # Errors
    /// [`ServiceError::TooManyQueries`], [`ServiceError::Forbidden`] and those of authentication; denied and failed calls are
    /// recorded.
    pub(crate) async fn begin_admin_read(
        self: &Arc<Self>,
        admin: &Administrator<'_>,
        action: &'static str,
        target: Option<&str>,
        detail: Value,
    ) -> Result<OpenAuditRecord, ServiceError> {
        let prepare = || {
            let detail = detail.clone();
            let decision_inputs = async move {
                let mut tx = self.db.begin_read().await?;
                let authority = Arc::new(self.admin_authority(&mut tx, admin).await?);
                Ok(DecisionInputs { authority, detail, payload: () })
            };
            decision_inputs.boxed()
        };
        let ((), open_audit_record) = self.open_record(admin, action, target, prepare).await?;
        Ok(open_audit_record)
    }

    async fn open_record<'a, T>(
        self: &Arc<Self>,
        principal: &Principal,
        action: &'static str,
        target: Option<&str>,
        prepare: impl Fn() -> BoxFuture<'a, Result<DecisionInputs<T>, ServiceError>> + Send + Sync,
    ) -> Result<(T, OpenAuditRecord), ServiceError> {
        // Counted by user, so that additional sessions or keys do not raise the limit.
        let permit = self.permits.queries.try_acquire(principal.user_id()).ok_or_else(|| {
            self.metrics.count_over_limit();
            ServiceError::TooManyQueries
        });
        let permit = Arc::new(self.audit_denial(principal, action, target, permit).await?);
        for _ in 0..MAX_PREPARATIONS {
            let prepared = self.audit_denial(principal, action, target, prepare().await).await?;
            let DecisionInputs { authority, detail, payload } = prepared;
            let begin = InitialRecord {
                core: Arc::clone(self),
                authority,
                permit: Arc::clone(&permit),
                action,
                target: target.map(str::to_owned),
                detail,
            };
            // Returns a `OpenAuditRecord` even if the client disconnects between the commit and this point: its drop then completes
            // the record.
            match run_to_completion(begin.write()).await {
                Ok(Some(open_audit_record)) => return Ok((payload, open_audit_record)),
                Ok(None) => {}
                // No other record can be written either.
                Err(error @ (ServiceError::Unavailable { .. } | ServiceError::Internal { .. })) => {
                    return Err(error);
                }
                // The record may exist. It then stays `unknown`: its sequence number is not known, so nothing can complete
                // it.
                Err(error @ ServiceError::OutcomeUnknown { .. }) => return Err(error),
                Err(refusal) => return self.audit_denial(principal, action, target, Err(refusal)).await,
            }
        }
        let keeps_changing = ServiceError::unavailable("the inputs of the access decision kept changing");
        self.audit_denial(principal, action, target, Err(keeps_changing)).await
    }
}

struct InitialRecord {
    core: Arc<Core>,
    authority: Arc<Authority>,
    permit: Arc<Permit>,
    action: &'static str,
    target: Option<String>,
    detail: Value,
}

impl InitialRecord {
    /// Writes the first record; `None` if the decision must be made again.
    async fn write(self) -> Result<Option<OpenAuditRecord>, ServiceError> {
        let Self { core, authority, permit, action, target, detail } = self;
        let context = AuditContext::new(&authority.principal);
        let event = Event { action, outcome: Outcome::Unknown, target: target.as_deref(), detail };
        let mut tx = core.db.begin_write().await?;
        let current = core.authority(&mut tx, &authority.principal).await?;
        if !current.is_equivalent(&authority) {
            return Ok(None);
        }
        let sequence = context.append(&mut tx, core.now(), None, &event).await?;
        tx.commit().await?;
        let (traces, spans, completed) = (0, 0, false);
        let measurement = core.metrics.start_read(action);
        Ok(Some(OpenAuditRecord {
            core,
            context,
            action,
            sequence,
            target,
            found_trace: None,
            completed,
            measurement,
            traces,
            spans,
            _permit: permit,
        }))
    }
}

impl OpenAuditRecord {
    /// Writes the second record.
    ///
    /// # Errors
    /// When it could not be written: the answer must then not end as if it were complete.
    pub(crate) async fn complete(
        &mut self,
        outcome: Outcome,
        code: Option<&str>,
    ) -> Result<(), ServiceError> {
        let detail = self.detail(code);
        write(&self.core, &self.context, self.action, self.sequence, outcome, detail).await?;
        self.completed = true;
        self.measurement.set_returned(self.traces, self.spans);
        self.measurement.set_outcome(outcome);
        Ok(())
    }

    /// Completes the record as failed and returns the error, also if the record cannot be written.
    pub(crate) async fn fail(mut self, error: ServiceError) -> ServiceError {
        if let Err(failure) = self.complete(Outcome::Failed, Some(error.code())).await {
            tracing::warn!(log_cause = failure.log_cause(), "the end of a request was not recorded");
        }
        error
    }

    /// Notes the one trace that was found by any notation of the requested id.
    pub(crate) fn set_found_trace(&mut self, trace_id: &str) {
        self.traces = 1;
        self.found_trace =
            Some(trace_id.to_owned()).filter(|found_trace| self.target.as_ref() != Some(found_trace));
    }

    fn detail(&self, code: Option<&str>) -> Value {
        let mut detail = Map::new();
        detail.insert("traces".to_owned(), json!(self.traces));
        detail.insert("spans".to_owned(), json!(self.spans));
        let more = [("trace_id", self.found_trace.as_deref()), ("code", code)];
        detail.extend(more.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text?)))));
        Value::Object(detail)
    }
}

impl Drop for OpenAuditRecord {
    fn drop(&mut self) {
        if self.completed {
            return;
        }
        self.measurement.set_returned(self.traces, self.spans);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (core, context, action, sequence) =
            (Arc::clone(&self.core), self.context.clone(), self.action, self.sequence);
        let detail = self.detail(None);
        runtime.spawn(async move {
            // If the completion in progress succeeded, the database rejects this one as a duplicate.
            let written = write(&core, &context, action, sequence, Outcome::Aborted, detail).await;
            if let Err(failure) = written {
                tracing::debug!(log_cause = failure.log_cause(), "an aborted request was not recorded");
            }
        });
    }
}

async fn write(
    core: &Core,
    context: &AuditContext,
    action: &'static str,
    sequence: u64,
    outcome: Outcome,
    detail: Value,
) -> Result<(), ServiceError> {
    let event = Event { action, outcome, target: None, detail };
    let mut tx = core.db.begin_write().await?;
    context.append(&mut tx, core.now(), Some(sequence), &event).await?;
    Ok(tx.commit().await?)
}
