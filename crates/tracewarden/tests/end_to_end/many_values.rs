//! Policies and filters with very many values: an answer or an error, and the service keeps running.

use serde_json::{Value, json};

use crate::support::store::{Store, bound_service};

fn values(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

#[tokio::test]
async fn lists_of_thousands_of_values_work() {
    let store = Store::start();
    store.insert_two_traces().await;
    let (service, admin) = bound_service(&store, &[("TRACEWARDEN_MAX_VALUES", "1000")]).await;
    let lists: Vec<String> = (0..7).map(|list| format!("t{list}")).collect();
    let expression: Vec<String> =
        lists.iter().map(|list| format!("SpanAttributes.team in user.attributes.{list}")).collect();
    let policies = json!({"policies": [{"title": "Lists", "expression": expression.join(" || ")}]});
    admin.put("/roles/lists", policies).await.expect(201);
    let ada = service.user(&admin, "ada", &["lists"]).await;
    let mut attributes: serde_json::Map<String, Value> =
        lists.iter().map(|list| (list.clone(), json!(values(list, 1_000)))).collect();
    attributes.insert("t3".to_owned(), json!(["blue"]));
    admin.patch("/users/ada", json!({ "attributes": attributes })).await.expect(200);
    let found = ada.post("/traces/query", json!({"view": "ids"})).await.expect(200).body;
    assert_eq!(found["trace_ids"], json!(["1".repeat(32)]));

    let conditions: Vec<Value> = (0..8)
        .map(|number| {
            let mut values = values(&number.to_string(), 999);
            values.push("blue".to_owned());
            json!({"map": "SpanAttributes", "name": "team", "op": "in", "values": values})
        })
        .collect();
    let query = json!({"view": "ids", "filter": {"conditions": conditions}});
    assert_eq!(ada.post("/traces/query", query).await.expect(200).body["trace_ids"], found["trace_ids"]);

    // An excessive policy is an error for this caller only.
    let loops = json!({"policies": [{"title": "Loops", "expression":
        "user.attributes.t0.exists(x, user.attributes.t1.exists(y, SpanAttributes.team == x && ServiceName == y))"}]});
    admin.put("/roles/loops", loops).await.expect(201);
    admin.patch("/users/ada", json!({"roles": ["loops"]})).await.expect(200);
    let refused = ada.post("/traces/query", json!({"view": "ids"})).await.problem(500, "policy_broken");
    // The error blames the attributes; the policy itself compiles.
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(
        detail.contains("too large with your roles and attributes") && !detail.contains("compile"),
        "{detail}"
    );
    admin.patch("/users/ada", json!({"roles": ["lists"]})).await.expect(200);
    ada.post("/traces/query", json!({"view": "ids"})).await.expect(200);
}
