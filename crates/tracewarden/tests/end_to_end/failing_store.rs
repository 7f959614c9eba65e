//! ClickHouse fails during a query: an explicit error or a visibly aborted page, never a shorter page.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tracewarden_testkit::chaos_proxy::ChaosProxy;

use crate::end_to_end::client_disconnects::{SLOW, longest_running, wait_for};
use crate::support::store::{Store, binding, bound_service_at};
use crate::support::{Client, Service};

const ROLE: &str = "/roles/blue";

async fn service_behind(
    proxy: &ChaosProxy,
    store: &Store,
    environment: &[(&str, &str)],
) -> (Service, Client, Client) {
    let (service, admin) = bound_service_at(&proxy.url(), store, environment).await;
    let policies =
        json!({"policies": [{"title": "Blue", "expression": "SpanAttributes[\"team\"] == \"blue\""}]});
    admin.put(ROLE, policies).await.expect(201);
    let ada = service.user(&admin, "ada", &["blue"]).await;
    (service, admin, ada)
}

/// Binds another table or view with the same columns.
async fn bind(admin: &Client, table: &str) {
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    let mut other = binding();
    other["table"] = Value::from(table);
    admin.with("if-match", &version).put("/schema/binding", other).await.expect(200);
}

#[tokio::test]
async fn an_exception_after_the_first_byte_aborts_the_page() {
    let store = Store::start();
    store
        .run(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes) \
             SELECT now64(9) - 60, repeat('1', 32), leftPad(toString(number), 16, '0'), repeat('x', 500), 'shop', \
             map('team', 'blue') FROM numbers(100000)",
        )
        .await;
    // Reading the last of the sorted spans fails; authorisation succeeds, since it does not read that column.
    store
        .run(
            "CREATE VIEW otel.failing AS SELECT *, sipHash64(SpanName, SpanId) + throwIf(SpanId = '0000000000099999', 'no luck') AS Late \
             FROM otel.otel_traces",
        )
        .await;
    let proxy = ChaosProxy::start(store.address()).unwrap();
    let (_service, admin, ada) = service_behind(&proxy, &store, &[]).await;
    bind(&admin, "failing").await;
    for accept in ["application/json", "application/x-ndjson"] {
        let request = ada.with("accept", accept).request(reqwest::Method::POST, "/traces/query");
        let answer = request.json(&json!({})).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert!(answer.bytes().await.is_err(), "{accept}: the page must be aborted");
    }
    let records = admin.get("/audit?action=traces.query&limit=2").await.expect(200).body;
    let outcomes = [0_usize, 1].map(|index| &records["records"][index]["outcome"]);
    assert_eq!(outcomes, ["failed", "failed"], "{records}");
}

#[tokio::test]
async fn a_slow_query_ends_at_its_limit() {
    let store = Store::start();
    store.run(SLOW).await;
    let proxy = ChaosProxy::start(store.address()).unwrap();
    let (_service, admin, ada) = service_behind(&proxy, &store, &[("TRACEWARDEN_QUERY_TIMEOUT", "3s")]).await;
    bind(&admin, "slow").await;
    let path = format!("/traces/{}", "1".repeat(32));
    for operation in ["search", "trace"] {
        let ask = async {
            match operation {
                "search" => ada.post("/traces/query", json!({})).await,
                _ => ada.get(&path).await,
            }
        };
        let answer = async {
            let started = Instant::now();
            ask.await.problem(504, "query_timeout");
            started.elapsed()
        };
        tokio::pin!(answer);
        let mut longest = Duration::ZERO;
        let took = loop {
            tokio::select! {
                took = &mut answer => break took,
                () = tokio::time::sleep(Duration::from_millis(20)) => longest = longest.max(longest_running(&store).await),
            }
        };
        wait_for(&store, 0, Duration::from_secs(3)).await;
        // Three seconds of time limit and one for cancelling. The answer may take longer, for a busy machine.
        println!("{operation}: answered after {took:?}; the longest statement ran for {longest:?}");
        assert!(
            longest > Duration::from_millis(500) && longest < Duration::from_secs(4),
            "{operation}: {longest:?}"
        );
        assert!(took < Duration::from_millis(5_500), "{operation}: {took:?}");
    }
}
