//! One statement over the window and its margins, `max_trace_duration` before and after it. It reads what steps have not read, or the
//! traces that satisfy given predicates. With the margins it sees the spans outside of the window of traces that cross its edges.

use futures::future::{OptionFuture, join};
use tracewarden_model::Timestamp;

use super::candidates::{Candidate, CandidateColumns, Candidates};
use super::grouping::{GROUPING_STATEMENTS, fill_by_grouping};
use super::long_traces::long_traces;
use super::page::{Page, rank};
use super::required_predicates::RequiredPredicate;
use super::resolve::{RESOLVE_STATEMENTS, Resolution, resolve_candidates};
use super::search::Search;
use super::trace_id::with_valid_trace_id;
use crate::Result;
use crate::schema::WindowShare;
use crate::search::selection::Position;
use crate::sql::Statement;

/// Statements that a pass needs if its `LIMIT` is not reached: itself, the long traces unless they are read, and resolving the candidates.
/// One more for unusable entries is sent only if it is left.
pub(crate) fn filtered_pass_statements(search: &Search<'_>) -> usize {
    1 + usize::from(!search.long_traces.initialized()) + RESOLVE_STATEMENTS
}

/// Message of the exception that ends a pass whose rarest predicate has too many traces.
const NOT_RARE: &str = "tracewarden: not a rare predicate";

/// What a pass reads.
#[derive(Debug, Default)]
pub(crate) struct PassOptions {
    /// Only traces that satisfy all of these are read. The first one is rare and is searched first, each further one among the
    /// traces found so far. If empty, spans that satisfy any predicate are read.
    pub(crate) trace_filters: Vec<RequiredPredicate>,
    /// Whether the first filter is expected to be rare because it was in another search, without an estimate.
    pub(crate) is_unestimated: bool,
    /// This page and the earlier ones are complete up to this position.
    pub(crate) after: Option<Position>,
    /// Whether the pass first selects traces by the [`filter_groups`].
    pub(crate) selects_traces: bool,
    /// Start of the range that steps have read, in nanoseconds; it ends at `after`, or at the end of the window.
    pub(crate) steps_read_from: Option<i64>,
}

/// Fills the page with traces after a position. `candidates` are those of the steps before it. Returns `false` and leaves the page
/// unchanged if too many traces satisfy the first filter.
pub(crate) async fn fill_by_filtered_pass(
    search: &Search<'_>,
    options: &PassOptions,
    mut candidates: Candidates,
    window_share: WindowShare,
    page: &mut Page,
) -> Result<bool> {
    let known: Vec<String> = candidates.traces().cloned().collect();
    let pass = search.rows::<Candidate>(filtered_pass_statement(search, options, &known)?);
    // If the pass ends itself, steps need the statement, unless there was no estimate.
    let may_end = !options.trace_filters.is_empty() && search.required_predicates.only().is_none();
    let concurrently = !may_end || options.is_unestimated;
    let long = OptionFuture::from(concurrently.then(|| long_traces(search, window_share)));
    let (rows, long) = join(pass, long).await;
    let rows = match rows {
        Err(error) if error.is_throw_if(NOT_RARE) => {
            let history = &search.store.search_history;
            history.rare_traces.insert(search.shape(), None);
            if let Some(first) = options.trace_filters.first()
                && !options.is_unestimated
            {
                let hash = search.required_predicates.hash(*first);
                history.frequent_predicates.insert(hash, search.window_length());
            }
            return Ok(false);
        }
        rows => rows?,
    };
    let long = match long {
        Some(long) => long?,
        None => long_traces(search, window_share).await?,
    };
    let limit_reached = rows.len() >= max_rows(search, &known);
    let last = rows.last().filter(|_| limit_reached).map(Candidate::position);
    candidates.merge(rows);
    // Twice as many as wanted fill the page, except when the index lacks spans of their traces.
    let enough = search.wanted.saturating_mul(2);
    let is_enough =
        candidates.provisional_matches(search) > enough && !search.required_predicates.has_exclusions();
    let can_group = search.statements_left() >= RESOLVE_STATEMENTS.saturating_add(GROUPING_STATEMENTS);
    let range = search.default_range.filter(|_| !limit_reached || can_group);
    let (Some((low, high)), Some(long)) = (range, long) else {
        fill_by_grouping(search, options.after.as_ref(), page).await?;
        return Ok(true);
    };
    // If rows are missing, no candidate can be rejected: a missing row may hold what it lacks.
    let read = if limit_reached { (0, 0) } else { (low.as_nanos(), high.as_nanos()) };
    let enough = if is_enough && can_group { enough } else { usize::MAX };
    let sorted = candidates.into_sorted();
    let rest = match (resolve_candidates(search, &sorted, read, enough, &long, page).await?, last) {
        (Resolution::Undecided, _) => options.after.clone(),
        (Resolution::UpTo(position), Some(Some(last))) => Some(std::cmp::min_by_key(position, last, rank)),
        (Resolution::UpTo(position), _) => Some(position),
        (Resolution::Complete, Some(last)) => Some(last.unwrap_or_else(Position::last_of_window)),
        (Resolution::Complete, None) => {
            search.report_progress(search.window.from().as_nanos(), page.len());
            return Ok(true);
        }
    };
    if rest.as_ref().is_none_or(|rest| page.count_up_to(rest) < search.wanted) {
        fill_by_grouping(search, rest.as_ref(), page).await?;
    }
    Ok(true)
}

