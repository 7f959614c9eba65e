//! A trace that one request reads in several ways, under one audit record.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tracewarden_clickhouse::{
    ClickHouseError, MAX_SPANS_BYTES, Selection, SpanIdentity, SpanLine, SpanSummary, Summary,
};
use tracewarden_model::Filter;

use crate::core::{
    Access, Core, OpenAuditRecord, Outcome, Permit, Principal, Result, ServiceError, TRACES_GET,
};
use crate::traces::{AuthorizedTrace, SchemaEcho, Traces};

/// Maximum number of spans in a brief listing; each takes some hundred bytes.
pub const BRIEF_SPANS_MAX: u32 = 100_000;

/// Number of spans that are listed briefly without a permit; hardly any trace has more.
const MAX_SPANS_WITHOUT_PERMIT: u64 = 5_000;

/// Size of whole spans that are held without a permit; hardly any are larger.
pub(crate) const MAX_BYTES_WITHOUT_PERMIT: usize = 1024 * 1024;

/// Time-out of the wait for a permit to hold more.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A whole trace that the caller may read. The results of its methods may be sent only after [`TraceReader::close`] has
/// succeeded; if it is dropped before, the record says `aborted`. Its methods fail when ClickHouse does, or when requests of the
/// same user or of all users hold many spans for long; the trace is then closed.
pub struct TraceReader {
    access: Access,
    selection: Selection,
    /// Taken by the first failure, which completes the record.
    record: Option<OpenAuditRecord>,
    columns: Option<Vec<String>>,
    /// Acquired when more than [`MAX_SPANS_WITHOUT_PERMIT`] or [`MAX_BYTES_WITHOUT_PERMIT`] are first requested.
    span_permit: Option<Permit>,
    core: Arc<Core>,
    user: String,
}

impl Traces {
    /// Opens one trace by its id, in any notation. `columns` are those that [`TraceReader::spans`] returns in addition to the
    /// structural ones.
    ///
    /// # Errors
    /// Those of [`Self::trace`], and `unknown_field` for a column.
    pub async fn open_trace(
        &self,
        principal: &Principal,
        trace_id: &str,
        columns: Option<Vec<String>>,
    ) -> Result<TraceReader> {
        let found = self.find_trace(principal, TRACES_GET, trace_id, columns.as_deref()).await?;
        let AuthorizedTrace { access, selection, record } = found;
        let (core, user) = (Arc::clone(&self.core), principal.user_id().to_owned());
        Ok(TraceReader { access, selection, record: Some(record), columns, span_permit: None, core, user })
    }
}

/// Reads given spans of at most this number of bytes.
type ReadSpans<S, T> =
    for<'a> fn(&'a TraceReader, usize, &'a [S]) -> BoxFuture<'a, Result<Vec<T>, ClickHouseError>>;

impl TraceReader {
    /// Returns the binding, and the columns that [`TraceReader::spans`] omits if none were named.
    pub fn schema(&self) -> SchemaEcho {
        let whole = self.columns.is_none();
        let omitted_columns = whole.then(|| self.selection.omitted_columns(&self.access.binding));
        SchemaEcho { omitted_columns, ..self.access.echo() }
    }

    /// Returns the trace's id, as it is stored.
    pub fn trace_id(&self) -> &str {
        self.selection.trace_ids().next().unwrap_or_default()
    }

    /// Returns a summary of the trace.
    pub async fn summary(&mut self) -> Result<Summary> {
        let Access { store, binding, .. } = &self.access;
        let found = store.summarise(binding, &self.selection, &Filter::default()).await;
        let found = found.and_then(|summaries| {
            let first = summaries.into_iter().next();
            first.ok_or_else(|| ClickHouseError::IncompleteResponse("a summary is missing".to_owned()))
        });
        self.check(found).await
    }

    /// Returns a brief listing of all spans, by start time; for a trace with more than [`BRIEF_SPANS_MAX`] spans, the first
    /// ones.
    pub async fn brief(&mut self) -> Result<Vec<SpanSummary>> {
        if self.selection.span_count() > MAX_SPANS_WITHOUT_PERMIT {
            self.ensure_span_permit().await?;
        }
        let Access { store, binding, .. } = &self.access;
        let found = store.span_summaries(binding, &self.selection, BRIEF_SPANS_MAX).await;
        let spans = self.check(found).await?;
        self.count(spans.len());
        Ok(spans)
    }

