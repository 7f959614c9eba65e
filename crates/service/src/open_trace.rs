//! One trace that is looked at in several ways by one request, under one record.

use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tracewarden_model::Filter;
use tracewarden_tracestore::{Selection, SpanBrief, StoreError, Summary};

use crate::access::Access;
use crate::audit::Outcome;
use crate::error::ServiceError;
use crate::pending::Pending;
use crate::principal::Principal;
use crate::query_limit::Asked;
use crate::service::Service;
use crate::tools::TRACES_GET;
use crate::traces::{Found, SchemaEcho};

/// Spans that are looked at together in a few words; some hundred bytes each.
pub const BRIEF_SPANS_MAX: u32 = 100_000;

/// Waiting for leave to hold spans ends after this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// A trace that the caller may read, whole. Nothing of what its methods give may leave before [`OpenTrace::close`] has
/// succeeded; dropped before, the record says `aborted`.
pub struct OpenTrace {
    access: Access,
    selection: Selection,
    asked: Asked,
    /// Taken by the first failure, which ends the record.
    pending: Option<Pending>,
    columns: Option<Vec<String>>,
    /// From when spans are first asked for.
    leave: Option<OwnedSemaphorePermit>,
    service: Service,
}

impl Service {
    /// Opens one trace by its id. `columns` are those that [`OpenTrace::spans`] shall give beside the structural ones.
    ///
    /// # Errors
    /// Those of [`Service::trace`], and `unknown_field` for a column.
    pub async fn open_trace(
        &self,
        principal: &Principal,
        trace_id: &str,
        columns: Option<Vec<String>>,
    ) -> Result<OpenTrace, ServiceError> {
        let found = self.find_trace(principal, TRACES_GET, trace_id, columns.as_deref()).await?;
        let Found { access, selection, pending, asked } = found;
        let (pending, leave) = (Some(pending), None);
        Ok(OpenTrace { access, selection, asked, pending, columns, leave, service: self.clone() })
    }
}

impl OpenTrace {
    /// The binding.
    pub fn schema(&self) -> SchemaEcho {
        self.access.echo()
    }

    /// The whole trace in one line.
    ///
    /// # Errors
    /// When the trace store fails; the trace is then closed.
    pub async fn summary(&mut self) -> Result<Summary, ServiceError> {
        let Access { store, binding, .. } = &self.access;
        let found = store.summarise(binding, &self.selection, &Filter::default()).await;
        let found = found.and_then(|summaries| {
            let first = summaries.into_iter().next();
            first.ok_or_else(|| StoreError::Short("a summary is missing".to_owned()))
        });
        self.checked(found).await
    }

    /// All its spans in a few words, by start; of a trace with more than [`BRIEF_SPANS_MAX`] the first.
    ///
    /// # Errors
    /// When the trace store fails; the trace is then closed.
    pub async fn brief(&mut self) -> Result<Vec<SpanBrief>, ServiceError> {
        let Access { store, binding, .. } = &self.access;
        let found = store.brief(binding, &self.selection, BRIEF_SPANS_MAX).await;
        let spans = self.checked(found).await?;
        self.count(spans.len());
        Ok(spans)
    }

    /// These of its spans, each a JSON object as a query returns it, in the order of time. Those that it has not are
    /// left out, and of an id that occurs more than four times all but four. `None` when they are too large to be read
    /// together.
    ///
    /// # Errors
    /// When the trace store fails, or many others hold spans for long; the trace is then closed.
    pub async fn spans(&mut self, span_ids: &[String]) -> Result<Option<Vec<String>>, ServiceError> {
        if span_ids.is_empty() {
            return Ok(Some(Vec::new()));
        }
        if self.leave.is_none() {
            let leave = tokio::time::timeout(PATIENCE, self.service.leave_to_hold_spans()).await;
            let late = || ServiceError::Unavailable { inside: "others hold many spans".to_owned() };
            match leave.unwrap_or_else(|_| Err(late())) {
                Ok(leave) => self.leave = Some(leave),
                Err(error) => return Err(self.failed(error).await),
            }
        }
        let Access { store, binding, .. } = &self.access;
        let columns = self.columns.as_deref();
        let found = store.read_spans(binding, &self.selection, span_ids, columns).await;
        if matches!(found, Err(StoreError::TooLarge(_))) {
            return Ok(None);
        }
        let spans = self.checked(found).await?;
        self.count(spans.len());
        Ok(Some(spans))
    }

    /// Ends the record. What was read may leave now.
    ///
    /// # Errors
    /// When the record could not be written.
    pub async fn close(mut self) -> Result<(), ServiceError> {
        match self.pending.take() {
            Some(mut pending) => pending.complete(Outcome::Success, None).await,
            None => Err(ServiceError::internal("the trace is closed".to_owned())),
        }
    }

    fn count(&mut self, spans: usize) {
        if let Some(pending) = &mut self.pending {
            // What is read again is the same spans.
            pending.spans = pending.spans.max(spans as u64);
        }
    }

    async fn checked<T>(&mut self, found: Result<T, StoreError>) -> Result<T, ServiceError> {
        match found {
            Ok(found) => Ok(found),
            Err(error) => {
                let error = self.asked.error(error);
                Err(self.failed(error).await)
            }
        }
    }

    async fn failed(&mut self, error: ServiceError) -> ServiceError {
        match self.pending.take() {
            Some(pending) => pending.fail(error).await,
            None => error,
        }
    }
}