/// `LIMIT` of a pass. Unless it is reached, all known traces are returned.
fn max_rows(search: &Search<'_>, known: &[String]) -> usize {
    search.max_candidates().saturating_add(known.len())
}

/// Writes the statement of a pass.
pub(crate) fn filtered_pass_statement(
    search: &Search<'_>,
    options: &PassOptions,
    known: &[String],
) -> Result<Statement> {
    let (table, predicates) = (search.table, &search.required_predicates);
    let mut statement = table.statement().evaluated_per_row();
    let (id, ticks) = (&table.trace_id.text, &table.ticks);
    let inside = search.window_condition(&mut statement);
    let key = predicates.key(&mut statement)?;
    let is_after = options.after.as_ref().map(|after| {
        let (key, after) = (statement.int(after.key), statement.string(&after.trace_id));
        format!("({ticks} < {key} OR ({ticks} = {key} AND {id} > {after}))")
    });
    let order_key =
        format!("maxOrNullIf({ticks}, {inside} AND {key} AND {})", is_after.as_deref().unwrap_or("1"));
    let candidate = CandidateColumns::new(search, &order_key, &mut statement)?;
    let range = unread_range(search, options, is_after.as_deref(), &mut statement);
    let limit = max_rows(search, known);
    let known = (!known.is_empty()).then(|| statement.string_array(known));
    let condition = pass_condition(search, options, &range, known.as_deref(), &mut statement)?;
    let spans = table.spans(&condition, &mut statement);
    let (trace, order_key) = (&candidate.trace, &candidate.order_key);
    // `order_key` is NULL for a trace of an earlier page, too. It is returned only with an ordering span in the margins, since it may
    // sort after all matches. Without required predicates every span is an ordering span, and no trace does.
    let mut is_found = match predicates.all().as_slice() {
        [] => format!("{order_key} IS NOT NULL"),
        _ => format!(
            "{} AND ({order_key} IS NOT NULL OR countIf(NOT {inside} AND {key}) > 0)",
            candidate.satisfies_all(search)
        ),
    };
    if let Some(known) = &known {
        is_found = format!("({is_found} OR {trace} IN {known})");
    }
    statement.push(&format!(
        "SELECT {columns} FROM {spans} GROUP BY {trace} HAVING {is_found} ORDER BY {order_key} DESC, {trace} ASC LIMIT {limit}",
        columns = candidate.columns,
        is_found = with_valid_trace_id(trace, &is_found),
    ));
    Ok(statement)
}

