//! Selection: which traces a page holds.
//!
//! One grouped pass over the spans that the decision may look at. A trace is in the window when a span of it is;
//! policies and conditions look at the whole trace, as far as the trace index says it reaches, or else as far as
//! `max_trace_duration` around the window.

use std::sync::Arc;

use tracewarden_model::{Binding, ColumnType, Filter, Timestamp, Window};
use tracewarden_policy::{AccessScope, Predicate, lower_condition};

use crate::sql::{Statement, quote, quote_table};
use crate::table::{BoundTable, Column};
use crate::{OnProgress, StoreError, TraceStore};

/// Which traces are asked for.
pub struct SelectRequest<'a> {
    /// The bound table.
    pub binding: &'a Binding,
    /// What the caller may see.
    pub scope: &'a AccessScope,
    /// What the caller looks for.
    pub filter: &'a Filter,
    /// When.
    pub window: Window,
    /// How many traces at most.
    pub limit: u32,
    /// Where the page before ended.
    pub after: Option<Position>,
    /// Whom to tell how far the search has come.
    pub progress: Option<OnProgress>,
}

/// A place in the order of traces: everything that the order looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// 1 for traces with a match inside the window, 0 for those that follow.
    pub tier: u8,
    /// The time that the trace is ordered by, in the timestamp column's own precision.
    pub key: i64,
    /// The trace id.
    pub trace_id: String,
}

/// Chosen traces. Only this crate makes one, from an [`AccessScope`].
#[derive(Debug, Clone)]
pub struct Selection {
    pub(crate) traces: Vec<SelectedTrace>,
    /// The table as it was when they were chosen.
    pub(crate) table: Arc<BoundTable>,
    next: Option<Position>,
}

/// A chosen trace.
#[derive(Debug, Clone)]
pub(crate) struct SelectedTrace {
    pub(crate) id: String,
    /// Spans counted while deciding; reading must deliver at least these.
    pub(crate) spans: u64,
}

impl Selection {
    /// Ids of the traces, in order.
    pub fn trace_ids(&self) -> impl Iterator<Item = &str> {
        self.traces.iter().map(|trace| trace.id.as_str())
    }

    /// How many traces.
    pub fn len(&self) -> usize {
        self.traces.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.traces.is_empty()
    }

    /// Spans counted while deciding; there may be more.
    pub fn span_count(&self) -> u64 {
        self.traces.iter().map(|trace| trace.spans).fold(0, u64::saturating_add)
    }

    /// Where the next page begins; `None` when this is the last.
    pub fn next(&self) -> Option<&Position> {
        self.next.as_ref()
    }
}

/// How far selection looks at each trace.
pub(crate) struct Reach {
    /// What the pass scans, at least the window; `None` for the whole table.
    pub(crate) scan: Option<(Timestamp, Timestamp)>,
    /// The bounds of traces without an entry in the index; `None` for the whole table.
    pub(crate) default: Option<(Timestamp, Timestamp)>,
    /// The trace index's quoted name, and its unit.
    pub(crate) index: Option<String>,
}

impl TraceStore {
    pub(crate) async fn bound_table(&self, binding: &Binding) -> Result<BoundTable, StoreError> {
        let columns = self.columns(&binding.database, &binding.table).await?;
        BoundTable::new(binding, columns)
    }

