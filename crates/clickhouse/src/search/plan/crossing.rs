//! Traces that cross a window boundary. Spans outside the window can decide whether they match. Traces whose ordering spans
//! all lie outside the window sort last.

use tracewarden_model::Timestamp;

use super::grouping::{fill_by_grouping, matching_traces};
use super::page::Page;
use super::resolve::{DecidedTraces, RESOLVE_STATEMENTS, resolve_candidates};
use super::search::Search;
use super::trace_bounds::TraceBounds;
use super::trace_id::{is_valid_trace_id, with_valid_trace_id};
use super::trace_set::BoundedTraces;
use crate::ClickHouseError;
use crate::schema::TraceIndex;
use crate::sql::Statement;

/// Traces that cross a window boundary.
#[derive(Debug, Default)]
pub(crate) struct CrossingTraces {
    /// Crossing traces according to the trace index.
    pub(crate) traces: Vec<String>,
    pub(crate) bounds: TraceBounds,
    /// Traces that the index may lack, with a span outside the window that satisfies a predicate. If such a trace has an
    /// entry, but only within the window, the index lacks a batch.
    pub(crate) pending: Vec<String>,
}

/// Which traces to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrossingKind {
    /// Those that cross a window boundary according to the trace index, and those that the index may lack, with an ordering
    /// span outside the window.
    All,
    /// Of the indexed traces, those with spans further from the window than `max_trace_duration`.
    Far,
}

/// Size of the trace index; decides how many of its ids a set may hold in memory, and whether a set costs less
/// than grouping the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexSize {
    /// At most about as large as the spans of the window, and most of its traces are in the window.
    Inside,
    /// At most about as large as the spans of the window.
    Small,
    /// Larger, or unknown.
    Large,
}

/// Trace id, 1 if indexed, start and exclusive end in nanoseconds, 1 if the bounds are unusable.
type Row = (String, u8, i64, i64, u8);

/// Adds the traces that sort after all matches inside the window.
pub(crate) async fn fill_by_crossing(search: &Search<'_>, page: &mut Page) -> Result<(), ClickHouseError> {
    match decided_crossing(search, IndexSize::Large).await? {
        Some(decided) => resolve_candidates(search, &[], usize::MAX, &decided, page).await.map(drop),
        None => fill_by_grouping(search, search.after.as_ref(), page).await,
    }
}

/// Returns all crossing traces, decided; `None` if they are unknown.
pub(crate) async fn decided_crossing(
    search: &Search<'_>,
    index_size: IndexSize,
) -> Result<Option<DecidedTraces>, ClickHouseError> {
    match crossing_traces(search, CrossingKind::All, index_size).await? {
        Some(crossing) => decide_crossing(search, crossing).await.map(Some),
        None => Ok(None),
    }
}

/// Decides the indexed crossing traces by id, unless that leaves no statements for the candidates of a step: then they
/// are decided together with these.
async fn decide_crossing(
    search: &Search<'_>,
    crossing: CrossingTraces,
) -> Result<DecidedTraces, ClickHouseError> {
    let CrossingTraces { mut traces, bounds, mut pending } = crossing;
    if search.statements_left() <= RESOLVE_STATEMENTS {
        pending.append(&mut traces);
    }
    let matching = matching_traces(search, BoundedTraces::new(&traces, &bounds)).await?;
    Ok(DecidedTraces { traces: traces.into_iter().collect(), matching, pending })
}

/// Traces with spans inside and outside the window. Returns `None` if there are too many for one statement, or no trace
/// index.
pub(crate) async fn crossing_traces(
    search: &Search<'_>,
    kind: CrossingKind,
    index_size: IndexSize,
) -> Result<Option<CrossingTraces>, ClickHouseError> {
    // Without required predicates, a trace with a span inside is found by that span. Where traces are unbounded, none is
    // far.
    if search.required_predicates.all().is_empty()
        || (kind == CrossingKind::Far && search.default_range.is_none())
    {
        return Ok(Some(CrossingTraces::default()));
    }
    let Some(index) = &search.index else { return Ok(None) };
    let rows: Vec<Row> = search.rows(crossing_statement(search, index, kind, index_size)?).await?;
    if rows.len() > search.options.max_ids {
        return Ok(None);
    }
    let mut crossing =
        CrossingTraces { bounds: TraceBounds::new(search.default_range), ..CrossingTraces::default() };
    for (trace, is_indexed, from, to, unusable) in rows {
        if is_indexed == 1 {
            crossing.traces.push(trace.clone());
            crossing.bounds.insert(search.table, trace, (from, to, unusable));
        } else {
            crossing.pending.push(trace);
        }
    }
    Ok(Some(crossing))
}

