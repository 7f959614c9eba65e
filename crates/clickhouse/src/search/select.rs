//! Selection: which traces a page holds, and whether one given trace may be read.
//!
//! A trace is in the window when one of its spans is. Policies and conditions apply to the whole trace, within its bounds in
//! the trace index, or else within `max_trace_duration` around the window. The planner decides how the traces are found.

#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use futures::future::{Either, select};
use tokio::sync::OnceCell;
use tokio::time::{Duration, Instant};
use tracewarden_model::{Binding, MarkedField, Timestamp, TraceIdNotations, Window};
use tracewarden_policy::{AccessScope, Predicate};

use crate::client::{Client, Cost};
use crate::schema::{BoundTable, Column, DisplayExpressions, Tables, TraceIndex, omitted_columns};
use crate::search::plan::{NO_FILTER, PlannerOptions, RequiredPredicates, Search, window_with_margin};
use crate::search::selection::SelectedTrace;
use crate::{
    ClickHouse, ClickHouseError, ProgressCallback, Result, SelectRequest, Selection, TableProperties,
    TraceOrder,
};

/// Maximum attempts to get all answers from one endpoint, after the first one.
const MAX_ATTEMPTS: usize = 3;

/// Whether the tables given to an attempt are confirmed for the endpoint that answers it.
#[derive(Clone)]
pub(crate) struct Confirmation {
    is_confirmed: Arc<AtomicBool>,
    client: Client,
    endpoint_switches: usize,
}

impl Confirmation {
    fn new(client: &Client, is_confirmed: bool) -> Self {
        let endpoint_switches = client.endpoint_switches().max(1);
        Self { is_confirmed: Arc::new(is_confirmed.into()), client: client.clone(), endpoint_switches }
    }

    fn is_same_endpoint(&self) -> bool {
        self.client.endpoint_switches() <= self.endpoint_switches
    }

    /// Reports progress only after the tables are confirmed: the number of traces found is information about spans, too.
    fn confirmed(self, progress: ProgressCallback) -> ProgressCallback {
        Arc::new(move |report| {
            if self.is_confirmed.load(Ordering::Acquire) && self.is_same_endpoint() {
                progress(report);
            }
        })
    }
}

impl ClickHouse {
    pub(crate) async fn bound_table(&self, binding: &Binding) -> Result<BoundTable> {
        let columns = self.catalogue().columns(&binding.database, &binding.table).await?;
        BoundTable::new(binding, columns)
    }

    /// Sends statements that depend on the tables of a binding; see [`Self::with_schema`].
    pub(crate) async fn with_tables<Found, A: Future<Output = Result<Found>>>(
        &self,
        binding: &Binding,
        attempt: impl Fn(Tables, Confirmation) -> A,
    ) -> Result<Found> {
        self.with_schema(self.cached_schema.get(binding), || self.bound_tables(binding), attempt).await
    }

    /// Sends statements that depend on a description of tables, until one endpoint answers all of them: another one may have
    /// other columns. Every request reads the description, since policies depend on it. The statements do not wait for that if
    /// it is cached, but this function returns nothing that was found before it has [confirmed](Confirmation) the description.
    /// [`ClickHouseError::IncompleteResponse`] when the endpoint changes with every attempt.
    async fn with_schema<Schema: Clone + PartialEq, Found, R, A>(
        &self,
        mut cached: Option<Schema>,
        read: impl Fn() -> R,
        attempt: impl Fn(Schema, Confirmation) -> A,
    ) -> Result<Found>
    where
        R: Future<Output = Result<Schema>>,
        A: Future<Output = Result<Found>>,
    {
        for _ in 0..=MAX_ATTEMPTS {
            let (schema, is_current) = match cached.take() {
                Some(cached) => (cached, false),
                None => (read().await?, true),
            };
            let confirmation = Confirmation::new(&self.client, is_current);
            let finding = pin!(attempt(schema.clone(), confirmation.clone()));
            let found = if is_current {
                finding.await
            } else {
                match select(pin!(read()), finding).await {
                    Either::Left((current, finding)) => {
                        if current? != schema || !confirmation.is_same_endpoint() {
                            continue;
                        }
                        confirmation.is_confirmed.store(true, Ordering::Release);
                        finding.await
                    }
                    Either::Right((found, current)) => match current.await? == schema {
                        true => found,
                        false => continue,
                    },
                }
            };
            if confirmation.is_same_endpoint() {
                return found;
            }
        }
        Err(ClickHouseError::incomplete("the endpoint changed with every attempt"))
    }

