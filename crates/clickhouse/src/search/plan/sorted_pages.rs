//! Pages in the orders by duration, errors and spans, largest first. One statement computes this number for every matching trace, because
//! the largest trace can be anywhere in the window.

use super::page::MatchingTrace;
use super::search::Search;
use super::trace_scan::{Aggregates, SPANS_BEYOND_BOUNDS, SpansNeeded, TraceScan};
use crate::Result;
use crate::schema::DisplayExpressions;
use crate::search::selection::TraceOrder;
use crate::sql::Statement;

impl Search<'_> {
    /// Like [`Self::run`], in an order other than [`TraceOrder::Newest`].
    pub(crate) async fn run_sorted(
        &self,
        order: TraceOrder,
        display: &DisplayExpressions,
    ) -> Result<Vec<MatchingTrace>> {
        let read = async |scan: &TraceScan<'_>| {
            self.matching_traces(sorted_statement(self, scan, order, display)?).await
        };
        if let Some(scan) = TraceScan::matching_by_trace(self, SpansNeeded::All).await {
            let found = match scan.unless_long_traces(self, read(&scan)).await {
                Ok(Err(long)) => match scan.with_long_traces(self, long).await? {
                    Some(scan) => read(&scan).await.map(Some),
                    None => Ok(None),
                },
                found => found.map(std::result::Result::ok),
            };
            match found {
                Ok(Some(found)) => return Ok(found),
                Err(error) if !error.is_throw_if(SPANS_BEYOND_BOUNDS) => return Err(error),
                Ok(None) | Err(_) => {}
            }
        }
        read(&TraceScan::by_span(self).await?).await
    }
}

/// Writes the statement of a page.
fn sorted_statement(
    search: &Search<'_>,
    scan: &TraceScan<'_>,
    order: TraceOrder,
    display: &DisplayExpressions,
) -> Result<Statement> {
    let mut statement = search.table.statement().evaluated_per_row();
    let [trace, order_key, spans, readable, beyond] =
        statement.aliases(["trace", "order_key", "spans", "readable", "beyond"]);
    let of_trace = match order {
        TraceOrder::Newest => format!("max({})", search.table.ticks),
        TraceOrder::Longest => display.trace_duration(search.table),
        TraceOrder::MostErrors => format!("toInt64(countIf({}))", display.is_error(&mut statement)),
        TraceOrder::MostSpans => "toInt64(count())".to_owned(),
    };
    let aggregates = Aggregates {
        columns: &format!("{of_trace} AS {order_key}, count() AS {spans}"),
        names: &format!("{order_key}, {spans}"),
        having: &format!(" AND {readable}"),
    };
    let traces = scan.traces(search, &aggregates, &mut statement)?;
    let is_after = match &search.after {
        None => "1".to_owned(),
        Some(after) => {
            let (key, id) = (statement.int(after.key), statement.string(&after.trace_id));
            format!("{order_key} < {key} OR ({order_key} = {key} AND {trace} > {id})")
        }
    };
    // One condition: ClickHouse would push a second one below the join that computes `beyond`. A trace that is on an earlier page only
    // because of spans beyond its bounds would then be dropped before `throwIf` sees it.
    statement.push(&format!(
        "SELECT {trace}, toUInt8(1), {order_key}, {spans} FROM ({traces}) \
         WHERE if(throwIf({beyond}, '{SPANS_BEYOND_BOUNDS}') = 0, {is_after}, 0) \
         ORDER BY {order_key} DESC, {trace} ASC LIMIT {limit}",
        limit = search.wanted,
    ));
    Ok(statement)
}
