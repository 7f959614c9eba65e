//! A page of 200 traces with 200,000 spans: complete, and with bounded memory in the service.

use futures::StreamExt as _;
use serde_json::json;
use tracewarden_testkit::memory;

use crate::support::store::{Store, bound_service};

/// Maximum memory of the service while it streams, in bytes.
const MEMORY_LIMIT: u64 = 150 * 1024 * 1024;

#[tokio::test]
async fn memory_does_not_grow_with_the_page() {
    let store = Store::start();
    store
        .run(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, Duration, SpanAttributes, ResourceAttributes) \
             SELECT now64(9) - 600 + number / 1000, leftPad(toString(intDiv(number, 1000) + 1), 32, '0'), \
             leftPad(toString(number), 16, '0'), 'GET /orders', 'shop', number, \
             map('team', if(number % 1000 = 500, 'blue', 'red'), 'http.route', '/orders/{id}', 'note', repeat('x', 200)), \
             map('host.name', concat('host-', toString(number % 50))) FROM numbers(200000)",
        )
        .await;
    let (service, admin) = bound_service(&store, &[]).await;
    let policies =
        json!({"policies": [{"title": "Blue", "expression": "SpanAttributes[\"team\"] == \"blue\""}]});
    admin.put("/roles/blue", policies).await.expect(201);
    let ada = service.user(&admin, "ada", &["blue"]).await;
    for accept in ["application/json", "application/x-ndjson"] {
        let request = ada.with("accept", accept).request(reqwest::Method::POST, "/traces/query");
        let answer = request.json(&json!({"limit": 5_000})).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let mut body = answer.bytes_stream();
        let (mut bytes, mut spans, mut carried) = (0_u64, 0_usize, Vec::new());
        let mark = b"\"SpanId\":";
        while let Some(chunk) = body.next().await {
            let chunk = chunk.unwrap();
            bytes += chunk.len() as u64;
            // Keep one byte less than the marker, so that a marker across two chunks counts once.
            carried.extend_from_slice(&chunk);
            spans += carried.windows(mark.len()).filter(|window| window == mark).count();
            carried.drain(..carried.len().saturating_sub(mark.len() - 1));
        }
        let peak = memory::peak(service.id()).unwrap();
        println!("{accept}: {spans} spans, {bytes} bytes, at most {} MB in memory", peak >> 20);
        assert_eq!(spans, 200_000);
        assert!(peak < MEMORY_LIMIT, "{peak} bytes");
    }
}
