//! A trace store that fails: an explicit error or a page that is visibly broken off, never a short page.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tracewarden_testkit::chaos_proxy::ChaosProxy;

use crate::leaving_clients::wait_for;
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

/// Binds another table or view of the same columns.
async fn bind(admin: &Client, table: &str) {
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    let mut other = binding();
    other["table"] = Value::from(table);
    admin.with("if-match", &version).put("/schema/binding", other).await.expect(200);
}

#[tokio::test]
async fn an_exception_after_the_first_byte_breaks_the_page_off() {
    let store = Store::start();
    store
        .run(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes) \
             SELECT now64(9) - 60, repeat('1', 32), leftPad(toString(number), 16, '0'), repeat('x', 500), 'shop', \
             map('team', 'blue') FROM numbers(100000)",
        )
        .await;
    // Reading the last of the sorted spans fails; deciding, which does not look at the column, does not.
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
        assert!(answer.bytes().await.is_err(), "{accept}: the page closes");
    }
    let records = admin.get("/audit?action=traces.query&limit=1").await.expect(200).body;
    assert_ne!(records["records"][0]["outcome"], "success", "{records}");
}

#[tokio::test]
async fn a_slow_query_ends_at_its_limit() {
    let store = Store::start();
    store
        .run(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes) \
             SELECT now64(9) - 60, repeat('1', 32), leftPad(toString(number), 16, '0'), 'x', 'shop', \
             map('team', 'blue') FROM numbers(1000)",
        )
        .await;
    store
        .run(
            "CREATE VIEW otel.slow AS SELECT * REPLACE(concat(SpanId, if(sleepEachRow(0.01) = 0, '', '')) AS SpanId, \
             if(sleepEachRow(0.01) = 0, Timestamp, Timestamp) AS Timestamp) FROM otel.otel_traces SETTINGS max_block_size = 10",
        )
        .await;
    let proxy = ChaosProxy::start(store.address()).unwrap();
    let (_service, admin, ada) = service_behind(&proxy, &store, &[("TRACEWARDEN_QUERY_TIMEOUT", "1s")]).await;
    bind(&admin, "slow").await;
    // A second of the limit and one for stopping; the rest is for a busy machine.
    let started = Instant::now();
    ada.post("/traces/query", json!({})).await.problem(504, "query_timeout");
    assert!(started.elapsed() < Duration::from_millis(3_500), "{:?}", started.elapsed());
    wait_for(&store, 0, Duration::from_secs(1)).await;
    ada.get(&format!("/traces/{}", "1".repeat(32))).await.problem(504, "query_timeout");
    wait_for(&store, 0, Duration::from_secs(1)).await;
}