    /// Selects the traces of a page: those in the window that the access scope allows and that match every condition.
    ///
    /// # Errors
    /// When ClickHouse fails. There is no partial selection.
    pub async fn select(&self, request: SelectRequest<'_>) -> Result<Selection> {
        self.with_tables(request.binding, |tables, confirmation| {
            let progress = request.progress.clone().map(|progress| confirmation.confirmed(progress));
            self.search(&request, tables, progress)
        })
        .await
    }

    /// Reads the current tables of a binding, and caches them for later requests, which still confirm them. If the trace
    /// index was dropped or replaced by another table, it is not used.
    pub(crate) async fn bound_tables(&self, binding: &Binding) -> Result<Tables> {
        let tables = self.read_tables(binding).await?;
        self.cached_schema.set(binding, &tables);
        Ok(tables)
    }

    /// Reads the current tables of a binding, which need not be in force, and does not cache them.
    pub(crate) async fn read_tables(&self, binding: &Binding) -> Result<Tables> {
        let (columns, index) = match &binding.trace_index {
            None => (self.catalogue().columns(&binding.database, &binding.table).await?, None),
            Some(name) => {
                let [columns, index] =
                    self.catalogue().columns_of(&binding.database, [&binding.table, name]).await?;
                (columns, TraceIndex::from_columns(&index, &binding.database, name))
            }
        };
        Ok(Tables { columns: columns.into(), index })
    }

    async fn search(
        &self,
        request: &SelectRequest<'_>,
        tables: Tables,
        progress: Option<ProgressCallback>,
    ) -> Result<Selection> {
        // Before the check of the scope, so that a missing table is the same error for every user.
        let table = Arc::new(BoundTable::new(request.binding, tables.columns.to_vec())?);
        let searched_around = self.searched_around(request.window, &tables);
        let (traces, positions) = (Vec::new(), Vec::new());
        let mut selection =
            Selection { traces, table, positions, has_more: false, searched_around, endpoint: None };
        if request.scope.is_empty() {
            return Ok(selection);
        }
        let table = &selection.table;
        let mut search = self.prepare(request, table, tables.index, PlannerOptions::default())?;
        search.progress = progress;
        let found = match request.order {
            TraceOrder::Newest => search.run(None).await?,
            order => {
                let display = DisplayExpressions::new(table, &request.binding.display);
                search.run_sorted(order, &display).await?
            }
        };
        let limit = request.limit as usize;
        selection.has_more = found.len() > limit;
        let chosen = found.into_iter().take(limit).map(|found| {
            let id = found.position.trace_id.clone();
            (SelectedTrace { id, spans: found.spans }, found.position)
        });
        (selection.traces, selection.positions) = chosen.unzip();
        selection.endpoint = self.client.session_endpoint();
        Ok(selection)
    }

    /// Returns the time range of spans that count, where only the window bounds it.
    fn searched_around(&self, window: Window, tables: &Tables) -> Option<(Timestamp, Timestamp)> {
        let bounded = window_with_margin(window, self.config.max_trace_duration_nanos);
        bounded.filter(|_| tables.index.is_none())
    }

    /// Returns the table's properties before a search is complete, as the last request found them: names of omitted columns,
    /// and the time range of spans that count. `None` when no request has read the table yet.
    pub fn table_properties(&self, binding: &Binding, window: Window) -> Option<TableProperties> {
        let tables = self.cached_schema.get(binding)?;
        let omitted_columns = omitted_columns(binding, tables.columns.iter());
        Some(TableProperties { omitted_columns, searched_around: self.searched_around(window, &tables) })
    }

