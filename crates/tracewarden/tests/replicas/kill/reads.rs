//! `kill -9` while answers stream to slow readers: afterwards, no audit record says that they were complete.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tracewarden_testkit::postgres;

use crate::replicas::audit_log;
use crate::support::store::{self, BLUE, Store, blue_policies};
use crate::support::{Client, Service};

/// Returns the audited outcomes of the last reads, by request id.
async fn outcomes(admin: &Client) -> BTreeMap<String, String> {
    let records = admin.get("/audit?limit=100").await.expect(200).body;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let reads = records["records"].as_array().unwrap().iter();
    reads
        .filter(|record| text(&record["action"]).starts_with("traces."))
        .map(|record| (text(&record["request_id"]), text(&record["outcome"])))
        .collect()
}

async fn killed_while_streaming(mut victim: Service, other: Option<Service>, store: &Store) {
    // Larger than all buffers.
    store
        .run(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes) \
             SELECT now64(9) - 60, repeat('1', 32), leftPad(toString(number), 16, '0'), 'GET /', 'shop', \
             map('team', 'blue', 'noise', randomPrintableASCII(2000)) FROM numbers(20000)",
        )
        .await;
    let admin = victim.admin().await;
    store::bind(&admin).await;
    admin.put("/roles/blue", blue_policies()).await.expect(201);
    let ada = victim.user(&admin, "ada", &["blue"]).await.with("accept-encoding", "identity");
    let page = |client: &Client| client.request(Method::POST, "/traces/query").json(&json!({}));
    let readers = [
        page(&ada),
        page(&ada.with("accept", "application/x-ndjson")),
        page(&ada.with("accept-encoding", "gzip")),
        ada.request(Method::GET, &format!("/traces/{BLUE}")),
    ];
    let mut expected = BTreeMap::new();
    let mut streams = Vec::new();
    for reader in readers {
        let mut answer = reader.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert!(answer.chunk().await.unwrap().is_some());
        expected.insert(answer.headers()["x-request-id"].to_str().unwrap().to_owned(), "unknown".to_owned());
        streams.push(answer);
    }
    // In addition, an answer that was complete.
    let whole = ada.post("/traces/query", json!({"view": "summary"})).await.expect(200);
    expected.insert(whole.headers["x-request-id"].to_str().unwrap().to_owned(), "success".to_owned());
    victim.kill();
    for stream in join_all(streams.into_iter().map(reqwest::Response::bytes)).await {
        assert!(stream.is_err(), "a cut page must not look complete");
    }
    if let Some(other) = &other {
        assert_eq!(outcomes(&admin.at(other)).await, expected);
    }
    victim.restart_with(&[]);
    assert_eq!(outcomes(&admin.at(&victim)).await, expected);
    audit_log::verified(&victim).await;
    audit_log::verify_by_command(&victim);
}

#[tokio::test]
async fn interrupted_reads_have_an_unknown_outcome_on_sqlite() {
    let store = Store::start();
    killed_while_streaming(Service::start_with(&store.settings()), None, &store).await;
}

#[tokio::test]
async fn interrupted_reads_have_an_unknown_outcome_on_postgresql() {
    let store = Store::start();
    let database = Arc::new(postgres::database().unwrap());
    let [victim, other] = [(), ()].map(|()| Service::start_on(&database, &store.settings()));
    killed_while_streaming(victim, Some(other), &store).await;
}
