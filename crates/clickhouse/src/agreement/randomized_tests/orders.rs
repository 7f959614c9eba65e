//! Pages in the orders by duration, errors and spans, compared with the expected traces sorted in memory.

use std::cmp::Reverse;

use super::{DataSet, Query, StoredSpan, impact};
use crate::{ClickHouse, SelectRequest, TraceOrder};

/// Reads all pages of a query in one of the orders.
pub(super) async fn check_orders(
    store: &ClickHouse,
    data_set: &DataSet,
    query: &Query<'_>,
    expected: &[String],
) {
    // Derived from the window: a random draw would change all later data sets.
    let draw = query.window.from().as_nanos().unsigned_abs() as usize;
    // Most queries select nothing, and their statements take as long as others.
    if expected.is_empty() && !draw.is_multiple_of(4) {
        return;
    }
    let orders = [TraceOrder::Longest, TraceOrder::MostErrors, TraceOrder::MostSpans];
    let order = orders[draw % orders.len()];
    let mut sorted: Vec<_> =
        expected.iter().map(|id| (Reverse(measure(data_set, query, id, order)), id.clone())).collect();
    sorted.sort();
    let ids: Vec<String> = sorted.into_iter().map(|(_, id)| id).collect();
    // Each page reads the whole window, so only some queries are read in several pages.
    let limit = if expected.len() % 4 == 3 { 2 } else { 200 };
    assert_eq!(read_pages(store, query, order, limit).await, ids, "{order:?}, pages of {limit}");
}

/// The number of a trace, over its spans that count.
fn measure(data_set: &DataSet, query: &Query<'_>, id: &str, order: TraceOrder) -> i64 {
    let (low, high) = impact::bounds(data_set, id.as_bytes(), query.window);
    let spans: Vec<&StoredSpan> = (data_set.spans.iter())
        .filter(|span| span.trace == id.as_bytes() && (low..high).contains(&span.at))
        .collect();
    let count = |count: usize| i64::try_from(count).unwrap();
    match order {
        TraceOrder::Longest => {
            let start = spans.iter().map(|span| i128::from(span.at)).min().unwrap();
            let end = spans.iter().map(|span| i128::from(span.at) + i128::from(span.nanos())).max().unwrap();
            i64::try_from(end - start).unwrap_or(i64::MAX)
        }
        TraceOrder::MostErrors => count(spans.iter().filter(|span| span.failed()).count()),
        TraceOrder::MostSpans | TraceOrder::Newest => count(spans.len()),
    }
}

async fn read_pages(store: &ClickHouse, query: &Query<'_>, order: TraceOrder, limit: u32) -> Vec<String> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let request = SelectRequest { order, ..query.request(limit, after) };
        let page = store.select(request).await.unwrap();
        ids.extend(page.trace_ids().map(str::to_owned));
        after = page.next().cloned();
        if after.is_none() {
            return ids;
        }
    }
}