/// SQL: whether a span is in the window or its margins, and was not read by steps.
fn unread_range(
    search: &Search<'_>,
    options: &PassOptions,
    is_after: Option<&str>,
    statement: &mut Statement,
) -> String {
    let (Some(bottom), Some((low, high))) = (options.steps_read_from, search.default_range) else {
        return search.range(search.default_range, statement);
    };
    let before = search.range(Some((low, Timestamp::from_nanos(bottom))), statement);
    let top = options.after.as_ref().map_or(i64::MAX, |after| search.nanos(after.key));
    let top = Timestamp::from_nanos(top.min(search.window.to().as_nanos()));
    let above = search.range(Some((top, high)), statement);
    match is_after {
        None => format!("({before} OR {above})"),
        Some(is_after) => format!("({before} OR ({above} AND NOT {is_after}))"),
    }
}

/// SQL: which spans of a range a pass reads.
fn pass_condition(
    search: &Search<'_>,
    options: &PassOptions,
    range: &str,
    known: Option<&str>,
    statement: &mut Statement,
) -> Result<String> {
    let (table, predicates) = (search.table, &search.required_predicates);
    let filter = |predicate, statement: &mut Statement| {
        statement.filtering_rows(|statement| predicates.span_condition(predicate, statement))
    };
    if let Some(only) = predicates.only() {
        return Ok(format!("{range} AND {}", filter(only, statement)?));
    }
    if options.trace_filters.is_empty() {
        let of_filter = match options.selects_traces {
            true => trace_filter_condition(search, range, known, statement)?,
            false => String::new(),
        };
        return Ok(format!("{range} AND {}{of_filter}", predicates.satisfies_any(statement)?));
    }
    // `EXPLAIN` estimates granules, not traces: a predicate that follows the sorting key fills the few granules that it selects. So
    // `throwIf` limits the traces of the first one.
    let (id, mut traces) = (&table.trace_id.column, String::new());
    let most = match options.is_unestimated {
        true => search.max_rare_matches().min(search.options.max_rare_traces),
        false => search.options.max_rare_traces,
    };
    for predicate in &options.trace_filters {
        let of_predicate = filter(*predicate, statement)?;
        let spans = table.spans(&format!("{range} AND {of_predicate}{traces}"), statement);
        let ids = match traces.is_empty() {
            true => format!(
                "SELECT {id} FROM (SELECT DISTINCT {id} FROM {spans} LIMIT {}) \
                 WHERE throwIf(rowNumberInAllBlocks() >= {most}, '{NOT_RARE}') = 0",
                most.saturating_add(1)
            ),
            false => format!("SELECT {id} FROM {spans}"),
        };
        traces = format!(" AND {id} GLOBAL IN ({ids})");
    }
    Ok(format!("{range}{traces}"))
}

/// Returns the predicates of the filter, by which a pass with few matches selects traces, if something else is required: policies often
/// match most spans, and grouping all of them costs more than a set of a few traces. Empty with `FINAL`: ClickHouse merges rows at each
/// read, and the set would read the range a second time.
pub(crate) fn filter_groups(search: &Search<'_>) -> Vec<RequiredPredicate> {
    let mut groups = search.required_predicates.all();
    let all = groups.len();
    groups.retain(|predicate| matches!(predicate, RequiredPredicate::Group(_)));
    if groups.len() == all || search.table.is_final { Vec::new() } else { groups }
}

/// SQL, beginning with ` AND`: whether the trace of a span is known, or satisfies the [`filter_groups`] by spans in `range`. Empty
/// without any.
fn trace_filter_condition(
    search: &Search<'_>,
    range: &str,
    known: Option<&str>,
    statement: &mut Statement,
) -> Result<String> {
    let (table, predicates) = (search.table, &search.required_predicates);
    let id = &table.trace_id.column;
    let (condition, having) = match filter_groups(search).as_slice() {
        [] => return Ok(String::new()),
        [_] => (statement.filtering_rows(|statement| predicates.key(statement))?, String::new()),
        groups => {
            let having = predicates.having_clause(groups, statement)?;
            (predicates.key(statement)?, format!(" GROUP BY {id} HAVING {having}"))
        }
    };
    let spans = table.spans(&format!("{range} AND {condition}"), statement);
    let known = known.map_or_else(String::new, |known| format!(" OR {} IN {known}", table.trace_id.text));
    Ok(format!(" AND ({id} GLOBAL IN (SELECT {id} FROM {spans}{having}){known})"))
}
