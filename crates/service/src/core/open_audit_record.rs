//! Audit record of an action that takes time: durable before any result is returned, completed when the action ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};
use tracewarden_appdb::{AppendTx, Epoch};
use tracewarden_model::{Filter, Timestamp, Window};

use crate::core::Core;
use crate::core::access::Access;
use crate::core::audit_appender::{self, Decision};
use crate::core::audit_context::AuditContext;
use crate::core::audit_detail::with_members;
use crate::core::audit_event::{Event, Outcome};
use crate::core::authority::Authority;
use crate::core::error::{Result, ServiceError};
use crate::core::metrics::ReadMeasurement;
use crate::core::permits::Permit;
use crate::core::principal::{Administrator, Principal};
use crate::core::query_context::QueryContext;
use crate::core::tasks::{CancelOnDrop, run_to_completion};

/// An open audit record. It is completed once: by [`OpenAuditRecord::complete`], or as aborted when it is dropped because the client
/// disconnected. A crash leaves the outcome `unknown`, never `success`.
pub(crate) struct OpenAuditRecord {
    first: Arc<FirstRecord>,
    /// Id of the trace that was found, if its notation differs from the requested one.
    found_trace: Option<String>,
    completed: bool,
    /// For the texts of errors; `None` if the action is not a read of traces.
    query: Option<QueryContext>,
    /// What was returned so far.
    pub(crate) returned: ReadMeasurement,
    /// The answer counts as one of the user's queries until its record is completed.
    _permit: Arc<Permit>,
}

/// The record that was written when the action began.
struct FirstRecord {
    core: Arc<Core>,
    context: AuditContext,
    action: &'static str,
    /// Target as requested.
    target: Option<String>,
    sequence: u64,
}

/// A permitted read of traces: the caller's access, the plan, and the detail of the record.
pub(crate) struct PreparedRead<P> {
    pub(crate) access: Access,
    pub(crate) plan: P,
    pub(crate) detail: Value,
}

/// Inputs of a decision, the detail of the record, and the result of the preparation.
type Prepared<T> = (Arc<Authority>, Value, T);

/// Time in which the completion of a successful read is tried again.
const COMPLETION_TIME_MAX: Duration = Duration::from_secs(5);
/// Pauses before the second attempt and before later ones.
const COMPLETION_PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];

/// Maximum number of preparations of a read if the inputs of its decision change each time before its record is written. A
/// preparation takes milliseconds; administrators do not make changes that fast that often.
const MAX_PREPARATIONS: usize = 4;

impl Core {
    /// Begins a read of traces: prepares it, and appends the first record in a transaction that checks that the inputs have
    /// not changed since. A caller who was revoked in the meantime is rejected; after other changes the read is prepared
    /// again. Policies are compiled before that transaction, because no other writer can proceed during it.
    ///
    /// Every way to read traces begins here. Nothing may be shown if this fails.
    ///
    /// # Errors
    /// [`ServiceError::TooManyQueries`], those of `prepare` and of authentication; denied and failed calls are recorded.
    pub(crate) async fn begin_read<P: Send, F: Future<Output = Result<PreparedRead<P>>> + Send>(
        self: &Arc<Self>,
        principal: &Principal,
        action: &'static str,
        target: Option<&str>,
        prepare: impl Fn() -> F + Send + Sync,
    ) -> Result<(Access, P, OpenAuditRecord)> {
        let prepare = || {
            prepare().map_ok(|PreparedRead { access, plan, detail }| {
                (Arc::clone(&access.authority), detail, (access, plan))
            })
        };
        let ((access, plan), mut record) = self.open_record(principal, action, target, prepare).await?;
        record.query = Some(QueryContext::new(&access, None, &Filter::default()));
        Ok((access, plan, record))
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
    ) -> Result<OpenAuditRecord> {
        let prepare = || async {
            let mut tx = self.db.begin_read().await?;
            Ok((Arc::new(self.admin_authority(&mut tx, admin).await?), detail.clone(), ()))
        };
        Ok(self.open_record(admin, action, target, prepare).await?.1)
    }

    async fn open_record<T, F: Future<Output = Result<Prepared<T>>> + Send>(
        self: &Arc<Self>,
        principal: &Principal,
        action: &'static str,
        target: Option<&str>,
        prepare: impl Fn() -> F + Send + Sync,
    ) -> Result<(T, OpenAuditRecord)> {
        // Counted by user, so that additional sessions or keys do not raise the limit.
        let permit = self.permits.queries.try_acquire(principal.user_id()).ok_or_else(|| {
            self.metrics.over_limit.inc();
            ServiceError::TooManyQueries
        });
        let permit = Arc::new(self.audit_denial(principal, action, target, permit).await?);
        for _ in 0..MAX_PREPARATIONS {
            let prepared = self.audit_denial(principal, action, target, prepare().boxed().await).await?;
            let (authority, detail, prepared) = prepared;
            let (core, permit, target_text) =
                (Arc::clone(self), Arc::clone(&permit), target.map(str::to_owned));
            let abandoned = CancelOnDrop(Arc::default());
            let decision = RecordedDecision { core, authority, abandoned: Arc::clone(&abandoned.0) };
            let begin = FirstRecord::write(decision, permit, action, target_text, detail);
            // Returns a `OpenAuditRecord` even if the client disconnects between the commit and this point: its drop then completes
            // the record.
            match run_to_completion(begin).await {
                Ok(Some(record)) => return Ok((prepared, record)),
                Ok(None) => {}
                // After the first two, another record is unlikely to be written. After the third, the record may exist; it then
                // stays `unknown`: its sequence number is not known, so nothing can complete it.
                Err(
                    error @ (ServiceError::Unavailable { .. }
                    | ServiceError::Internal { .. }
                    | ServiceError::OutcomeUnknown { .. }),
                ) => return Err(error),
                Err(refusal) => return self.audit_denial(principal, action, target, Err(refusal)).await,
            }
        }
        let keeps_changing = ServiceError::unavailable("the inputs of the access decision kept changing");
        self.audit_denial(principal, action, target, Err(keeps_changing)).await
    }
}

