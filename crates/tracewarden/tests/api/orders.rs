//! Orders of traces: of all matching traces, and only of those that the caller may see.

use serde_json::{Value, json};

use crate::support::Client;
use crate::support::store::{Store, binding, bound_service};

/// Inserts 40 traces, 20 of each team, in the last hour. Their durations, spans and errors are in no order of time.
async fn insert_traces(store: &Store) {
    store
        .run(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, ServiceName, Duration, StatusCode, SpanAttributes) \
             SELECT now64(9) - 3000 + trace * 60 + span, leftPad(hex(trace + 1), 32, '0'), leftPad(hex(trace * 100 + span), 16, '0'), \
             '', 'GET /', 'shop', (trace * 17 % 40) * 1000000000, if(span < trace * 7 % 5, 'Error', 'Ok'), \
             map('team', if(trace % 2 = 0, 'blue', 'red')) \
             FROM (SELECT number AS trace, arrayJoin(range(1 + number * 11 % 6)) AS span FROM numbers(40))",
        )
        .await;
}

/// Returns all pages of ids in an order.
async fn all_pages(client: &Client, order: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let query = json!({"view": "ids", "order": order, "limit": 7, "cursor": cursor});
        let page = client.post("/traces/query", query).await.expect(200).body;
        let found = page["trace_ids"].as_array().unwrap().iter();
        ids.extend(found.map(|id| id.as_str().unwrap().to_owned()));
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            return ids;
        }
    }
}

#[tokio::test]
async fn orders_agree_with_the_summaries() {
    let store = Store::start();
    insert_traces(&store).await;
    let (service, admin) = bound_service(&store, &[]).await;
    let mut shown = binding();
    shown["display"] = json!({"duration": "Duration", "status": "StatusCode"});
    let current = admin.get("/schema").await.expect(200);
    let version = current.headers["etag"].to_str().unwrap();
    admin.with("if-match", version).put("/schema/binding", shown).await.expect(200);
    let blue = json!({"policies": [{"title": "Blue", "expression": "SpanAttributes[\"team\"] == \"blue\""}]});
    admin.put("/roles/blue", blue).await.expect(201);
    admin.put("/roles/all", json!({"policies": [{"title": "All", "expression": "true"}]})).await.expect(201);
    for (name, traces) in [("blue", 20), ("all", 40)] {
        let user = service.user(&admin, &format!("user-of-{name}"), &[name]).await;
        let every = json!({"view": "summary", "limit": 200});
        let summaries = user.post("/traces/query", every).await.expect(200).body["traces"].clone();
        let summaries = summaries.as_array().unwrap();
        assert_eq!(summaries.len(), traces);
        for (order, member) in
            [("longest", "duration_nanos"), ("most_errors", "error_count"), ("most_spans", "span_count")]
        {
            let mut sorted: Vec<(i64, String)> = summaries
                .iter()
                .map(|trace| {
                    (-trace[member].as_i64().unwrap(), trace["trace_id"].as_str().unwrap().to_owned())
                })
                .collect();
            sorted.sort();
            let expected: Vec<String> = sorted.into_iter().map(|(_, id)| id).collect();
            assert_eq!(all_pages(&user, order).await, expected, "{order} of {name}");
        }
        let newest = json!({"view": "ids", "limit": 200});
        let newest = user.post("/traces/query", newest).await.expect(200).body["trace_ids"].clone();
        assert_eq!(json!(all_pages(&user, "newest").await), newest);
    }
}

#[tokio::test]
async fn a_cursor_continues_the_same_order_only() {
    let store = Store::start();
    insert_traces(&store).await;
    let (service, admin) = bound_service(&store, &[]).await;
    admin.put("/roles/all", json!({"policies": [{"title": "All", "expression": "true"}]})).await.expect(201);
    let eve = service.user(&admin, "eve", &["all"]).await;
    let page =
        |order: &str, cursor: &Value| json!({"view": "ids", "order": order, "limit": 3, "cursor": cursor});
    let first = eve.post("/traces/query", page("most_spans", &Value::Null)).await.expect(200).body;
    let cursor = &first["next_cursor"];
    eve.post("/traces/query", page("most_spans", cursor)).await.expect(200);
    eve.post("/traces/query", page("newest", cursor)).await.problem(400, "invalid_cursor");
    let by_time = eve.post("/traces/query", page("newest", &Value::Null)).await.expect(200).body;
    eve.post("/traces/query", page("most_spans", &by_time["next_cursor"]))
        .await
        .problem(400, "invalid_cursor");
}

#[tokio::test]
async fn orders_without_their_column_are_rejected() {
    let store = Store::start();
    let (service, admin) = bound_service(&store, &[]).await;
    admin.put("/roles/all", json!({"policies": [{"title": "All", "expression": "true"}]})).await.expect(201);
    let eve = service.user(&admin, "eve", &["all"]).await;
    // This trace source has neither a duration nor a status column.
    for order in ["longest", "most_errors"] {
        let query = json!({"order": order});
        let refused = eve.post("/traces/query", query).await.problem(422, "invalid_value");
        assert_eq!(refused.body["errors"][0]["pointer"], "/order", "{}", refused.body);
    }
    let unknown = json!({"order": "shortest"});
    let refused = eve.post("/traces/query", unknown).await.problem(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/order", "{}", refused.body);
}
