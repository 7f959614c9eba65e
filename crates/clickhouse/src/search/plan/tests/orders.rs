//! Cases in which an order other than `newest` could miss a trace.

use super::*;

/// Reads all pages, each of one trace.
async fn ids(store: &ClickHouse, order: TraceOrder) -> Vec<String> {
    let (scope, filter) = (scope(&["Team == \"team1\""]), filter(&[]));
    let mut binding = binding(true);
    binding.display = Display { status: Some("Status".to_owned()), ..Display::default() };
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let request = SelectRequest {
            binding: &binding,
            scope: &scope,
            filter: &filter,
            window: window(BEGIN, BEGIN + HOUR),
            order,
            limit: 1,
            after,
            progress: None,
        };
        let page = store.select(request).await.unwrap();
        ids.extend(page.trace_ids().map(str::to_owned));
        after = page.next().cloned();
        if after.is_none() {
            return ids;
        }
    }
}

/// Spans beyond the entry of a trace do not count. With them, `medium` would be the largest, and belong on an earlier page.
#[tokio::test]
async fn spans_outside_the_trace_bounds_do_not_change_the_order() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let mut spans = Vec::new();
    for (trace, count) in [("large", 5), ("medium", 3), ("small", 1)] {
        spans.extend((0..count).map(|number| (60 + 200 * number, trace.to_owned(), "Error", "team1")));
    }
    insert(&local, &spans).await;
    let beyond: Vec<_> =
        (0..8).map(|number| (-60 - 100 * number, "medium".to_owned(), "Error", "team1")).collect();
    insert_without_entries(&local, &beyond).await;
    for order in [TraceOrder::Longest, TraceOrder::MostErrors, TraceOrder::MostSpans] {
        assert_eq!(ids(&store, order).await, ["large", "medium", "small"], "{order:?}");
    }
}