    /// Chooses the traces of a page: those in the window that the scope opens and that match every condition.
    ///
    /// # Errors
    /// When the store fails. There is no partial selection.
    pub async fn select(&self, request: SelectRequest<'_>) -> Result<Selection, StoreError> {
        // Before the scope is looked at, so that a table that is gone is the same error for everyone.
        let table = Arc::new(self.bound_table(request.binding).await?);
        if request.scope.opens_nothing() {
            return Ok(Selection { traces: Vec::new(), table, next: None });
        }
        let reach = self.reach(&request, &table).await?;
        let statement = select_statement(&request, &table, &reach)?;
        let mut rows: Vec<(String, u8, i64, u64)> = self.client.rows(statement).await?;
        let limit = request.limit as usize;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|(id, tier, key, _)| Position {
            tier: *tier,
            key: *key,
            trace_id: id.clone(),
        });
        let traces = rows.into_iter().map(|(id, _, _, spans)| SelectedTrace { id, spans }).collect();
        Ok(Selection { traces, table, next })
    }

    /// One trace by its id; `None` when it is absent or the scope does not open it. All its spans count, however far
    /// apart they are.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find(
        &self,
        binding: &Binding,
        scope: &AccessScope,
        trace_id: &str,
    ) -> Result<Option<Selection>, StoreError> {
        // What belongs to no trace cannot be fetched as one.
        if trace_id.bytes().all(|byte| byte == b'0') {
            return Ok(None);
        }
        let table = Arc::new(self.bound_table(binding).await?);
        let mut statement = table.statement();
        let opening = Opening::new(scope, &table, &mut statement)?;
        let id = statement.string(trace_id);
        statement.push(&format!(
            "SELECT count(), {opened} FROM {} WHERE {} = {id}",
            table.name,
            table.trace_id_column,
            opened = opening.opened(),
        ));
        let rows: Vec<(u64, u8)> = self.client.rows(statement).await?;
        match rows.as_slice() {
            [(spans, 1)] if *spans > 0 => {
                let trace = SelectedTrace { id: trace_id.to_owned(), spans: *spans };
                Ok(Some(Selection { traces: vec![trace], table, next: None }))
            }
            [_] => Ok(None),
            _ => Err(StoreError::Short("a count is missing".to_owned())),
        }
    }

    async fn reach(&self, request: &SelectRequest<'_>, table: &BoundTable) -> Result<Reach, StoreError> {
        let window = request.window;
        let default = self
            .config
            .max_trace_duration_nanos
            .map(|nanos| (window.from().saturating_sub(nanos), window.to().saturating_add(nanos)));
        let Some(name) = &request.binding.trace_index else {
            return Ok(Reach { scan: default, default, index: None });
        };
        let columns = self.columns(&request.binding.database, name).await?;
        if !is_trace_index(&columns) {
            // It was dropped, or is something else now: nothing may depend on it.
            return Ok(Reach { scan: default, default, index: None });
        }
        let index = quote_table(&request.binding.database, name);
        let mut statement = Statement::default();
        let (from, to) = (statement.time(window.from()), statement.time(window.to()));
        statement.push(&format!(
            "SELECT count(), toInt64(toUnixTimestamp(min(`Start`))), toInt64(toUnixTimestamp(max(`End`))) FROM {index} \
             WHERE `TraceId` GLOBAL IN (SELECT {} FROM {} WHERE {})",
            table.trace_id,
            table.name,
            table.within(&from, &to)
        ));
        let rows: Vec<(u64, i64, i64)> = self.client.rows(statement).await?;
        let scan = match (default, rows.as_slice()) {
            (None, _) => None,
            (Some((low, high)), [(count, start, end)]) if *count > 0 => {
                let start = Timestamp::from_nanos(start.saturating_mul(1_000_000_000));
                // The index holds whole seconds, rounded down.
                let end = Timestamp::from_nanos(end.saturating_add(2).saturating_mul(1_000_000_000));
                Some((low.min(start), high.max(end)))
            }
            (default, _) => default,
        };
        Ok(Reach { scan, default, index: Some(index) })
    }
}

/// An access scope as SQL.
struct Opening {
    /// Of a span: whether it satisfies a policy.
    granted: String,
    /// Of a span: whether it satisfies the restriction, if there is one.
    within: Option<String>,
}

impl Opening {
    fn new(scope: &AccessScope, table: &BoundTable, statement: &mut Statement) -> Result<Self, StoreError> {
        table.check_fields(scope.rests_on().iter().map(AsRef::as_ref))?;
        let granted = table.condition(scope.predicate(), statement)?;
        let within = scope.restriction().map(|restriction| table.condition(restriction, statement));
        Ok(Self { granted, within: within.transpose()? })
    }

    /// Of a group of spans: whether the trace that they make up is open. The one form of this decision.
    fn opened(&self) -> String {
        let granted = format!("countIf({}) > 0", self.granted);
        match &self.within {
            None => granted,
            Some(within) => format!("({granted} AND countIf({within}) > 0)"),
        }
    }
}

/// Whether a table has the columns of the OpenTelemetry exporter's trace index.
pub(crate) fn is_trace_index(columns: &[Column]) -> bool {
    let has = |name: &str, fits: fn(&ColumnType) -> bool| {
        columns.iter().any(|column| column.name == name && fits(column.column_type.bare()))
    };
    let time = |column_type: &ColumnType| {
        matches!(column_type, ColumnType::DateTime | ColumnType::DateTime64 { .. })
    };
    has("TraceId", |column_type| column_type.is_string()) && has("Start", time) && has("End", time)
}

