//! Client disconnects cancel the client's statements: in every phase, with every response format, during a failover, and at
//! shutdown.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use tracewarden_testkit::chaos_proxy::{ChaosProxy, Fault};
use tracewarden_testkit::repetitions::Repetitions;
use tracewarden_testkit::wait::{until, until_within};

use crate::support::store::{Store, binding, bound_service_at};
use crate::support::{Client, Service};

/// How long a statement may run after its client has disconnected.
const SOON: Duration = Duration::from_secs(2);

/// Returns the number of the service's statements that ClickHouse runs.
async fn running(store: &Store) -> u64 {
    aggregate_running(store, "count()").await.parse().unwrap()
}

/// Returns the running time of the service's oldest statement in ClickHouse; zero if there is none.
pub async fn longest_running(store: &Store) -> Duration {
    Duration::from_secs_f64(aggregate_running(store, "max(elapsed)").await.parse().unwrap())
}

/// Returns an aggregate over the service's statements that ClickHouse runs.
async fn aggregate_running(store: &Store, aggregate: &str) -> String {
    let [_, (_, password)] = store.settings();
    let ask = format!(
        "SELECT {aggregate} FROM system.processes WHERE query_id LIKE 'tracewarden-%' \
         AND (query LIKE '%otel_traces%' OR query LIKE '%slow%')"
    );
    let request = Client::new(&store.url).request(Method::POST, "/").body(ask);
    let answer = request.basic_auth("default", Some(password)).send().await.unwrap();
    answer.text().await.unwrap().trim().to_owned()
}

/// Waits until ClickHouse runs this number of the service's statements.
pub async fn wait_for(store: &Store, wanted: u64, timeout: Duration) {
    until_within(timeout, async || running(store).await, |now| *now == wanted).await;
}

/// A view whose search never ends. `sleep` would not work: ClickHouse limits it per block.
pub const SLOW: &str = "CREATE VIEW otel.slow AS SELECT toDateTime64(now() - 60, 9) AS Timestamp, repeat('1', 32) AS TraceId, \
    toString(number) AS SpanId, '' AS ParentSpanId, 'GET /' AS SpanName, toLowCardinality('shop') AS ServiceName, \
    CAST(1 AS UInt64) AS Duration, CAST(map('team', 'blue') AS Map(LowCardinality(String), String)) AS SpanAttributes \
    FROM numbers(1000000000000)";

/// Starts ClickHouse with a trace that is larger than all buffers, and with [`SLOW`].
async fn store() -> Store {
    let store = Store::start();
    store
        .run(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes) \
             SELECT now64(9) - 60, repeat('1', 32), leftPad(toString(number), 16, '0'), 'GET /', 'shop', \
             map('team', 'blue', 'noise', randomPrintableASCII(2000)) FROM numbers(20000)",
        )
        .await;
    store.run(SLOW).await;
    store
}

async fn bind(admin: &Client, table: &str) {
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    let mut other = binding();
    other["table"] = table.into();
    admin.with("if-match", &version).put("/schema/binding", other).await.expect(200);
}

async fn reader(service: &Service, admin: &Client) -> Client {
    let policies = json!({"policies": [{"title": "Shop", "expression": "ServiceName == \"shop\""}]});
    admin.put("/roles/shop", policies).await.expect(201);
    service.user(admin, "ada", &["shop"]).await
}

async fn outcomes(admin: &Client, number: usize) -> Vec<String> {
    outcomes_of(admin, "traces.query", number).await
}

