//! A program instrumented with the official SDK, and two users with access to different traces.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tracewarden_testkit::python::prepared_python;

use crate::support::Client;
use crate::support::store::{Store, binding};

/// Runs the program and returns the ids of its traces.
fn run_shop(store: &Store, orders: &[&str]) -> Vec<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/end_to_end/shop.py");
    let output =
        Command::new(prepared_python().unwrap()).arg(script).arg(&store.otlp).args(orders).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let ids: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(ids.len(), orders.len(), "{errors}");
    ids
}

fn order_is(order: &str) -> Value {
    json!({"filter": {"conditions": [{"map": "SpanAttributes", "name": "order.id", "op": "eq", "value": order}]}})
}

/// Queries until an answer has spans, for at most two seconds.
async fn within_two_seconds(client: &Client, body: Value) -> Vec<Value> {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let page = client.post("/traces/query", body.clone()).await.expect(200).body;
        let spans = page["spans"].as_array().unwrap().clone();
        if !spans.is_empty() || Instant::now() > deadline {
            return spans;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn one_attribute_of_an_inner_span_grants_access_to_the_whole_trace() {
    let store = Store::start();
    let service = store.service();
    let admin = service.admin().await;
    // Discovery finds the table, and its keys once there are spans.
    run_shop(&store, &["warm-up"]);
    let tables = admin.get("/schema/tables").await.expect(200).body;
    let found =
        tables["tables"].as_array().unwrap().iter().find(|table| table["name"] == "otel_traces").unwrap();
    for (member, column) in binding().as_object().unwrap() {
        assert_eq!(&found["proposal"][member], column, "{found}");
    }
    assert_eq!(found["proposal"]["trace_index"], "otel_traces_trace_id_ts");
    let bound = admin.put("/schema/binding", found["proposal"].clone()).await.expect(200);
    let table = admin.get("/schema/tables/otel/otel_traces").await.expect(200).body.to_string();
    assert!(table.contains("order.id") && table.contains("warm-up"), "{table}");
    let fields = json!({"fields": [
        {"map": "SpanAttributes", "name": "order.id", "filterable": true, "policy": true},
        {"map": "SpanAttributes", "name": "gift", "type": "boolean", "filterable": true, "policy": true},
        {"map": "SpanAttributes", "name": "cart.skus", "type": "string_array", "filterable": true, "policy": true},
        {"map": "SpanAttributes", "name": "http.response.status_code", "type": "number", "filterable": true, "policy": false},
        {"name": "Events.Name", "filterable": true, "policy": true},
    ]});
    let version = bound.headers["etag"].to_str().unwrap();
    admin.with("if-match", version).put("/schema/fields", fields).await.expect(200);

    let role = |expression: &str| json!({"policies": [{"title": "t", "expression": expression}]});
    admin.put("/roles/mine", role("SpanAttributes[\"order.id\"] == user.attributes.order")).await.expect(201);
    admin.put("/roles/other", role("SpanAttributes[\"order.id\"] == \"someone else's\"")).await.expect(201);
    let ada = service.user(&admin, "ada", &["mine"]).await;
    let bob = service.user(&admin, "bob", &["other"]).await;
    admin.patch("/users/ada", json!({"attributes": {"order": "o-1"}})).await.expect(200);

    let ids = run_shop(&store, &["o-1", "o-2"]);
    let spans = within_two_seconds(&ada, order_is("o-1")).await;
    let names: Vec<&str> = spans.iter().map(|span| span["SpanName"].as_str().unwrap()).collect();
    assert_eq!(names, ["POST /orders", "reserve stock", "charge card", "fraud check"]);
    assert!(spans.iter().all(|span| span["TraceId"] == ids[0]));
    let fetched = ada.get(&format!("/traces/{}", ids[0])).await.expect(200).body;
    assert_eq!(fetched["spans"].as_array().unwrap(), &spans);
    let fraud = &spans[3];
    assert_eq!(fraud["StatusCode"], "Error");
    assert_eq!(fraud["StatusMessage"], "declined\nfor 'reasons'");
    assert_eq!(fraud["Events.Name"], json!(["scored"]));

    // A condition of every logical type matches, each on one of the trace's spans.
    let with = |condition: Value| json!({"filter": {"conditions": [condition]}});
    for condition in [
        json!({"map": "SpanAttributes", "name": "gift", "op": "eq", "value": true}),
        json!({"map": "SpanAttributes", "name": "cart.skus", "op": "has_all", "values": ["b \"2\"", "a-1"]}),
        json!({"map": "SpanAttributes", "name": "http.response.status_code", "op": "between", "values": [200, 299]}),
        json!({"name": "Events.Name", "op": "has", "value": "scored"}),
        json!({"map": "SpanAttributes", "name": "order.id", "op": "prefix", "value": "o-"}),
    ] {
        let page = ada.post("/traces/query", with(condition.clone())).await.expect(200).body;
        assert_eq!(page["spans"].as_array().unwrap(), &spans, "{condition}");
    }

    // The trace exists, and no other user can read any of it.
    for (client, id) in [(&bob, &ids[0]), (&bob, &ids[1]), (&ada, &ids[1]), (&admin, &ids[0])] {
        client.get(&format!("/traces/{id}")).await.problem(404, "trace_not_found");
    }
    for (client, order) in [(&bob, "o-1"), (&bob, "o-2"), (&ada, "o-2"), (&admin, "o-1")] {
        let page = client.post("/traces/query", order_is(order)).await.expect(200).body;
        assert_eq!(page["spans"], json!([]));
    }

    // A change takes effect on the next request.
    admin.patch("/users/ada", json!({"attributes": {"order": "o-2"}})).await.expect(200);
    ada.get(&format!("/traces/{}", ids[0])).await.problem(404, "trace_not_found");
    ada.get(&format!("/traces/{}", ids[1])).await.expect(200);
    admin.delete("/roles/mine").await.expect(204);
    ada.get(&format!("/traces/{}", ids[1])).await.problem(404, "trace_not_found");
}
