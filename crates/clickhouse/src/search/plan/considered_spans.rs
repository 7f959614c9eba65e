//! The spans that count for the decision about a trace, and the time ranges that hold them.

use tracewarden_model::Timestamp;

use super::search::{Search, TimeRange};
use super::trace_bounds::TimeRanges;
use super::trace_set::{BoundedTraces, TraceSet};
use crate::Result;
use crate::sql::Statement;

/// Returns the time ranges to read, so that all considered spans of each trace are read.
pub(crate) async fn scan_ranges(search: &Search<'_>, trace_set: TraceSet<'_>) -> Result<TimeRanges> {
    let (Some(index), Some((low, high))) = (&search.index, search.default_range) else {
        return Ok(search.default_range.into());
    };
    let mut statement = Statement::default();
    let traces = trace_id_condition(search, trace_set, &mut statement);
    let bounds = search.bounds(index, &mut statement);
    let ([from, to], open, name, trace) = (bounds.nanos(), &bounds.unusable, &index.name, &index.trace_id);
    statement.push(&format!("SELECT count(), {from}, {to}, {open} FROM {name} WHERE {trace} {traces}"));
    let rows: Vec<(u64, i64, i64, u8)> = search.rows(statement).await?;
    let range: TimeRange = match rows.as_slice() {
        [(count, .., 1)] if *count > 0 => None,
        [(count, start, end, _)] if *count > 0 => {
            let start = Timestamp::from_nanos(search.table.whole_ticks(*start));
            Some((low.min(start), high.max(Timestamp::from_nanos(*end))))
        }
        _ => Some((low, high)),
    };
    Ok(range.into())
}

/// Writes the condition after a trace id that it is in the set.
pub(crate) fn trace_id_condition(
    search: &Search<'_>,
    trace_set: TraceSet<'_>,
    statement: &mut Statement,
) -> String {
    match trace_set {
        TraceSet::Given(ids) | TraceSet::Bounded(BoundedTraces { traces: ids, .. }) => {
            format!("IN {}", statement.string_array(ids))
        }
        // The traces of the window include those of a sample.
        TraceSet::Window | TraceSet::Sample(_) => {
            let inside = search.window_condition(statement);
            let spans = search.table.spans(&inside, statement);
            format!("GLOBAL IN (SELECT {} FROM {spans})", search.table.trace_id.text)
        }
    }
}

/// Writes the considered spans, from `FROM` on: those within the trace's bounds in the trace index, or else within the
/// default bounds.
pub(crate) fn considered_spans(
    search: &Search<'_>,
    trace_set: TraceSet<'_>,
    scan: &TimeRanges,
    statement: &mut Statement,
) -> String {
    let table = search.table;
    let scan = scan.time_condition(table, statement);
    if let TraceSet::Bounded(BoundedTraces { traces, bounds }) = trace_set {
        let is_listed = table.trace_id.is_in_array(traces, statement);
        let within = bounds.within(traces, table, statement);
        return format!(" FROM {}", table.spans(&format!("{scan} AND {is_listed} AND {within}"), statement));
    }
    let (id, timestamp) = (&table.trace_id.text, &table.timestamp);
    let [bounds, indexed, start, end, open] =
        statement.aliases(["bounds", "indexed", "start", "end", "open"]);
    let (mut join, mut condition) = (String::new(), scan);
    if let Some(index) = &search.index {
        let traces = match trace_set {
            // Without reading the ids of the window once more.
            TraceSet::Sample(sample) => {
                let near = index.entry_overlaps(search.window, search.default_range, statement);
                let (trace, name) = (&index.trace_id, &index.name);
                let sampled = sample.condition(trace);
                format!("{trace} GLOBAL IN (SELECT {trace} FROM {name} WHERE {near} AND {sampled})")
            }
            _ => format!("{} {}", index.trace_id, trace_id_condition(search, trace_set, statement)),
        };
        let entries = search.bounds(index, statement).with_precision(table.coarse_precision);
        // With join_use_nulls = 0, a trace without an entry has an empty id here.
        join = format!(
            " GLOBAL LEFT ANY JOIN (SELECT {trace} AS {indexed}, {from} AS {start}, {to} AS {end}, {is_open} AS {open} \
             FROM {index} WHERE {traces} GROUP BY {trace} HAVING {known}) AS {bounds} \
             ON {id} = {bounds}.{indexed}",
            trace = index.trace_id,
            from = entries.from,
            to = entries.to,
            is_open = entries.unusable,
            known = entries.is_indexed,
            index = index.name,
        );
    }
    match trace_set {
        TraceSet::Window | TraceSet::Bounded(_) => {}
        TraceSet::Given(ids) => {
            condition.push_str(&format!(" AND {}", table.trace_id.is_in_array(ids, statement)));
        }
        TraceSet::Sample(sample) => {
            let column = &table.trace_id.column;
            let (inside, sampled) = (search.window_condition(statement), sample.condition(id));
            let spans = table.spans(&format!("{inside} AND {sampled}"), statement);
            condition.push_str(&format!(" AND {column} GLOBAL IN (SELECT {column} FROM {spans})"));
        }
    }
    if search.index.is_some() {
        let unindexed = search.range(search.default_range, statement);
        condition.push_str(&format!(
            " AND if({bounds}.{indexed} = '', {unindexed}, {bounds}.{open} OR ({timestamp} >= {bounds}.{start} \
             AND {timestamp} < {bounds}.{end}))"
        ));
    }
    format!(" FROM {}", table.joined_spans(&join, &condition, statement))
}
