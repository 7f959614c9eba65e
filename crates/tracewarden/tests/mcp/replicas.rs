//! Any replica answers any call: paging continues on another replica.

use std::sync::Arc;

use serde_json::{Value, json};
use tracewarden_testkit::postgres;

use crate::mcp::rpc::{call, key, send};
use crate::support::store::{self, Store, blue_policies};
use crate::support::{Client, Service};

/// Number of traces of the team `blue`.
const TRACES: u64 = 9;
/// Spans per trace: more than a small answer holds.
const SPANS: u64 = 12;

#[tokio::test]
async fn pages_continue_at_another_replica() {
    let store = Store::start();
    store
        .run(&format!(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, ServiceName, Duration, StatusCode, SpanAttributes) \
             SELECT now64(9) - 60 - number, leftPad(hex(number % {TRACES} + 1), 32, '0'), leftPad(hex(number + 1), 16, '0'), '', \
             'GET /' || char(97 + number % 7), 'shop', 1000, 'Ok', map('team', 'blue') FROM numbers({})",
            TRACES * SPANS
        ))
        .await;
    let database = Arc::new(postgres::database().unwrap());
    let [a, b] = [0, 1].map(|_| Service::start_on(&database, &store.settings()));
    let admin = a.admin().await;
    store::bind(&admin).await;
    admin.put("/roles/blue", blue_policies()).await.expect(201);
    let ada = a.user(&admin, "ada", &["blue"]).await;
    let agent = key(&ada, json!({})).await;
    let replicas = [agent.at(&a), agent.at(&b)];

    let introduction = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "hopping", "version": "1"}});
    let introduced = send(&replicas[0], "initialize", introduction).await.expect(200);
    let session = introduced.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let replicas = replicas.map(|replica| replica.with("mcp-session-id", &session));
    let lists = [
        send(&replicas[0], "tools/list", json!({})).await,
        send(&replicas[1], "tools/list", json!({})).await,
    ];
    assert_eq!(lists[0].body, lists[1].body);

    // Pages of a search.
    let traces = all_pages_alternating(
        &replicas,
        "svc_query_traces",
        json!({"limit": 2, "last": "1h"}),
        "traces",
        "list the next traces",
    )
    .await;
    let ids: std::collections::BTreeSet<&str> =
        traces.iter().map(|trace| trace["trace_id"].as_str().unwrap()).collect();
    assert_eq!((traces.len() as u64, ids.len() as u64), (TRACES, TRACES));
    // Pages of a trace.
    let full = json!({"trace_id": traces[0]["trace_id"], "view": "full", "max_tokens": 1_200});
    let spans = all_pages_alternating(&replicas, "svc_get_trace", full, "spans", "go on").await;
    assert_eq!(spans.len() as u64, SPANS);
    // The second replica knows the client's name that the first received.
    let arguments = json!({"containing": "team"});
    call(&replicas[1], "svc_filter_schema", arguments.clone()).await.expect();
    let record = &admin.get("/audit?actor=ada&limit=1").await.expect(200).body["records"][0];
    let mcp = &record["detail"]["mcp"];
    assert_eq!((&mcp["client"], &mcp["arguments"]), (&json!("hopping 1"), &arguments), "{record}");
    // A change on one replica takes effect on the other.
    admin.delete("/roles/blue").await.expect(204);
    assert_eq!(call(&replicas[1], "svc_query_traces", json!({})).await.expect().body["returned"], 0);
}

/// Returns all items of a list, with each page from the other replica.
async fn all_pages_alternating(
    replicas: &[Client; 2],
    tool: &str,
    arguments: Value,
    list: &str,
    to: &str,
) -> Vec<Value> {
    let (mut all, mut arguments) = (Vec::new(), arguments);
    for page_number in 0.. {
        let body = call(&replicas[page_number % 2], tool, arguments).await.expect().body;
        let page = body[list].as_array().unwrap();
        assert!(!page.is_empty(), "{body}");
        all.extend(page.clone());
        let next = body["next"].as_array().unwrap().iter().find(|next| next["to"] == to).cloned();
        match next {
            Some(next) => arguments = next["arguments"].clone(),
            None => {
                assert!(page_number > 0, "one replica returned all pages: {body}");
                return all;
            }
        }
    }
    all
}
