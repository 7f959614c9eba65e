//! Reading of traces: applies the request within the caller's policies, and records it before and after.

mod explain;
mod field_values;
mod filter_schema;
mod reader;
mod request;
mod span_stream;
mod stats;

pub use field_values::{FieldValuesAnswer, FieldValuesRequest};
pub use filter_schema::{FieldDescriptor, FilterSchema};
pub use reader::{BRIEF_SPANS_MAX, TraceReader};
pub use request::{QueryRequest, View};
pub use span_stream::SpanStream;
pub use stats::{TraceStatsAnswer, TraceStatsRequest};

use std::sync::Arc;

use futures::stream;
use serde_json::json;
use tokio::time::{Duration, Instant, sleep_until};
use tracewarden_clickhouse::{
    ClickHouseError, Position, ProgressCallback, SelectRequest, Selection, Summary, TraceOrder,
};
use tracewarden_model::{Binding, Filter, Timestamp, TraceIdNotations, Window};

use crate::core::{
    Access, Authority, Core, Cursor, Fingerprint, OpenAuditRecord, Outcome, PreparedRead, Principal, Result,
    ServiceError, TRACES_GET, TRACES_QUERY, filter_detail, query_input,
};
use crate::traces::span_stream::with_audit_record;

/// Binding and access model under which an answer was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaEcho {
    /// Binding of the trace source.
    pub binding: Binding,
    /// Version of the access model.
    pub version: u64,
    /// Columns of the table that the returned spans omit because the request named none; `None` if the request named columns,
    /// if the answer has no spans, and if the table is not known yet.
    pub omitted_columns: Option<Vec<String>>,
    /// Time range around the window within which spans of a trace were considered, the end exclusive; `None` if nothing
    /// limits it, if a trace index provides each trace's bounds, and if the table is not known yet.
    pub searched_around: Option<(Timestamp, Timestamp)>,
}

/// Page of traces.
#[derive(Debug)]
pub struct QueryAnswer {
    /// Binding under which the answer was made.
    pub schema: SchemaEcho,
    /// Cursor for the next page; `None` on the last.
    pub next_cursor: Option<String>,
    /// Number of traces in the page.
    pub traces: u64,
    /// The traces.
    pub body: AnswerBody,
}

/// Traces of a page, in the requested view.
#[derive(Debug)]
pub enum AnswerBody {
    /// All spans.
    Spans(SpanStream),
    /// Summaries.
    Summaries(Vec<Summary>),
    /// Trace ids.
    Ids(Vec<String>),
}

/// One trace.
#[derive(Debug)]
pub struct TraceAnswer {
    /// Binding under which the answer was made.
    pub schema: SchemaEcho,
    /// Spans of the trace.
    pub spans: SpanStream,
}

/// Returns the delay of a "not found" answer, given the time that the search took. ClickHouse is faster for an id that no
/// index contains than for a trace that it has to evaluate. Answers that are sent only after 100, 200, 400 … milliseconds do
/// not reveal the difference, unless it crosses one of these few times.
fn not_found_delay(took: Duration) -> Duration {
    const FIRST: Duration = Duration::from_millis(100);
    let mut delay = FIRST;
    while delay < took {
        delay = delay.saturating_mul(2);
    }
    delay
}

/// Completes the record of a trace that was not found, then waits. `started` is the start of the search.
pub(crate) async fn trace_not_found(mut record: OpenAuditRecord, started: Instant) -> ServiceError {
    if let Err(failure) = record.complete(Outcome::NotFound, None).await {
        return failure;
    }
    sleep_until(started + not_found_delay(started.elapsed())).await;
    ServiceError::TraceNotFound
}

/// Reads of traces.
#[derive(Clone)]
pub struct Traces {
    pub(crate) core: Arc<Core>,
}

