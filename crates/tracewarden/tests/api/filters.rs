//! Filters with conditions for one span together, and with conditions that no span may satisfy.

use serde_json::{Value, json};

use crate::support::store::{BLUE, RED, Store, two_teams};

/// A condition on the number of a span: 0, 2 and 4 in the one trace, 1, 3 and 5 in the other.
fn size(number: u64) -> Value {
    json!({"ref": "SpanAttributes[\"size\"]", "op": "eq", "value": number})
}

fn team(name: &str) -> Value {
    json!({"ref": "SpanAttributes[\"team\"]", "op": "eq", "value": name})
}

#[tokio::test]
async fn conditions_of_one_span_and_of_no_span() {
    let store = Store::start();
    let (service, admin, ada) = two_teams(&store).await;
    admin.put("/roles/all", json!({"policies": [{"title": "All", "expression": "true"}]})).await.expect(201);
    let eve = service.user(&admin, "eve", &["all"]).await;
    let query = |filter: Value| json!({"filter": filter, "view": "ids"});
    for (filter, expected) in [
        (json!({"conditions": [size(0), size(2)]}), vec![BLUE]),
        (json!({"same_span": [[size(0), size(2)]]}), vec![]),
        (json!({"same_span": [[size(0)], [size(2), team("blue")]]}), vec![BLUE]),
        (json!({"same_span": [[size(0), team("red")]]}), vec![]),
        (json!({"none": [size(0)]}), vec![RED]),
        (json!({"none": [size(0), size(1)]}), vec![]),
        (
            json!({"conditions": [size(1)], "same_span": [[size(3), team("red")]], "none": [size(0)]}),
            vec![RED],
        ),
        (json!({"conditions": null, "same_span": null, "none": []}), vec![BLUE, RED]),
    ] {
        let mut found: Vec<Value> =
            eve.post("/traces/query", query(filter.clone())).await.expect(200).body["trace_ids"]
                .as_array()
                .unwrap()
                .clone();
        found.sort_by_key(Value::to_string);
        assert_eq!(found, expected, "{filter}");
    }
    // A filter never widens access.
    let hidden = query(json!({"none": [team("blue")]}));
    assert_eq!(ada.post("/traces/query", hidden).await.expect(200).body["trace_ids"], json!([]));

    let mut summaries = json!({"filter": {"same_span": [[size(2), team("blue")]]}, "view": "summary"});
    let found = eve.post("/traces/query", summaries.take()).await.expect(200).body;
    assert_eq!(found["traces"][0]["matched_span_ids"], json!(["0000000000000002"]));
    let records = admin.get("/audit?action=traces.query&actor=eve&limit=2").await.expect(200).body;
    let recorded = records["records"]
        .as_array()
        .unwrap()
        .iter()
        .find_map(|record| record["detail"].get("filter").cloned());
    let recorded = recorded.unwrap_or_else(|| panic!("{records}"));
    assert_eq!((&recorded[0]["value"], &recorded[1]["same_span"]), (&json!(2), &json!(1)), "{recorded}");
}

#[tokio::test]
async fn a_cursor_continues_the_same_filter_only() {
    let store = Store::start();
    let (service, admin, _ada) = two_teams(&store).await;
    admin.put("/roles/all", json!({"policies": [{"title": "All", "expression": "true"}]})).await.expect(201);
    let eve = service.user(&admin, "eve", &["all"]).await;
    let page =
        |filter: Value, cursor: Value| json!({"filter": filter, "view": "ids", "limit": 1, "cursor": cursor});
    let filter = json!({"same_span": [[team("red")], [team("red"), size(1)]], "none": [size(9), size(7)]});
    let both = json!({"none": [size(9), size(7)]});
    let first = eve.post("/traces/query", page(both.clone(), Value::Null)).await.expect(200).body;
    let cursor = &first["next_cursor"];
    let reordered = json!({"none": [size(7), size(9)]});
    let second = eve.post("/traces/query", page(reordered, cursor.clone())).await.expect(200).body;
    assert_ne!(first["trace_ids"], second["trace_ids"]);
    for other in [json!({"none": [size(9)]}), json!({"conditions": [size(9), size(7)]}), filter, json!({})] {
        eve.post("/traces/query", page(other, cursor.clone())).await.problem(400, "cursor_filter_mismatch");
    }
}

#[tokio::test]
async fn errors_name_the_condition() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    let unknown = json!({"name": "Servicename", "op": "eq", "value": "x"});
    for (filter, code, pointer) in [
        (json!({"same_span": [[team("blue")], []]}), "invalid_value", "/filter/same_span/1"),
        (json!({"same_span": [[team("blue"), unknown]]}), "unknown_field", "/filter/same_span/0/1/name"),
        (
            json!({"none": [{"name": "Duration", "op": "prefix", "value": "x"}]}),
            "operator_not_allowed",
            "/filter/none/0/op",
        ),
        (
            json!({"none": [{"name": "Duration", "op": "eq", "value": "x"}]}),
            "value_type",
            "/filter/none/0/value",
        ),
        (
            json!({"none": [{"name": "Duration", "op": "in", "values": ["x"]}]}),
            "operator_not_allowed",
            "/filter/none/0/op",
        ),
        (
            json!({"conditions": vec![team("blue"); 9], "same_span": [vec![size(1); 9]], "none": vec![size(2); 3]}),
            "too_many_conditions",
            "/filter",
        ),
    ] {
        let answer = ada.post("/traces/query", json!({"filter": filter})).await.problem(422, code);
        assert_eq!(answer.first_error()["pointer"], pointer, "{filter}");
    }
    let object = json!({"filter": {"none": [{"name": "ServiceName", "op": "eq", "value": {}}]}});
    let answer = ada.post("/traces/query", object).await.problem(400, "invalid_request");
    assert_eq!(answer.first_error()["pointer"], "/filter/none/0/value");
    let fields = json!({"filter": {"same_span": [[{"ref": "a", "name": "a", "op": "exists"}]]}});
    let answer = ada.post("/traces/query", fields).await.problem(422, "invalid_value");
    assert_eq!(answer.first_error()["pointer"], "/filter/same_span/0/0/ref");
}