async fn outcomes_of(admin: &Client, action: &str, number: usize) -> Vec<String> {
    // The record is written after the connection has closed.
    let outcomes = async || {
        let path = format!("/audit?action={action}&limit={number}");
        let records = admin.get(&path).await.expect(200).body;
        let outcomes = records["records"].as_array().unwrap().iter();
        outcomes.map(|record| record["outcome"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    until(outcomes, |outcomes| outcomes.iter().all(|outcome| outcome != "unknown")).await
}

#[tokio::test]
async fn a_client_disconnect_stops_its_statement() {
    let store = store().await;
    let proxy = ChaosProxy::start(store.address()).unwrap();
    // The first endpoint fails in the middle of the test.
    let both = format!("{},{}", proxy.url(), store.url);
    let (service, admin) = bound_service_at(&both, &store, &[]).await;
    let ada = reader(&service, &admin).await;
    let forms = [
        ("application/json", "identity"),
        ("application/x-ndjson", "identity"),
        ("application/json", "gzip"),
    ];
    for fault in [Fault::None, Fault::Refuse] {
        proxy.set(fault);
        bind(&admin, "otel_traces").await;
        for (accept, encoding) in forms {
            let client = ada.with("accept", accept).with("accept-encoding", encoding);
            let request = || client.request(Method::POST, "/traces/query").json(&json!({}));
            let mut answer = request().send().await.unwrap();
            assert!(answer.chunk().await.unwrap().is_some());
            wait_for(&store, 1, Duration::from_secs(5)).await;
            drop(answer);
            wait_for(&store, 0, SOON).await;
        }
        bind(&admin, "slow").await;
        for (accept, encoding) in forms {
            let client = ada.with("accept", accept).with("accept-encoding", encoding);
            let asking = tokio::spawn(client.request(Method::POST, "/traces/query").json(&json!({})).send());
            wait_for(&store, 1, Duration::from_secs(10)).await;
            // With NDJSON, the answer may have begun; aborting the task drops it as well.
            asking.abort();
            let _ = asking.await.map(drop);
            wait_for(&store, 0, SOON).await;
        }
    }
    assert_eq!(outcomes(&admin, 12).await, vec!["aborted"; 12]);
}

/// Returns an agent with an API key of this user.
async fn agent(user: &Client) -> Client {
    let created = user.post("/me/api-keys", json!({"name": "agent"})).await.expect(201).body;
    user.with_key(created["token"].as_str().unwrap())
        .with("accept", "application/json, text/event-stream")
        .with("mcp-protocol-version", "2025-11-25")
}

#[tokio::test]
async fn an_agent_disconnect_stops_its_statement() {
    let store = store().await;
    let (service, admin) = bound_service_at(&store.url, &store, &[]).await;
    let ada = reader(&service, &admin).await;
    bind(&admin, "slow").await;
    let agent = agent(&ada).await;
    for (tool, arguments, action) in [
        ("svc_query_traces", json!({}), "traces.query"),
        ("svc_trace_stats", json!({}), "traces.stats"),
        ("svc_get_trace", json!({"trace_id": "1".repeat(32)}), "traces.get"),
    ] {
        let params = json!({"name": tool, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let asking = tokio::spawn(agent.request(Method::POST, "/mcp").json(&message).send());
        wait_for(&store, 1, Duration::from_secs(10)).await;
        asking.abort();
        let _ = asking.await.map(drop);
        wait_for(&store, 0, SOON).await;
        assert_eq!(outcomes_of(&admin, action, 1).await, ["aborted"], "{tool}");
    }
}

/// `TRACEWARDEN_TEST_CLIENT_DISCONNECTS` clients use each operation that reads spans in turn, and disconnect at different times.
#[tokio::test]
async fn many_client_disconnects_stop_all_statements() {
    let many = Repetitions::always(18).get("TRACEWARDEN_TEST_CLIENT_DISCONNECTS");
    let store = store().await;
    let (service, admin) = bound_service_at(&store.url, &store, &[]).await;
    let ada = reader(&service, &admin).await;
    bind(&admin, "slow").await;
    let agent = agent(&ada).await;
    let trace = format!("/traces/{}", "1".repeat(32));
    let role = json!({"role": "shop", "policies": [{"title": "All", "expression": "true"}], "by": "ServiceName", "seconds": 60});
    let tool = |name: &str| {
        let params = json!({"name": name, "arguments": {}});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    };
    let query =
        |accept: &str| ada.with("accept", accept).request(Method::POST, "/traces/query").json(&json!({}));
    let mut longest = Duration::ZERO;
    for number in 0..many {
        let (name, request) = match number % 9 {
            0 => ("a search", query("application/json")),
            1 => ("a search as NDJSON", query("application/x-ndjson")),
            2 => ("a trace", ada.request(Method::GET, &trace)),
            3 => ("an explanation", ada.request(Method::GET, &format!("{trace}/explain"))),
            4 => ("values", ada.request(Method::GET, "/filter/values?ref=ServiceName")),
            5 => ("an agent's search", agent.request(Method::POST, "/mcp").json(&tool("svc_query_traces"))),
            6 => ("an agent's counts", agent.request(Method::POST, "/mcp").json(&tool("svc_trace_stats"))),
            7 => ("a preview", admin.request(Method::POST, "/policies/preview").json(&role)),
            _ => ("sharing", admin.request(Method::POST, "/policies/collateral-access").json(&role)),
        };
        let asking = tokio::spawn(request.send());
        until(async || (name, running(&store).await), |(_, running)| *running > 0).await;
        tokio::time::sleep(Duration::from_millis(17 * (number as u64 % 13))).await;
        asking.abort();
        let left = Instant::now();
        let _ = asking.await.map(drop);
        wait_for(&store, 0, SOON).await;
        longest = longest.max(left.elapsed());
    }
    println!(
        "{many} clients disconnected; the slowest of their statements ended {} ms later",
        longest.as_millis()
    );
}

#[tokio::test]
async fn a_service_that_stops_leaves_nothing_running() {
    let store = store().await;
    let environment = [("TRACEWARDEN_SHUTDOWN_GRACE", "1s")];
    let (mut service, admin) = bound_service_at(&store.url, &store, &environment).await;
    let ada = reader(&service, &admin).await;
    bind(&admin, "slow").await;
    let asking = tokio::spawn(ada.request(Method::POST, "/traces/query").json(&json!({})).send());
    wait_for(&store, 1, Duration::from_secs(10)).await;
    let pid = service.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(tokio::task::spawn_blocking(move || service.wait()).await.unwrap().success());
    wait_for(&store, 0, SOON).await;
    assert!(asking.await.unwrap().is_err(), "the answer must be aborted");
}

/// A slow reader may take longer than `query_timeout` to read a page, but not longer than `answer_timeout`.
#[tokio::test]
async fn slow_readers_have_a_separate_limit() {
    let store = store().await;
    let environment = [("TRACEWARDEN_QUERY_TIMEOUT", "2s"), ("TRACEWARDEN_ANSWER_TIMEOUT", "8s")];
    let (service, admin) = bound_service_at(&store.url, &store, &environment).await;
    let ada = reader(&service, &admin).await;
    let mut answer = ada.request(Method::POST, "/traces/query").json(&json!({})).send().await.unwrap();
    let mut last = answer.chunk().await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    while let Some(chunk) = answer.chunk().await.unwrap() {
        last = chunk;
    }
    assert!(last.ends_with(b"]}\n"), "the document must be complete");
    let mut answer = ada.request(Method::POST, "/traces/query").json(&json!({})).send().await.unwrap();
    assert!(answer.chunk().await.unwrap().is_some());
    wait_for(&store, 1, Duration::from_secs(5)).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    wait_for(&store, 0, SOON).await;
    assert!(answer.bytes().await.is_err(), "the page must be aborted");
    assert_eq!(outcomes(&admin, 1).await, ["failed"]);
}
