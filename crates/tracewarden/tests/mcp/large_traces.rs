//! Large, deep and hostile traces: answers stay within the requested size, suggest next calls, and paging covers
//! everything.

mod checks;
mod fixtures;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::mcp::rpc::key;
use crate::support::store::{Store, binding};
use crate::support::{Client, Service};

/// All traces begin after this time.
const FROM: &str = "2025-12-31T00:00:00Z";

/// A trace in ClickHouse.
struct Trace {
    id: String,
    spans: usize,
}

/// Returns a client with access to everything, with an API key.
async fn reader(store: &Store) -> (Service, Client) {
    let service = store.service();
    let admin = service.admin().await;
    let mut bound = binding();
    bound["display"] = json!({"name": "SpanName", "service": "ServiceName", "duration": "Duration", "status": "StatusCode",
        "kind": "SpanKind"});
    let answer = admin.put("/schema/binding", bound).await.expect(200);
    let column = |name: &str| json!({"name": name, "filterable": true, "policy": true});
    let attribute =
        |name: &str| json!({"map": "SpanAttributes", "name": name, "filterable": true, "policy": true});
    let fields = json!({"fields": [column("ServiceName"), column("SpanName"), column("StatusCode"), attribute("app.note"),
        attribute(&fixtures::hostile_key())]});
    let version = answer.headers["etag"].to_str().unwrap();
    admin.with("if-match", version).put("/schema/fields", fields).await.expect(200);
    let all = json!({"policies": [{"title": "All", "expression": "SpanName != \"nothing is named this\""}]});
    admin.put("/roles/all", all).await.expect(201);
    let ada = service.user(&admin, "ada", &["all"]).await;
    let client = key(&ada, json!({})).await;
    (service, client)
}

async fn span_ids(store: &Store, trace: &Trace) -> Vec<String> {
    let ids = store
        .ask(&format!("SELECT SpanId FROM otel.otel_traces WHERE TraceId = '{}' ORDER BY SpanId", trace.id))
        .await;
    let ids: Vec<String> = ids.lines().map(str::to_owned).collect();
    assert_eq!(ids.len(), trace.spans);
    ids
}

/// Runs all checks; `outlines` are page sizes, `full` the arguments for reading all spans, if that is tested. Returns the
/// tools that showed text of hostile spans.
async fn check(store: &Store, trace: Trace, outlines: &[u64], full: Option<Value>) -> BTreeSet<String> {
    let other = fixtures::other(store).await;
    let (_service, client) = reader(store).await;
    let span_ids = span_ids(store, &trace).await;
    for max_tokens in outlines {
        checks::check_outline(&client, &trace, *max_tokens).await;
    }
    if let Some(arguments) = full {
        checks::check_all_spans_listed(&client, &trace, &span_ids, arguments).await;
    }
    checks::check_every_answer(&client, &trace, &other, &span_ids).await
}

#[tokio::test]
async fn ten_thousand_spans_of_the_shop() {
    let store = Store::start();
    let trace = fixtures::reindex(&store).await;
    let full = json!({"columns": ["SpanName"], "max_tokens": 20_000});
    check(&store, trace, &[1_000, 3_000], Some(full)).await;
}

#[tokio::test]
async fn ten_thousand_names() {
    let store = Store::start();
    let trace = fixtures::unique_names(&store).await;
    // The shop's trace has as many spans, so reading all of them is tested there.
    check(&store, trace, &[20_000], None).await;
}

#[tokio::test]
async fn a_chain_of_five_thousand() {
    let store = Store::start();
    let trace = fixtures::chain(&store).await;
    let full = json!({"columns": ["SpanName"], "max_tokens": 20_000});
    check(&store, trace, &[20_000], Some(full)).await;
}

#[tokio::test]
async fn hostile_texts_stay_marked_as_data() {
    let store = Store::start();
    let trace = fixtures::hostile(&store).await;
    let marked_tools = check(&store, trace, &[6_000], Some(json!({"max_tokens": 10_000}))).await;
    // The tool for fields shows no spans.
    let expected = [
        "svc_compare_traces",
        "svc_critical_path",
        "svc_explain_access",
        "svc_field_values",
        "svc_get_spans",
        "svc_get_trace",
        "svc_get_trace errors",
        "svc_get_trace full",
        "svc_get_trace outline",
        "svc_get_trace slowest",
        "svc_query_traces",
        "svc_trace_stats",
    ];
    assert!(marked_tools.iter().eq(expected), "{marked_tools:?}");
}
