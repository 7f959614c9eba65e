//! One grouped pass over all considered spans: the literal definition. The other plans must return the same traces, and fall
//! back to this pass where they cannot decide.

use super::considered_spans::{considered_spans, scan_ranges};
use super::page::{MatchingTrace, Page};
use super::search::Search;
use super::trace_bounds::TimeRanges;
use super::trace_id::with_valid_trace_id;
use super::trace_set::{BoundedTraces, TraceSet};
use crate::Result;
use crate::search::selection::Position;
use crate::sql::Statement;

/// Maximum statements of the grouped pass.
pub(crate) const GROUPING_STATEMENTS: usize = 2;

/// Returns those of the given traces that match, decided by id: a grouped pass restricted to their ids and their known time
/// ranges. Joining the trace index again would take a third of the statement.
pub(crate) async fn matching_traces(
    search: &Search<'_>,
    bounded: BoundedTraces<'_>,
) -> Result<Vec<MatchingTrace>> {
    let mut matching = Vec::new();
    for traces in bounded.traces.chunks(search.options.max_ids.max(1)) {
        let scan = bounded.bounds.ranges(traces.iter());
        let trace_set = TraceSet::Bounded(BoundedTraces { traces, ..bounded });
        let statement = grouped_statement(search, trace_set, &scan, None)?;
        matching.extend(search.matching_traces(statement).await?);
    }
    Ok(matching)
}

/// Adds the traces after a position to the page.
pub(crate) async fn fill_by_grouping(
    search: &Search<'_>,
    after: Option<&Position>,
    page: &mut Page,
) -> Result<()> {
    let scan = scan_ranges(search, TraceSet::Window).await?;
    let statement = grouped_statement(search, TraceSet::Window, &scan, after)?;
    page.extend(search.matching_traces(statement).await?);
    Ok(())
}

/// Writes the statement of the pass: of all traces it returns as many as wanted after a position, of given ones each that
/// matches.
pub(crate) fn grouped_statement(
    search: &Search<'_>,
    trace_set: TraceSet<'_>,
    scan: &TimeRanges,
    after: Option<&Position>,
) -> Result<Statement> {
    let table = search.table;
    let mut statement = table.statement().evaluated_per_row();
    let [trace, tier, position] = statement.aliases(["trace", "tier", "position"]);
    let order = search.order(&tier, &position, &mut statement)?;
    let inside = search.window_condition(&mut statement);
    let spans = considered_spans(search, trace_set, scan, &mut statement);
    let id = &table.trace_id.text;
    let mut text = format!("SELECT {id} AS {trace}, {order}, count(){spans}");
    let predicates = &search.required_predicates;
    let having = predicates.filter_having_clause(&predicates.all(), &mut statement)?;
    let mut wanted = format!("countIf({inside}) > 0 AND {having}");
    if let Some(after) = after {
        let (last, key) = (after.tier.min(1), statement.int(after.key));
        let id = statement.string(&after.trace_id);
        wanted.push_str(&format!(
            " AND ({tier} < {last} OR ({tier} = {last} AND ({position} < {key} OR ({position} = {key} AND {trace} > {id}))))"
        ));
    }
    text.push_str(&format!(" GROUP BY {trace} HAVING {}", with_valid_trace_id(&trace, &wanted)));
    let most = match trace_set {
        TraceSet::Window | TraceSet::Sample(_) => search.wanted,
        TraceSet::Given(ids) | TraceSet::Bounded(BoundedTraces { traces: ids, .. }) => ids.len(),
    };
    text.push_str(&format!(" ORDER BY {tier} DESC, {position} DESC, {trace} ASC LIMIT {most}"));
    statement.push(&text);
    Ok(statement)
}
