//! Two ClickHouse replicas, one of which lags behind: each page comes from one of them, whichever fails and when.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tracewarden_testkit::chaos_proxy::{ChaosProxy, Fault};

use crate::support::Client;
use crate::support::store::{Store, blue_policies, bound_service_at};

/// Number of rounds, each with a fault.
const ROUNDS: u64 = 80;

/// Content of a replica. The lagging one also lacks traces: a page selected on one replica and read from the other would
/// have the traces of the one and the spans of the other.
#[derive(Clone, Copy)]
struct ReplicaContent {
    name: &'static str,
    traces: usize,
    /// Spans per trace.
    spans: usize,
}

const AHEAD: ReplicaContent = ReplicaContent { name: "ahead", traces: 40, spans: 5 };
const BEHIND: ReplicaContent = ReplicaContent { name: "behind", traces: 30, spans: 3 };

/// Starts a replica whose spans contain its name.
async fn store(ReplicaContent { name, traces, spans }: ReplicaContent) -> Store {
    let store = Store::start();
    store
        .run(&format!(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes) \
             SELECT now64(9) - 60, leftPad(toString(number % {traces} + 1), 32, '0'), leftPad(toString(number), 16, '0'), \
             repeat('x', 300), 'shop', map('team', 'blue', 'store', '{name}') FROM numbers({})",
            traces * spans
        ))
        .await;
    store
}

/// Returns a page if it is complete.
async fn page(ada: &Client) -> Option<Value> {
    let answer = ada.request(Method::POST, "/traces/query").json(&json!({"limit": 200})).send().await.ok()?;
    let status = answer.status().as_u16();
    let body = answer.bytes().await.ok()?;
    let body: Value = serde_json::from_slice(&body).unwrap();
    // 502 if ClickHouse's answer broke off before any of it was passed on.
    assert!([200, 502, 503].contains(&status), "{status}: {body}");
    (status == 200).then_some(body)
}

/// Returns the replica that a page comes from, and checks that it is a single one.
fn origin(page: &Value) -> &'static str {
    let all = page["spans"].as_array().unwrap();
    let text = |span: &Value, pointer: &str| span.pointer(pointer).unwrap().as_str().unwrap().to_owned();
    let stores: BTreeSet<String> = all.iter().map(|span| text(span, "/SpanAttributes/store")).collect();
    assert_eq!(stores.len(), 1, "{stores:?}");
    let content = [AHEAD, BEHIND].into_iter().find(|content| stores.contains(content.name)).unwrap();
    let mut traces: BTreeMap<String, usize> = BTreeMap::new();
    all.iter().for_each(|span| *traces.entry(text(span, "/TraceId")).or_default() += 1);
    assert_eq!(traces.len(), content.traces, "{}", content.name);
    assert!(traces.values().all(|count| *count == content.spans), "{}: {traces:?}", content.name);
    content.name
}

#[tokio::test]
async fn no_page_mixes_two_stores() {
    let (ahead, behind) = (store(AHEAD).await, store(BEHIND).await);
    let proxies = [&ahead, &behind].map(|store| ChaosProxy::start(store.address()).unwrap());
    let both = format!("{},{}", proxies[0].url(), proxies[1].url());
    let (service, admin) = bound_service_at(&both, &ahead, &[]).await;
    admin.put("/roles/blue", blue_policies()).await.expect(201);
    let ada = service.user(&admin, "ada", &["blue"]).await;
    let mut origins: BTreeMap<&str, usize> = BTreeMap::new();
    let mut refused = 0;
    for round in 0..ROUNDS {
        // Each replica fails for several rounds, long enough for the service to switch to the other one.
        let failing = usize::from(round / 10 % 2 == 1);
        let after = 200 + round * 1_700 % 250_000;
        proxies[1 - failing].set(Fault::None);
        proxies[failing].set(match round % 3 {
            0 => Fault::CutAfter(after),
            1 => Fault::ResetAfter(after),
            _ => Fault::Refuse,
        });
        for page in join_all((0..4).map(|_| page(&ada))).await {
            match page {
                Some(page) => *origins.entry(origin(&page)).or_default() += 1,
                None => refused += 1,
            }
        }
    }
    println!("complete pages: {origins:?}; {refused} refused or aborted");
    assert!(origins.len() == 2 && origins.values().all(|pages| *pages >= 20), "{origins:?}");
    assert!(refused > 0, "no search failed midway, so this run tests nothing");
}