impl Traces {
    /// Begins a query of a page of the traces that the caller may see: all checks are made here, before anything is searched,
    /// so that callers can show the progress of the search.
    ///
    /// # Errors
    /// Any in the table of the API contract except for failures of the search; in each case no span has been shown.
    pub async fn begin_query(&self, principal: &Principal, request: QueryRequest) -> Result<PendingQuery> {
        let prepare = || self.prepare(principal, &request);
        // The record exists from here on: durable before anything is searched or shown.
        let (access, plan, record) = self.core.begin_read(principal, TRACES_QUERY, None, prepare).await?;
        Ok(PendingQuery { core: Arc::clone(&self.core), access, plan, record })
    }

    /// Returns one trace by its id, in any notation ([`TraceIdNotations`]).
    ///
    /// # Errors
    /// [`ServiceError::TraceNotFound`] when it is absent, not authorised, or cannot be an id; and those of
    /// [`Self::begin_query`].
    pub async fn trace(&self, principal: &Principal, trace_id: &str) -> Result<TraceAnswer> {
        let AuthorizedTrace { access, selection, mut record } =
            self.find_trace(principal, TRACES_GET, trace_id, None).await?;
        let spans = record.check(access.store.read(&access.binding, &selection, None).await).await?;
        let omitted_columns = Some(selection.omitted_columns(&access.binding));
        let schema = SchemaEcho { omitted_columns, ..access.echo() };
        Ok(TraceAnswer { schema, spans: with_audit_record(spans, record) })
    }

    /// Finds one trace that the caller may read and records it as `action`, but does not read it. The requested columns are
    /// checked before the search.
    ///
    /// # Errors
    /// Those of [`Self::trace`], and `unknown_field` for a column.
    pub(crate) async fn find_trace(
        &self,
        principal: &Principal,
        action: &'static str,
        trace_id: &str,
        columns: Option<&[String]>,
    ) -> Result<AuthorizedTrace> {
        let (started, target) = (Instant::now(), TraceIdNotations::recorded(trace_id));
        let prepare = || async {
            let access = self.core.access(principal).await?;
            access.check_columns(columns).await?;
            let detail = access.decision_inputs.clone();
            Ok(PreparedRead { access, plan: (), detail })
        };
        let (access, (), mut record) =
            self.core.begin_read(principal, action, Some(&target), prepare).await?;
        let Some(selection) = record.check(access.find(trace_id).await).await? else {
            return Err(trace_not_found(record, started).await);
        };
        if let Some(found) = selection.trace_ids().next() {
            record.set_found_trace(found);
        }
        Ok(AuthorizedTrace { access, selection, record })
    }

    /// Makes all checks, before anything is searched.
    async fn prepare(&self, principal: &Principal, request: &QueryRequest) -> Result<PreparedRead<Plan>> {
        let limits = self.core.settings.limits;
        let limit = query_input::limit(request.limit, limits.default_limit, limits.max_limit)?;
        let access = self.core.access(principal).await?;
        let Authority { principal, model, .. } = access.authority.as_ref();
        let filter = query_input::filter(&request.filter, model, principal.is_admin(), &limits)?;
        check_order(request.order, &access.binding)?;
        let fingerprint = Fingerprint::new(&request.filter, request.order, &access.binding, principal);
        let after = request.cursor.as_ref().map(|text| self.core.cursors.open(text)).transpose()?;
        if let Some(cursor) = &after {
            cursor.check(&fingerprint)?;
        }
        let window = match &after {
            None => query_input::first_window(request.from, request.to, self.core.now())?,
            Some(cursor) => query_input::later_window(request.from, request.to, cursor.window)?,
        };
        access.check_columns(request.columns.as_deref()).await?;
        let detail = access.detail([
            ("filter", filter_detail(&request.filter)),
            ("from", json!(window.from().to_string())),
            ("to", json!(window.to().to_string())),
            ("order", json!(request.order)),
            ("limit", json!(limit)),
            ("view", json!(format!("{:?}", request.view).to_lowercase())),
            ("columns", json!(request.columns)),
            ("first_page", json!(after.is_none())),
        ]);
        let (columns, view, order) = (request.columns.clone(), request.view, request.order);
        let plan = Plan { filter, fingerprint, window, order, limit, after, columns, view };
        Ok(PreparedRead { access, plan, detail })
    }
}