/// Writes the statement that finds crossing traces.
pub(crate) fn crossing_statement(
    search: &Search<'_>,
    index: &TraceIndex,
    kind: CrossingKind,
    index_size: IndexSize,
) -> Result<Statement, ClickHouseError> {
    let table = search.table;
    let mut statement = table.statement();
    let bounds = search.bounds(index, &mut statement);
    let ([start, end], unusable) = (bounds.nanos(), &bounds.unusable);
    let [trace, indexed, from, to, is_open] = statement.aliases(["trace", "indexed", "from", "to", "open"]);
    let whole_ticks = |time: Timestamp| search.nanos(table.tick_at_or_after(time.as_nanos()));
    let [begin, finish] = [search.window.from(), search.window.to()].map(whole_ticks);
    let near = index.entry_overlaps(search.window, search.default_range, &mut statement);
    let allowed_range = match (kind, search.default_range) {
        (CrossingKind::Far, Some((from, to))) => [from, to].map(whole_ticks),
        _ => [begin, finish],
    };
    let within = index.entry_within(search.window, allowed_range.into(), &mut statement);
    let [low, high] = allowed_range.map(|nanos| statement.int(nanos));
    let [begin, finish] = [begin, finish].map(|nanos| statement.int(nanos));
    let inside = search.window_condition(&mut statement);
    let limit = search.options.max_ids.saturating_add(1);
    let (covers_window, unusable_entry) = (index.covers(search.window), index.unusable_entry());
    let (id, entry_id, index) = (&table.trace_id.text, &index.trace_id, &index.name);
    let with_span_inside = format!("IN (SELECT {id} FROM {})", table.spans(&inside, &mut statement));
    // A crossing trace has an entry near the window, and an entry that is not within it. If every entry counts as near,
    // only the window's traces bound the memory.
    let is_unbounded = search.default_range.is_none() || !covers_window;
    let (of_near, of_inside) = match index_size {
        _ if is_unbounded => (
            format!(" AND {entry_id} GLOBAL {with_span_inside}"),
            format!(" AND {id} GLOBAL {with_span_inside}"),
        ),
        IndexSize::Inside | IndexSize::Small => (String::new(), String::new()),
        IndexSize::Large => (
            format!(" AND {entry_id} GLOBAL IN (SELECT {entry_id} FROM {index} WHERE {near})"),
            String::new(),
        ),
    };
    // An unusable entry is near every window: one span of a broken clock must not make every search read the whole table.
    let is_unusable = match unusable_entry.filter(|_| !is_unbounded) {
        None => is_open.clone(),
        Some(unusable) => {
            let of_unusable =
                format!("{inside} AND {id} GLOBAL IN (SELECT {entry_id} FROM {index} WHERE {unusable})");
            let spans = table.spans(&of_unusable, &mut statement);
            format!("({is_open} AND {trace} GLOBAL IN (SELECT {id} FROM {spans}))")
        }
    };
    // Grouping all traces costs less than a set of most of them.
    let candidates = match index_size {
        IndexSize::Small if !is_unbounded => String::new(),
        _ => format!(
            " WHERE {entry_id} GLOBAL IN (SELECT {entry_id} FROM {index} WHERE NOT {within}{of_near})"
        ),
    };
    statement.push(&format!(
        "SELECT {entry_id} AS {trace}, toUInt8(1) AS {indexed}, {start} AS {from}, {end} AS {to}, toUInt8({unusable}) AS {is_open} \
         FROM {index}{candidates} GROUP BY {entry_id} \
         HAVING {crosses} LIMIT {limit}",
        crosses = with_valid_trace_id(
            &trace,
            &format!(
                "{} AND ({is_unusable} OR (NOT {is_open} AND {from} < {finish} AND {to} > {begin} \
                 AND ({from} < {low} OR {to} > {high})))",
                bounds.is_indexed
            )
        ),
    ));
    if kind == CrossingKind::All {
        let (inside, around) =
            (search.window_condition(&mut statement), search.range(search.default_range, &mut statement));
        let key = search.required_predicates.key(table, &mut statement)?;
        let unindexed = format!(
            "{around} AND NOT {inside} AND {key}{of_inside} \
             AND {id} GLOBAL NOT IN (SELECT {entry_id} FROM {index} WHERE {near} AND NOT {within}{of_near})"
        );
        let spans = table.spans(&unindexed, &mut statement);
        statement.push(&format!(
            " UNION ALL SELECT {trace}, toUInt8(0), toInt64(0), toInt64(0), toUInt8(0) FROM \
             (SELECT DISTINCT {id} AS {trace} FROM {spans}) \
             WHERE {is_valid_trace_id} LIMIT {limit}",
            is_valid_trace_id = is_valid_trace_id(&trace),
        ));
    }
    Ok(statement)
}