pub(crate) fn select_statement(
    request: &SelectRequest<'_>,
    table: &BoundTable,
    reach: &Reach,
) -> Result<Statement, StoreError> {
    let mut statement = table.statement();
    let opening = Opening::new(request.scope, table, &mut statement)?;
    table.check_fields(request.filter.conditions.iter().map(|condition| &condition.field))?;
    let conditions: Vec<Predicate> = request.filter.conditions.iter().map(lower_condition).collect();
    let matches = conditions
        .iter()
        .map(|condition| table.condition(condition, &mut statement))
        .collect::<Result<Vec<_>, _>>()?;
    // Newest match of any condition; without conditions, the newest span that grants access.
    let any_match = if matches.is_empty() {
        opening.granted.clone()
    } else {
        table.condition(&Predicate::any(conditions), &mut statement)?
    };
    let (from, to) = (statement.time(request.window.from()), statement.time(request.window.to()));
    let inside = table.within(&from, &to);
    let scan = match reach.scan {
        None => "1".to_owned(),
        Some((low, high)) => {
            let (low, high) = (statement.time(low), statement.time(high));
            table.within(&low, &high)
        }
    };
    let ticks = &table.ticks;

    let [trace, tier, position, bounds, indexed, start, end] =
        ["trace", "tier", "position", "bounds", "indexed", "start", "end"].map(|name| statement.own(name));
    let mut text = format!(
        "SELECT {id} AS {trace}, countIf({inside} AND {any_match}) > 0 AS {tier}, \
         if({tier} = 1, maxIf({ticks}, {inside} AND {any_match}), maxIf({ticks}, {inside})) AS {position}, count() \
         FROM {name}",
        id = table.trace_id,
        name = table.name,
    );
    if let Some(index) = &reach.index {
        // With join_use_nulls = 0, a trace without an entry has an empty id here.
        text.push_str(&format!(
            " GLOBAL LEFT ANY JOIN (SELECT `TraceId` AS {indexed}, min(`Start`) AS {start}, max(`End`) AS {end} \
             FROM {index} WHERE `TraceId` GLOBAL IN (SELECT {id} FROM {name} WHERE {inside}) GROUP BY `TraceId`) AS {bounds} \
             ON {id} = {bounds}.{indexed}",
            id = table.trace_id,
            name = table.name,
        ));
    }
    text.push_str(&format!(" WHERE {scan}"));
    if reach.index.is_some() {
        let unindexed = match reach.default {
            None => "1".to_owned(),
            Some((low, high)) => {
                let (low, high) = (statement.time(low), statement.time(high));
                table.within(&low, &high)
            }
        };
        let timestamp = &table.timestamp;
        text.push_str(&format!(
            " AND if({bounds}.{indexed} = '', {unindexed}, {timestamp} >= {bounds}.{start} \
             AND {timestamp} < {bounds}.{end} + INTERVAL 1 SECOND)"
        ));
    }
    text.push_str(&format!(" GROUP BY {trace} HAVING NOT match({trace}, '^0*$') AND isValidUTF8({trace})"));
    text.push_str(&format!(" AND countIf({inside}) > 0 AND {}", opening.opened()));
    for matched in &matches {
        text.push_str(&format!(" AND countIf({matched}) > 0"));
    }
    if let Some(after) = &request.after {
        let (last, key) = (after.tier.min(1), statement.int(after.key));
        let id = statement.string(&after.trace_id);
        text.push_str(&format!(
            " AND ({tier} < {last} OR ({tier} = {last} AND ({position} < {key} OR ({position} = {key} AND {trace} > {id}))))"
        ));
    }
    text.push_str(&format!(
        " ORDER BY {tier} DESC, {position} DESC, {trace} ASC LIMIT {}",
        u64::from(request.limit) + 1
    ));
    statement.push(&text);
    Ok(statement)
}

/// Ids as a list of parameters.
pub(crate) fn id_list(ids: &[SelectedTrace], statement: &mut Statement) -> String {
    ids.iter().map(|trace| statement.string(&trace.id)).collect::<Vec<_>>().join(", ")
}

/// A column's quoted name, if the table still has it.
pub(crate) fn known_column<'a>(table: &'a BoundTable, name: Option<&str>) -> Option<(&'a Column, String)> {
    let column = table.columns.iter().find(|column| Some(column.name.as_str()) == name)?;
    Some((column, quote(&column.name)))
}