/// Query that is permitted and recorded, but not run yet. If it is dropped, the record says `aborted`.
pub struct PendingQuery {
    core: Arc<Core>,
    access: Access,
    plan: Plan,
    record: OpenAuditRecord,
}

impl PendingQuery {
    /// Returns a function that gives the answer's schema while the search runs, with the data about the table that is known by
    /// then.
    pub fn schema(&self) -> impl FnOnce() -> SchemaEcho + use<> {
        let (store, schema, window) = (self.access.store.clone(), self.access.echo(), self.plan.window);
        let shows_whole_spans = self.plan.shows_whole_spans();
        move || {
            let Some(known) = store.table_properties(&schema.binding, window) else { return schema };
            let omitted_columns = shows_whole_spans.then_some(known.omitted_columns);
            SchemaEcho { omitted_columns, searched_around: known.searched_around, ..schema }
        }
    }

    /// Window that is searched.
    pub fn window(&self) -> Window {
        self.plan.window
    }

    /// Runs the search and reports its progress, if `progress` is given. Dropping the future stops the search. The cursors are
    /// for callers that may return only the first traces of the page.
    ///
    /// # Errors
    /// When the search fails; no span has been shown.
    pub async fn run(self, progress: Option<ProgressCallback>) -> Result<(QueryAnswer, PageCursors)> {
        let Self { core, access, plan, mut record } = self;
        record.set_query(&access, plan.window, &plan.filter);
        let request = SelectRequest {
            binding: &access.binding,
            scope: &access.scope,
            filter: &plan.filter,
            window: plan.window,
            order: plan.order,
            limit: plan.limit,
            after: plan.after.as_ref().map(|cursor| cursor.position.clone()),
            progress,
        };
        let selection = record.check(access.store.select(request).await).await?;
        record.returned.traces = selection.len() as u64;
        let page_cursors = record.check(PageCursors::new(core, &selection, &plan)).await?;
        let schema = SchemaEcho {
            omitted_columns: plan.shows_whole_spans().then(|| selection.omitted_columns(&access.binding)),
            searched_around: selection.searched_around(),
            ..access.echo()
        };
        let traces = record.returned.traces;
        let body = body(&access, &plan, selection, record).await?;
        let next_cursor = page_cursors.next_cursor.clone();
        Ok((QueryAnswer { schema, next_cursor, traces, body }, page_cursors))
    }
}

async fn body(
    access: &Access,
    plan: &Plan,
    selection: Selection,
    mut record: OpenAuditRecord,
) -> Result<AnswerBody> {
    let Access { store, binding, .. } = access;
    let body = match plan.view {
        View::Spans if selection.is_empty() => {
            return Ok(AnswerBody::Spans(with_audit_record(stream::empty(), record)));
        }
        View::Spans => {
            let spans = store.read(binding, &selection, plan.columns.as_deref()).await;
            return Ok(AnswerBody::Spans(with_audit_record(record.check(spans).await?, record)));
        }
        View::Summary if selection.is_empty() => AnswerBody::Summaries(Vec::new()),
        View::Summary => {
            let summaries = store.summarise(binding, &selection, &plan.filter).await;
            AnswerBody::Summaries(record.check(summaries).await?)
        }
        View::Ids => AnswerBody::Ids(selection.trace_ids().map(str::to_owned).collect()),
    };
    // These answers are sent in one piece, so the completing record can also precede the first byte.
    record.complete(Outcome::Success, None).await?;
    Ok(body)
}

/// Positions at which a page can be cut.
pub struct PageCursors {
    core: Arc<Core>,
    fingerprint: Fingerprint,
    window: Window,
    /// Positions of the page's traces.
    positions: Vec<Position>,
    next_cursor: Option<String>,
}