    /// Prepares a search of a table, with this trace index.
    pub(crate) fn prepare<'a>(
        &'a self,
        request: &SelectRequest<'a>,
        table: &'a BoundTable,
        index: Option<TraceIndex>,
        options: PlannerOptions,
    ) -> Result<Search<'a>> {
        let required_predicates = RequiredPredicates::new(request.scope, request.filter, table)?;
        let mut search = self.search_for(required_predicates, request.window, request.limit, table, index);
        search.after.clone_from(&request.after);
        search.progress.clone_from(&request.progress);
        search.options = options;
        Ok(search)
    }

    /// Prepares a search for the first traces of a window, without a position.
    pub(crate) fn search_for<'a>(
        &'a self,
        required_predicates: RequiredPredicates<'a>,
        window: Window,
        limit: u32,
        table: &'a BoundTable,
        index: Option<TraceIndex>,
    ) -> Search<'a> {
        let seconds = u64::from(self.config.max_execution_time_seconds);
        Search {
            store: self,
            table,
            required_predicates,
            window,
            wanted: (limit as usize).saturating_add(1),
            after: None,
            default_range: window_with_margin(window, self.config.max_trace_duration_nanos),
            index,
            options: PlannerOptions::default(),
            deadline: Instant::now() + Duration::from_secs(seconds),
            statements_sent: AtomicUsize::new(0),
            long_traces: OnceCell::new(),
            shape: OnceLock::new(),
            progress: None,
        }
    }

    /// Returns the cost of finding the first page of traces that any of these predicates grants access to, as
    /// [`Self::select`] does for a scope: it runs the search, and returns nothing that was found. `referenced_fields` are the fields
    /// of the policies behind the predicates, even if the predicates no longer refer to them.
    ///
    /// # Errors
    /// When ClickHouse fails, or it takes longer than `timeout`.
    pub async fn search_cost(
        &self,
        binding: &Binding,
        predicates: &[Predicate],
        referenced_fields: &[Arc<MarkedField>],
        window: Window,
        limit: u32,
        timeout: Duration,
    ) -> Result<Cost> {
        // Costs are compared, and must not depend on earlier searches.
        let store = Self { search_history: Arc::default(), ..self.metered() };
        let any = Predicate::any(predicates.iter().cloned());
        let tables = store.bound_tables(binding).await?;
        let table = BoundTable::new(binding, tables.columns.to_vec())?;
        let required_predicates = RequiredPredicates::unscoped(&any, referenced_fields, &table)?;
        if any != Predicate::False {
            let mut search = store.search_for(required_predicates, window, limit, &table, tables.index);
            search.deadline = search.deadline.min(Instant::now() + timeout);
            let late = || ClickHouseError::Timeout("the search exceeds its time limit".to_owned());
            tokio::time::timeout_at(search.deadline, search.run(None)).await.map_err(|_| late())??;
        }
        Ok(store.cost())
    }

    /// Finds one trace by its id, in any of its [notations](TraceIdNotations); `None` when it does not exist or the scope
    /// does not grant access to it. All its spans count, however far apart they are. Of several accessible traces, it returns
    /// the one whose id is written like `trace_id`, or else the first in the order of notations.
    ///
    /// # Errors
    /// When ClickHouse fails.
    pub async fn find(
        &self,
        binding: &Binding,
        scope: &AccessScope,
        trace_id: &str,
    ) -> Result<Option<Selection>> {
        // Spans without a trace cannot be read as one trace.
        let notations = TraceIdNotations::of(trace_id);
        if notations.ids().is_empty() {
            return Ok(None);
        }
        // The trace index, which may be on other servers, is not needed.
        let cached = self.cached_schema.get(binding).map(|tables| tables.columns.to_vec());
        let read = || async { self.catalogue().columns(&binding.database, &binding.table).await };
        self.with_schema(cached, read, |columns, _| self.find_in(binding, columns, scope, &notations)).await
    }

    async fn find_in(
        &self,
        binding: &Binding,
        columns: Vec<Column>,
        scope: &AccessScope,
        notations: &TraceIdNotations,
    ) -> Result<Option<Selection>> {
        let table = Arc::new(BoundTable::new(binding, columns)?);
        let mut statement = table.statement();
        let required_predicates = RequiredPredicates::new(scope, &NO_FILTER, &table)?;
        let having = required_predicates.having_clause(&required_predicates.all(), &mut statement)?;
        // All notations in one statement, and no row for an inaccessible trace: it takes as long as a trace that does not
        // exist.
        let is_wanted = table.trace_id.is_one_of(notations.ids(), &mut statement);
        let spans = table.spans(&is_wanted, &mut statement);
        let trace = statement.alias("trace");
        statement.filters_by_trace_id = true;
        statement.push(&format!(
            "SELECT {id} AS {trace}, count() FROM {spans} GROUP BY {trace} HAVING {having}",
            id = table.trace_id.text,
        ));
        let mut rows: Vec<(String, u64)> = self.client.rows(statement).await?;
        let Some(index) = notations.best(rows.iter().map(|(id, _)| id.as_str())) else { return Ok(None) };
        let (id, spans) = rows.swap_remove(index);
        let (traces, endpoint) = (vec![SelectedTrace { id, spans }], self.client.session_endpoint());
        let positions = Vec::new();
        Ok(Some(Selection { traces, table, positions, has_more: false, searched_around: None, endpoint }))
    }
}
