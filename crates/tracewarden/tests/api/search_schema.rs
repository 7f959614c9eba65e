//! The `schema` of answers with spans: omitted columns, and how far around the time range traces were searched.

use serde_json::{Value, json};

use crate::support::store::{BLUE, Store, binding, two_teams};

#[tokio::test]
async fn columns_that_are_stored_are_shown_and_aliases_are_named() {
    let store = Store::start();
    store
        .run(
            "ALTER TABLE otel.otel_traces ADD COLUMN Team LowCardinality(String) MATERIALIZED SpanAttributes['team'], \
             ADD COLUMN Kind2 String ALIAS SpanKind, ADD COLUMN Items Array(String) ALIAS mapKeys(SpanAttributes)",
        )
        .await;
    let (_service, _admin, ada) = two_teams(&store).await;
    let lines = ada.with("accept", "application/x-ndjson");
    let first = |bytes: Vec<u8>| -> Value {
        let text = String::from_utf8(bytes).unwrap();
        let line = text.lines().next().unwrap();
        serde_json::from_str::<Value>(line).unwrap()["schema"].clone()
    };
    let omitted = json!(["Kind2", "Items"]);
    for _ in 0..2 {
        let page = ada.post("/traces/query", json!({})).await.expect(200).body;
        let trace = ada.get(&format!("/traces/{BLUE}")).await.expect(200).body;
        for answer in [&page, &trace] {
            assert_eq!(answer["schema"]["omitted_columns"], omitted);
            let spans = answer["spans"].as_array().unwrap();
            assert_eq!(spans.len(), 3);
            for span in spans {
                assert_eq!(span["Team"], "blue", "{span}");
                assert!(span.get("Kind2").is_none() && span.get("Items").is_none(), "{span}");
            }
        }
        let page = lines.post("/traces/query", json!({})).await.expect(200);
        assert_eq!(first(page.bytes)["omitted_columns"], omitted);
    }
    // Answers with named columns, or without spans, have no omitted columns.
    for body in [json!({"columns": ["Items"]}), json!({"view": "ids"}), json!({"view": "summary"})] {
        let page = ada.post("/traces/query", body).await.expect(200).body;
        assert!(page["schema"].get("omitted_columns").is_none(), "{page}");
    }
    let page = ada.post("/traces/query", json!({"columns": ["Items"]})).await.expect(200).body;
    assert_eq!(page["spans"][0]["Items"], json!(["team", "size"]));
}

#[tokio::test]
async fn answers_name_the_range_read_around_the_window() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    let window = json!({"from": "2026-11-21T10:00:00Z", "to": "2026-11-21T12:00:00Z"});
    let around = json!({"from": "2026-11-21T09:00:00Z", "to": "2026-11-21T13:00:00Z"});
    for view in ["spans", "summary", "ids"] {
        let mut body = window.clone();
        body["view"] = view.into();
        for client in [&ada, &admin] {
            let page = client.post("/traces/query", body.clone()).await.expect(200).body;
            assert_eq!(page["schema"]["searched_around"], around, "{view}");
        }
    }
    let values = "/filter/values?ref=ServiceName&from=2026-11-21T10:00:00Z&to=2026-11-21T12:00:00Z";
    for client in [&ada, &admin] {
        let answer = client.get(values).await.expect(200).body;
        assert_eq!(answer["searched_around"], around, "{answer}");
    }
    // A trace that is fetched by id is always complete.
    let trace = ada.get(&format!("/traces/{BLUE}")).await.expect(200).body;
    assert!(trace["schema"].get("searched_around").is_none(), "{trace}");
    // With a trace index, the extent of each trace is known.
    store
        .run("CREATE TABLE IF NOT EXISTS otel.otel_traces_trace_id_ts (TraceId String, Start DateTime, End DateTime) ENGINE = MergeTree ORDER BY TraceId")
        .await;
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    let mut bound = binding();
    bound["trace_index"] = "otel_traces_trace_id_ts".into();
    admin.with("if-match", &version).put("/schema/binding", bound).await.expect(200);
    let page = ada.post("/traces/query", window).await.expect(200).body;
    assert!(page["schema"].get("searched_around").is_none(), "{page}");
    let answer = ada.get(values).await.expect(200).body;
    assert!(answer.get("searched_around").is_none(), "{answer}");
}
