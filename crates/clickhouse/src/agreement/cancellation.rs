//! A caller that stops waiting for an answer cancels its statement.

use std::time::{Duration, Instant};

use futures::StreamExt;
use tracewarden_model::{AccessModel, Binding, Caller, Display, Filter, Timestamp, Window};
use tracewarden_policy::{AccessScope, CompiledPolicies, RolePolicy, authorise};
use tracewarden_testkit::local_store::LocalStore;

use crate::agreement::differential::{connect, execute};
use crate::sql::Statement;
use crate::{ClickHouse, SelectRequest, TraceOrder};

pub(crate) fn binding(database: &str, table: &str) -> Binding {
    Binding {
        database: database.to_owned(),
        table: table.to_owned(),
        trace_id: "TraceId".to_owned(),
        span_id: "SpanId".to_owned(),
        timestamp: "Timestamp".to_owned(),
        parent_span_id: "ParentSpanId".to_owned(),
        trace_index: None,
        display: Display::default(),
        ..Binding::default()
    }
}

pub(crate) fn unrestricted_scope() -> AccessScope {
    let policy = RolePolicy { role: "r", title: "t", expression: "true" };
    let caller = Caller { username: "ada".to_owned(), ..Caller::default() };
    authorise([policy], None, &caller, &AccessModel::default(), &CompiledPolicies::new()).unwrap()
}

/// Waits until this number of statements of this service run, this one excluded.
pub(crate) async fn wait_until_running(store: &ClickHouse, wanted: i64) {
    let begun = Instant::now();
    // A statement may begin late on a busy machine; it has to end in time.
    let limit = Duration::from_secs(if wanted == 0 { 2 } else { 20 });
    loop {
        let ask = "SELECT count() - 1 FROM system.processes WHERE query_id LIKE 'tracewarden-%'";
        let rows: Vec<(i64,)> = store.client.rows(Statement::new(ask)).await.unwrap();
        if rows == [(wanted,)] {
            return;
        }
        assert!(begun.elapsed() < limit, "{rows:?} statements run, not {wanted}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Creates a view whose every scan outlasts the test.
async fn endless_view(local: &LocalStore) -> ClickHouse {
    let store = connect(local);
    execute(
        local,
        "CREATE VIEW default.endless AS SELECT toDateTime64(1790000000, 9) AS Timestamp, 'a' AS TraceId, \
         toString(number) AS SpanId, '' AS ParentSpanId FROM numbers(1000000000000)"
            .to_owned(),
    )
    .await;
    store
}

#[tokio::test]
async fn abandoned_decisions_are_cancelled() {
    let local = LocalStore::start().unwrap();
    let store = endless_view(&local).await;
    let (binding, scope, filter) = (binding("default", "endless"), unrestricted_scope(), Filter::default());
    let at = |seconds: i64| Timestamp::from_nanos(seconds * 1_000_000_000);
    let window = Window::new(at(1_789_999_000), at(1_790_001_000)).unwrap();
    let request = SelectRequest {
        binding: &binding,
        scope: &scope,
        filter: &filter,
        window,
        order: TraceOrder::Newest,
        limit: 1,
        after: None,
        progress: None,
    };
    tokio::select! {
        page = store.select(request) => panic!("{page:?}"),
        () = wait_until_running(&store, 1) => {}
    }
    wait_until_running(&store, 0).await;
    tokio::select! {
        found = store.find(&binding, &scope, "a") => panic!("{found:?}"),
        () = wait_until_running(&store, 1) => {}
    }
    wait_until_running(&store, 0).await;
}

#[tokio::test]
async fn abandoned_pages_are_cancelled() {
    let local = LocalStore::start().unwrap();
    let (store, binding) = (connect(&local), binding("default", "wide"));
    execute(
        &local,
        "CREATE TABLE default.wide ENGINE = MergeTree ORDER BY TraceId AS SELECT toDateTime64(1790000000, 9) AS Timestamp, \
         'a' AS TraceId, toString(number) AS SpanId, '' AS ParentSpanId, repeat('x', 2000) AS text FROM numbers(50000)"
            .to_owned(),
    )
    .await;
    let page = store.find(&binding, &unrestricted_scope(), "a").await.unwrap().unwrap();
    assert_eq!(page.span_count(), 50_000);
    let mut spans = store.read(&binding, &page, None).await.unwrap();
    assert!(spans.next().await.unwrap().unwrap().spans > 0);
    // Most of it is still to come: ClickHouse waits for the reader, however long that takes.
    tokio::time::sleep(Duration::from_millis(500)).await;
    wait_until_running(&store, 1).await;
    drop(spans);
    wait_until_running(&store, 0).await;
}
