//! Large answers: complete or visibly aborted, and never buffered in memory.

use std::process::Command;
use std::time::{Duration, Instant};

use reqwest::{Method, Response};
use serde_json::{Value, json};
use tracewarden_testkit::memory;
use tracewarden_testkit::wait::until;

use crate::support::store::{Store, bound_service};
use crate::support::{Client, Service};

/// Number of spans in the large trace, about 2 kB each: more than all buffers between ClickHouse and client hold.
const SPANS: u64 = 20_000;

async fn large_trace() -> (Store, Service, Client, Client) {
    let store = Store::start();
    store
        .run(&format!(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes) \
             SELECT now64(9) - 60, repeat('1', 32), leftPad(toString(number), 16, '0'), 'GET /', 'shop', \
             map('team', 'blue', 'noise', randomPrintableASCII(2000)) FROM numbers({SPANS})"
        ))
        .await;
    let (service, admin) = bound_service(&store, &[]).await;
    let policies =
        json!({"policies": [{"title": "Blue", "expression": "SpanAttributes[\"team\"] == \"blue\""}]});
    admin.put("/roles/blue", policies).await.expect(201);
    let ada = service.user(&admin, "ada", &["blue"]).await;
    (store, service, admin, ada)
}

async fn begin(client: &Client) -> Response {
    let request = client.request(Method::POST, "/traces/query").json(&json!({}));
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    response
}

/// Reads the rest of the answer.
async fn finish(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

#[tokio::test]
async fn an_aborted_page_is_detected_as_incomplete() {
    for (name, value) in [
        ("accept-encoding", "identity"),
        ("accept-encoding", "gzip"),
        ("accept-encoding", "zstd"),
        ("accept", "application/x-ndjson"),
    ] {
        let (mut store, service, _admin, ada) = large_trace().await;
        let mut response = begin(&ada.with(name, value)).await;
        assert!(response.chunk().await.unwrap().is_some());
        store.kill();
        assert!(finish(response).await.is_err(), "{name}: {value}");
        assert!(service.log().contains("the answer was aborted"), "{}", service.log());
        service.anonymous().get("/healthz").await.expect(200);
    }
}

#[tokio::test]
async fn a_slow_reader_costs_no_memory_and_gets_everything() {
    let (_store, service, _admin, ada) = large_trace().await;
    let mut response = begin(&ada).await;
    let mut bytes = response.chunk().await.unwrap().unwrap().to_vec();
    tokio::time::sleep(Duration::from_secs(1)).await;
    bytes.extend(finish(response).await.unwrap());
    let page: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(page["spans"].as_array().unwrap().len() as u64, SPANS);
    assert!(bytes.len() > 40_000_000);
    let peak = memory::peak(service.id()).unwrap();
    assert!(peak < 150_000_000, "{peak} bytes");
}

#[tokio::test]
async fn running_answers_finish_before_the_service_stops() {
    let (_store, mut service, _admin, ada) = large_trace().await;
    let mut response = begin(&ada).await;
    let mut bytes = response.chunk().await.unwrap().unwrap().to_vec();
    assert!(Command::new("kill").args(["-TERM", &service.id().to_string()]).status().unwrap().success());
    until(async || service.log(), |log| log.contains("running answers may finish")).await;
    assert!(ada.request(Method::GET, "/me").send().await.is_err());
    bytes.extend(finish(response).await.unwrap());
    let page: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(page["spans"].as_array().unwrap().len() as u64, SPANS);
    assert!(service.wait().success());
}

#[tokio::test]
async fn answers_that_do_not_finish_in_time_are_aborted() {
    let (_store, mut service, admin, ada) = large_trace().await;
    admin.get("/me").await.expect(200);
    service.restart_with(&[("TRACEWARDEN_SHUTDOWN_GRACE", "1s")]);
    let ada = ada.at(&service);
    let mut response = begin(&ada).await;
    assert!(response.chunk().await.unwrap().is_some());
    let signalled_at = Instant::now();
    assert!(Command::new("kill").args(["-TERM", &service.id().to_string()]).status().unwrap().success());
    assert!(service.wait().success());
    // The grace period, and the time to write the audit records.
    let took = signalled_at.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(15)).contains(&took), "{took:?}");
    assert!(finish(response).await.is_err());
}

#[tokio::test]
async fn client_disconnects_are_audited() {
    let (_store, _service, admin, ada) = large_trace().await;
    let mut response = begin(&ada).await;
    let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    assert!(response.chunk().await.unwrap().is_some());
    drop(response);
    let record = async || {
        let records = admin.get("/audit?limit=5").await.expect(200).body;
        let mut records = records["records"].as_array().unwrap().iter();
        records.find(|record| record["request_id"] == id.as_str()).unwrap().clone()
    };
    until(record, |record| record["outcome"] == "aborted").await;
}

#[tokio::test]
async fn concurrent_queries_of_a_user_are_limited() {
    let (_store, mut service, admin, ada) = large_trace().await;
    service.restart_with(&[("TRACEWARDEN_MAX_QUERIES_PER_USER", "1")]);
    let (admin, ada) = (admin.at(&service), ada.at(&service));
    let running = begin(&ada).await;
    let trace = format!("/traces/{}", "1".repeat(32));
    for refused in [ada.post("/traces/query", json!({})).await, ada.get(&trace).await] {
        let refused = refused.problem(429, "too_many_queries");
        assert_eq!(refused.headers["retry-after"], "1");
    }
    // Other users' queries do not count, nor do operations that read no traces.
    admin.post("/traces/query", json!({})).await.expect(200);
    ada.get("/filter/schema").await.expect(200);
    finish(running).await.unwrap();
    // The query may end slightly later than the answer.
    until(async || ada.get(&trace).await, |answer| answer.status == 200).await;
}