/// The decision that a first record documents.
struct RecordedDecision {
    core: Arc<Core>,
    authority: Arc<Authority>,
    abandoned: Arc<AtomicBool>,
}

impl Decision<AppendTx> for RecordedDecision {
    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    fn holds_in(&self, epoch: Epoch, at: Timestamp) -> bool {
        // The end of a credential by its age writes nothing, and so does not raise the epoch.
        self.authority.epoch == epoch && self.core.is_live(&self.authority.principal, at)
    }

    fn is_current<'a>(&'a self, tx: &'a mut AppendTx) -> BoxFuture<'a, Result<bool>> {
        async move {
            let current = self.core.authority(tx.read(), &self.authority.principal).await?;
            Ok(current.is_equivalent(&self.authority))
        }
        .boxed()
    }
}

impl FirstRecord {
    /// Appends the first record; `None` if the decision must be made again.
    async fn write(
        decision: RecordedDecision,
        permit: Arc<Permit>,
        action: &'static str,
        target: Option<String>,
        detail: Value,
    ) -> Result<Option<OpenAuditRecord>> {
        let core = Arc::clone(&decision.core);
        let context = AuditContext::new(&decision.authority.principal);
        let event = Event { action, outcome: Outcome::Unknown, target: target.as_deref(), detail };
        let record = context.prepare(None, event)?;
        let Some(sequence) = audit_appender::append(&core, record, Some(Box::new(decision))).await? else {
            return Ok(None);
        };
        Ok(Some(OpenAuditRecord {
            found_trace: None,
            completed: false,
            query: None,
            returned: core.metrics.start_read(action),
            first: Arc::new(Self { core, context, action, target, sequence }),
            _permit: permit,
        }))
    }

    async fn complete(&self, outcome: Outcome, detail: Value) -> Result<()> {
        let event = Event { action: self.action, outcome, target: None, detail };
        self.core.record(&self.context, Some(self.sequence), event).await
    }
}

impl OpenAuditRecord {
    /// Sets the window and the filter of the query, for the texts of errors.
    pub(crate) fn set_query(&mut self, access: &Access, window: Window, filter: &Filter) {
        self.query = Some(QueryContext::new(access, Some(window), filter));
    }

    /// Does the same for a query without a filter, whose time-out the caller has chosen.
    pub(crate) fn set_query_with_timeout(&mut self, access: &Access, window: Window) {
        let mut query = QueryContext::new(access, Some(window), &Filter::default());
        query.has_chosen_timeout = true;
        self.query = Some(query);
    }

    /// Appends the second record. A database that fails for a moment delays a finished answer, and does not abort it.
    ///
    /// # Errors
    /// When it could not be appended: the answer must then not end as if it were complete.
    pub(crate) async fn complete(&mut self, outcome: Outcome, code: Option<&str>) -> Result<()> {
        let deadline = Instant::now() + COMPLETION_TIME_MAX;
        let [mut pause, later] = COMPLETION_PAUSES;
        loop {
            let completed = self.first.complete(outcome, self.detail(code)).await;
            match completed {
                Err(ServiceError::Unavailable(_) | ServiceError::OutcomeUnknown(_))
                    if outcome == Outcome::Success && Instant::now() + pause < deadline =>
                {
                    sleep(pause).await;
                    pause = later;
                }
                completed => break completed?,
            }
        }
        self.completed = true;
        self.returned.outcome = outcome;
        Ok(())
    }

    /// Returns the result of a step; completes the record as failed if the step failed.
    pub(crate) async fn check<T, E: Into<ServiceError>>(&mut self, result: Result<T, E>) -> Result<T> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => Err(self.fail(error).await),
        }
    }

    /// Completes the record as failed and returns the error for the caller, also if the record cannot be written.
    pub(crate) async fn fail(&mut self, error: impl Into<ServiceError>) -> ServiceError {
        let error = self.error(error);
        if let Err(failure) = self.complete(Outcome::Failed, Some(error.code())).await {
            tracing::warn!(log_cause = failure.log_cause(), "the end of a request was not recorded");
        }
        error
    }

    /// Completes an error for the caller.
    pub(crate) fn error(&self, error: impl Into<ServiceError>) -> ServiceError {
        let error = error.into();
        match &self.query {
            Some(query) => query.complete(error),
            None => error,
        }
    }

    /// Notes the one trace that was found by any notation of the requested id.
    pub(crate) fn set_found_trace(&mut self, trace_id: &str) {
        self.returned.traces = 1;
        self.found_trace =
            Some(trace_id.to_owned()).filter(|found_trace| self.first.target.as_ref() != Some(found_trace));
    }

    fn detail(&self, code: Option<&str>) -> Value {
        let detail = json!({ "traces": self.returned.traces, "spans": self.returned.spans });
        let more = [("trace_id", self.found_trace.as_deref()), ("code", code)];
        with_members(detail, more.map(|(name, text)| (name, text.map(Value::from))))
    }
}

impl Drop for OpenAuditRecord {
    fn drop(&mut self) {
        if self.completed {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (first, detail) = (Arc::clone(&self.first), self.detail(None));
        runtime.spawn(async move {
            // If the completion in progress succeeded, the appender rejects this one.
            if let Err(failure) = first.complete(Outcome::Aborted, detail).await {
                tracing::debug!(log_cause = failure.log_cause(), "an aborted request was not recorded");
            }
        });
    }
}
