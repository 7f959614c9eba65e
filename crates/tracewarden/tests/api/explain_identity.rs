//! `/traces/{id}/explain` with empty or repeated span ids.

use serde_json::{Value, json};

use crate::support::Client;
use crate::support::store::{Store, binding, bound_service};

const TRACE: &str = "33333333333333333333333333333333";

/// A span of the trace: start, id, service, name and team.
type InsertedSpan = (u64, &'static str, &'static str, &'static str, &'static str);

/// Returns the explanation of the trace for an administrator with this policy.
async fn explained_policy(admin: &Client, expression: &str) -> Value {
    let policies = json!({"policies": [{"title": "P", "expression": expression}]});
    let answer = admin.put("/roles/reader", policies).await;
    assert!([200, 201].contains(&answer.status), "{}", answer.body);
    let answer = admin.patch("/users/admin", json!({"roles": ["admin", "reader"]})).await;
    answer.expect(200);
    admin.get(&format!("/traces/{TRACE}/explain")).await.expect(200).body["policies"][0].clone()
}

async fn service(store: &Store, spans: &[InsertedSpan]) -> (crate::support::Service, Client) {
    let now = store.ask("SELECT toUnixTimestamp(now()) FORMAT TSV").await;
    let now: u64 = now.trim().parse().unwrap();
    for (second, id, service, name, team) in spans {
        let second = now - 60 + second;
        store
            .run(&format!(
                "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, ServiceName, Duration, \
                 StatusCode, SpanAttributes) SELECT toDateTime64({second}, 9), '{TRACE}', \
                 '{id}', '', '{name}', '{service}', 1000, 'Ok', map('team', '{team}')"
            ))
            .await;
    }
    let (service, admin) = bound_service(store, &[]).await;
    let mut shown = binding();
    shown["display"] = json!({"service": "ServiceName", "name": "SpanName"});
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    admin.with("if-match", &version).put("/schema/binding", shown).await.expect(200);
    (service, admin)
}

fn named(span: &Value) -> (&str, &str) {
    (span["service"].as_str().unwrap(), span["name"].as_str().unwrap())
}

#[tokio::test]
async fn spans_without_ids_are_identified_by_their_content() {
    let store = Store::start();
    let spans = [(0, "", "first", "alpha", "a"), (1, "", "second", "beta", "b")];
    let (_service, admin) = service(&store, &spans).await;
    let policy = explained_policy(&admin, "ServiceName == \"second\"").await;
    assert_eq!(policy["satisfied_by"], 1);
    assert_eq!(named(&policy["spans"][0]), ("second", "beta"), "{policy}");
    assert_eq!(policy["decided_by"]["outcome"], "true");
    assert_eq!(policy["decided_by"]["start"], policy["spans"][0]["start"], "{policy}");

    let policy = explained_policy(&admin, "true").await;
    let all: Vec<_> = policy["spans"].as_array().unwrap().iter().map(named).collect();
    assert_eq!(all, [("first", "alpha"), ("second", "beta")], "{policy}");
}

#[tokio::test]
async fn spans_of_one_id_and_time_are_told_apart_by_name() {
    let store = Store::start();
    const ID: &str = "0000000000000001";
    let mut spans: Vec<InsertedSpan> = vec![(0, ID, "s", "first", "a"), (0, ID, "s", "second", "b")];
    // More spans with one id than are read.
    spans.extend(["c0", "c1", "c2", "c3", "c4", "c5"].map(|team| (1, ID, "other", "same", team)));
    let (_service, admin) = service(&store, &spans).await;
    let policy = explained_policy(&admin, "SpanAttributes[\"team\"] == \"b\"").await;
    assert_eq!(named(&policy["spans"][0]), ("s", "second"), "{policy}");
    assert_eq!(policy["decided_by"]["outcome"], "true", "{policy}");

    // These spans share id, start, name and service: one is listed, all are counted, and one that decides is found.
    let policy = explained_policy(&admin, "ServiceName == \"other\"").await;
    assert_eq!((&policy["satisfied_by"], policy["spans"].as_array().unwrap().len()), (&json!(6), 1));
    let policy = explained_policy(&admin, "SpanAttributes[\"team\"] == \"c5\"").await;
    assert_eq!((&policy["satisfied_by"], &policy["decided_by"]["outcome"]), (&json!(1), &json!("true")));
}