impl PageCursors {
    fn new(core: Arc<Core>, selection: &Selection, plan: &Plan) -> Result<Self> {
        let positions = (0..selection.len()).map_while(|index| selection.position(index).cloned()).collect();
        let (fingerprint, window) = (plan.fingerprint, plan.window);
        let mut page_cursors = Self { core, fingerprint, window, positions, next_cursor: None };
        page_cursors.next_cursor =
            selection.next().map(|position| page_cursors.seal(position)).transpose()?;
        Ok(page_cursors)
    }

    /// Returns the cursor that continues after the first `traces` traces of the page. After all of them, or more, this is the
    /// page's own `next_cursor`, `None` on the last page. For 0 it is `None` too: the client repeats the request for such a
    /// page unchanged.
    ///
    /// # Errors
    /// When the system has no randomness for the encryption.
    pub fn cursor_after(&self, traces: usize) -> Result<Option<String>> {
        if traces >= self.positions.len() {
            return Ok(self.next_cursor.clone());
        }
        let position = traces.checked_sub(1).and_then(|last| self.positions.get(last));
        position.map(|position| self.seal(position)).transpose()
    }

    fn seal(&self, position: &Position) -> Result<String> {
        let Self { core, fingerprint, window, .. } = self;
        let cursor = Cursor { fingerprint: *fingerprint, window: *window, position: position.clone() };
        core.cursors.seal(&cursor, core.entropy.as_ref())
    }
}

/// Rejects an order whose column the binding lacks: all traces would be equal.
fn check_order(order: TraceOrder, binding: &Binding) -> Result<()> {
    let display = &binding.display;
    let missing = match order {
        TraceOrder::Longest if display.duration.is_none() && display.end.is_none() => "duration or end",
        TraceOrder::MostErrors if display.status.is_none() => "status",
        _ => return Ok(()),
    };
    let detail = format!("the trace source has no {missing} column; an administrator can bind one");
    Err(ServiceError::refused("/order", "invalid_value", detail))
}

/// Trace that the caller may read, with its open audit record.
pub(crate) struct AuthorizedTrace {
    pub(crate) access: Access,
    pub(crate) selection: Selection,
    pub(crate) record: OpenAuditRecord,
}

struct Plan {
    filter: Filter,
    fingerprint: Fingerprint,
    window: Window,
    order: TraceOrder,
    limit: u32,
    after: Option<Cursor>,
    columns: Option<Vec<String>>,
    view: View,
}

impl Plan {
    /// Whether the page contains spans with all columns that a request gets without naming them.
    fn shows_whole_spans(&self) -> bool {
        self.view == View::Spans && self.columns.is_none()
    }
}

impl Access {
    /// Finds one trace by any notation of its id, if it exists and the caller may read it. Absent, forbidden and invalid ids
    /// are handled alike, so that neither the answer nor the record distinguishes them. A caller without any access learns
    /// nothing from the fact that ClickHouse is not queried.
    pub(crate) async fn find(&self, trace_id: &str) -> Result<Option<Selection>, ClickHouseError> {
        if self.scope.is_empty() {
            return Ok(None);
        }
        self.store.find(&self.binding, &self.scope, trace_id).await
    }

    /// Time range around a window within which spans of a trace are considered, as in [`SchemaEcho::searched_around`], once
    /// the table is known.
    pub(crate) fn searched_around(&self, window: Window) -> Option<(Timestamp, Timestamp)> {
        self.store.table_properties(&self.binding, window).and_then(|known| known.searched_around)
    }

    pub(crate) fn echo(&self) -> SchemaEcho {
        let (binding, version) = (self.binding.clone(), self.authority.version);
        SchemaEcho { binding, version, omitted_columns: None, searched_around: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_found_is_returned_at_fixed_times() {
        for (took, delay) in [(0, 100), (99, 100), (100, 100), (101, 200), (399, 400), (3_000, 3_200)] {
            assert_eq!(not_found_delay(Duration::from_millis(took)), Duration::from_millis(delay));
        }
    }
}