    /// Reads these spans by identity; each result has its index in `spans`. Spans with equal identities are assigned in the
    /// order of the answer, after those that `before` contains. Returns `None` if the spans are too large to be read
    /// together.
    pub async fn spans_by_identity(
        &mut self,
        spans: &[SpanSummary],
        before: &[SpanSummary],
    ) -> Result<Option<Vec<(usize, SpanLine)>>> {
        if spans.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let mut indices: HashMap<SpanIdentity, VecDeque<usize>> = HashMap::new();
        for (index, span) in spans.iter().enumerate() {
            indices.entry(span.into()).or_default().push_back(index);
        }
        let mut earlier: HashMap<SpanIdentity, usize> = HashMap::new();
        let ids: HashSet<&str> = spans.iter().map(|span| span.span_id.as_str()).collect();
        for span in before.iter().filter(|span| ids.contains(span.span_id.as_str())) {
            *earlier.entry(span.into()).or_default() += 1;
        }
        let identities: Vec<SpanIdentity> = indices.keys().cloned().collect();
        let found = self.read_within_limits(&identities, |reader, bytes, spans| {
            let Self { access: Access { store, binding, .. }, selection, columns, .. } = reader;
            store.read_spans_by_identity(bytes, binding, selection, spans, columns.as_deref()).boxed()
        });
        let Some(found) = found.await? else { return Ok(None) };
        let with_index = |(identity, line)| {
            if let Some(left) = earlier.get_mut(&identity).filter(|left| **left > 0) {
                *left -= 1;
                return None;
            }
            Some((indices.get_mut(&identity)?.pop_front()?, line))
        };
        Ok(Some(found.into_iter().filter_map(with_index).collect()))
    }

    /// Returns these spans in the form of a query's answer, in the order of time. Omits ids that the trace does not contain,
    /// and returns at most four spans of one id. `None` if they are too large to be read together.
    pub async fn spans(&mut self, span_ids: &[String]) -> Result<Option<Vec<SpanLine>>> {
        if span_ids.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let found = self.read_within_limits(span_ids, |reader, bytes, span_ids| {
            let Self { access: Access { store, binding, .. }, selection, columns, .. } = reader;
            store.read_span_lines(bytes, binding, selection, span_ids, columns.as_deref()).boxed()
        });
        found.await
    }

    /// Reads spans of a bounded total size, the second time of the size that needs a permit. Returns `None` if they are larger.
    async fn read_within_limits<S, T>(
        &mut self,
        spans: &[S],
        read: ReadSpans<S, T>,
    ) -> Result<Option<Vec<T>>> {
        let mut found = read(self, MAX_BYTES_WITHOUT_PERMIT, spans).await;
        if matches!(found, Err(ClickHouseError::TooLarge(_))) {
            self.ensure_span_permit().await?;
            found = read(self, MAX_SPANS_BYTES, spans).await;
        }
        if matches!(found, Err(ClickHouseError::TooLarge(_))) {
            return Ok(None);
        }
        let found = self.check(found).await?;
        self.count(found.len());
        Ok(Some(found))
    }

    async fn ensure_span_permit(&mut self) -> Result<()> {
        if self.span_permit.is_some() {
            return Ok(());
        }
        let acquire = self.core.permits.whole_traces.acquire(&self.user, 1);
        let span_permit = tokio::time::timeout(TIMEOUT, acquire).await;
        let late = || ServiceError::Overloaded { what: "other requests hold many spans in memory" };
        let span_permit =
            span_permit.map_err(|_| late()).and_then(|permit| permit.ok_or(ServiceError::TooManyQueries));
        self.span_permit = Some(self.check(span_permit).await?);
        Ok(())
    }

    /// Completes the record. The data that was read may be sent now.
    pub async fn close(mut self) -> Result<()> {
        match self.record.take() {
            Some(mut record) => record.complete(Outcome::Success, None).await,
            None => Err(ServiceError::internal("the trace is closed")),
        }
    }

    fn count(&mut self, spans: usize) {
        if let Some(record) = &mut self.record {
            // Repeated reads return the same spans.
            record.returned.spans = record.returned.spans.max(spans as u64);
        }
    }

    async fn check<T>(&mut self, result: Result<T, impl Into<ServiceError>>) -> Result<T> {
        let Some(record) = &mut self.record else { return result.map_err(Into::into) };
        let checked = record.check(result).await;
        if checked.is_err() {
            self.record = None;
        }
        checked
    }
}
