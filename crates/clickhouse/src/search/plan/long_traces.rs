//! Long traces: their bounds in the trace index overlap the window and extend beyond its margins, or are unusable. Spans that no pass
//! reads can decide them.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::resolve::RESOLVE_STATEMENTS;
use super::search::{IndexRow, Search, TimeRange};
use super::trace_bounds::TraceBounds;
use super::trace_id::with_valid_trace_id;
use crate::Result;
use crate::schema::{TraceIndex, WindowShare};
use crate::sql::Statement;

/// Returns the bounds of the long traces, which each search reads once; `None` if there are too many for one statement.
pub(crate) async fn long_traces(
    search: &Search<'_>,
    window_share: WindowShare,
) -> Result<Option<TraceBounds>> {
    let mut long = TraceBounds::new(search.default_range);
    // Without required predicates, a trace with a span inside is found by that span.
    let by_any_span = search.required_predicates.all().is_empty();
    let Some(index) = search.index.as_ref().filter(|_| !by_any_span) else {
        return Ok(Some(long));
    };
    let rows = search.long_traces.get_or_try_init(|| list(search, index, window_share)).await?;
    let Some(rows) = rows else { return Ok(None) };
    for row in rows {
        long.insert(search.table, row.clone());
    }
    Ok(Some(long))
}

/// Lists the long traces; `None` if there are too many. Few indexes have unusable entries, and to look for spans of their traces in the
/// window takes another scan of the index. So the statement does so only if such an entry is known; if the first statement finds one, a
/// second statement follows.
async fn list(
    search: &Search<'_>,
    index: &TraceIndex,
    window_share: WindowShare,
) -> Result<Option<Vec<IndexRow>>> {
    let (range, max_ids) = (search.default_range, search.options.max_ids);
    let read = |checks_spans| {
        search.rows(long_traces_statement(search, index, window_share, range, max_ids, checks_spans))
    };
    let known = &search.store.search_history.unusable_entries;
    let mut hasher = DefaultHasher::new();
    index.name.hash(&mut hasher);
    let (hash, is_unusable) = (hasher.finish(), |(.., unusable): &IndexRow| *unusable == 1);
    // Where a second statement would leave too few to resolve the candidates, the first one looks for spans. The pass is counted already.
    let checks_spans = known.get(hash).is_some() || search.statements_left() <= RESOLVE_STATEMENTS + 1;
    let mut rows: Vec<IndexRow> = read(checks_spans).await?;
    if !checks_spans && index.unusable_entry().is_some() && rows.iter().any(is_unusable) {
        known.insert(hash, ());
        rows = read(true).await?;
    }
    Ok((rows.len() <= max_ids).then_some(rows))
}

/// Writes the statement that lists the traces whose bounds overlap the window and extend beyond `range`, or are unusable; of those with
/// an unusable entry, if `checks_spans`, only traces with a span in the window. Rows: id, start and end in nanoseconds, whether
/// unusable. At most `limit` + 1 rows, so that the caller sees that there are more.
pub(crate) fn long_traces_statement(
    search: &Search<'_>,
    index: &TraceIndex,
    window_share: WindowShare,
    range: TimeRange,
    limit: usize,
    checks_spans: bool,
) -> Statement {
    let table = search.table;
    let mut statement = table.statement();
    let bounds = search.bounds(index, &mut statement);
    let ([start, end], unusable) = (bounds.nanos(), &bounds.unusable);
    let trace = statement.alias("trace");
    let (from, to) = (search.window.from(), search.window.to());
    let (low, high) = range.unwrap_or((from, to));
    let [begin, finish, low, high] =
        [from, to, low, high].map(|time| search.nanos(table.tick_at_or_after(time.as_nanos())));
    let near = index.entry_overlaps(search.window, search.default_range, &mut statement);
    let within = index.entry_within(search.window, (low, high), &mut statement);
    let [begin, finish, low, high] = [begin, finish, low, high].map(|nanos| statement.int(nanos));
    let (id, entry_id, name) = (&table.trace_id.text, &index.trace_id, &index.name);
    // An unusable entry is near every window: one span of a broken clock must not make every search read the whole table.
    let is_unusable = match index.unusable_entry().filter(|_| checks_spans) {
        None => unusable.clone(),
        Some(entry) => {
            let inside = search.window_condition(&mut statement);
            let of_unusable =
                format!("{inside} AND {id} GLOBAL IN (SELECT {entry_id} FROM {name} WHERE {entry})");
            let spans = table.spans(&of_unusable, &mut statement);
            format!("({unusable} AND {trace} GLOBAL IN (SELECT {id} FROM {spans}))")
        }
    };
    // If the window covers most of the index, few traces are outside. A set of hashes takes half as long as one of ids; if another id
    // has the same hash, `HAVING` excludes its trace.
    let of_near = match window_share {
        WindowShare::Most => String::new(),
        WindowShare::Part => {
            let hash = format!("cityHash64({entry_id})");
            format!(" AND {hash} GLOBAL IN (SELECT {hash} FROM {name} WHERE {near})")
        }
    };
    let is_long = format!(
        "{} AND ({is_unusable} OR (NOT {unusable} AND {start} < {finish} AND {end} > {begin} \
         AND ({start} < {low} OR {end} > {high})))",
        bounds.is_indexed
    );
    statement.push(&format!(
        "SELECT {entry_id} AS {trace}, {start}, {end}, toUInt8({unusable}) FROM {name} \
         WHERE {entry_id} GLOBAL IN (SELECT {entry_id} FROM {name} WHERE NOT {within}{of_near}) \
         GROUP BY {entry_id} HAVING {is_long} LIMIT {limit}",
        is_long = with_valid_trace_id(&trace, &is_long),
        limit = limit.saturating_add(1),
    ));
    statement
}
