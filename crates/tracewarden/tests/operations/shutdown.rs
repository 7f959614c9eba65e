//! Shutdown: load balancers are informed, requests in flight may finish, and the remaining ones are visibly aborted.

use std::process::Command;
use std::time::{Duration, Instant};

use reqwest::{Method, Response};
use serde_json::json;
use tracewarden_testkit::wait::until;

use crate::support::store::{Store, bound_service};
use crate::support::{Client, Service};

fn terminate(service: &Service) {
    let pid = service.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
}

/// Starts a service, with a user who may read a trace that is larger than all buffers.
async fn large_trace(environment: &[(&str, &str)]) -> (Store, Service, Client) {
    let store = Store::start();
    store
        .run(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes) \
             SELECT now64(9) - 60, repeat('1', 32), leftPad(toString(number), 16, '0'), 'GET /', 'shop', \
             map('team', 'blue', 'noise', randomPrintableASCII(2000)) FROM numbers(20000)",
        )
        .await;
    let (service, admin) = bound_service(&store, environment).await;
    let policies = json!({"policies": [{"title": "Shop", "expression": "ServiceName == \"shop\""}]});
    admin.put("/roles/shop", policies).await.expect(201);
    let ada = service.user(&admin, "ada", &["shop"]).await;
    (store, service, ada)
}

async fn begin(client: &Client) -> Response {
    let mut response = client.request(Method::POST, "/traces/query").json(&json!({})).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.chunk().await.unwrap().is_some());
    response
}

async fn wait_for(service: &Service, text: &str) {
    until(async || service.log(), |log| log.contains(text)).await;
}

#[tokio::test]
async fn a_running_answer_finishes_and_nothing_new_begins() {
    let (_store, mut service, ada) = large_trace(&[]).await;
    let response = begin(&ada).await;
    terminate(&service);
    wait_for(&service, "running answers may finish").await;
    // A new connection: the client's existing one is closed after its answer.
    let refused = Client::new(&service.base).request(Method::GET, "/healthz").send().await;
    assert!(refused.unwrap_err().is_connect());
    let rest = response.bytes().await.unwrap();
    assert!(rest.ends_with(b"]}\n"), "the document must be complete");
    assert!(service.wait().success());
    assert!(!service.log().contains("abort"), "{}", service.log());
}

#[tokio::test]
async fn readiness_ends_before_service_does() {
    let (_store, mut service, ada) = large_trace(&[("TRACEWARDEN_SHUTDOWN_DELAY", "3s")]).await;
    service.anonymous().get("/readyz").await.expect(200);
    terminate(&service);
    let signalled_at = Instant::now();
    wait_for(&service, "stop requested").await;
    service.anonymous().get("/readyz").await.problem(503, "unavailable");
    service.anonymous().get("/healthz").await.expect(200);
    ada.get("/me").await.expect(200);
    assert!(service.wait().success());
    assert!(signalled_at.elapsed() >= Duration::from_secs(3), "{:?}", signalled_at.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_takes_too_long_is_aborted_and_recorded() {
    let (_store, mut service, ada) = large_trace(&[("TRACEWARDEN_SHUTDOWN_GRACE", "1s")]).await;
    let response = begin(&ada).await;
    let signalled_at = Instant::now();
    terminate(&service);
    // The client does not read until the service has ended.
    let status = tokio::task::block_in_place(|| service.wait());
    let took = signalled_at.elapsed();
    assert!(status.success(), "{}", service.log());
    // The grace period, and the time to end on a busy machine: much less than the default grace period.
    assert!((Duration::from_secs(1)..Duration::from_secs(10)).contains(&took), "{took:?}");
    assert!(service.log().contains("abort"));
    assert!(response.bytes().await.is_err(), "a cut page must not look complete");
    service.restart_with(&[]);
    let admin = service.admin().await;
    let records = admin.get("/audit?action=traces.query&limit=1").await.expect(200).body;
    assert_eq!(records["records"][0]["outcome"], "aborted", "{records}");
}
