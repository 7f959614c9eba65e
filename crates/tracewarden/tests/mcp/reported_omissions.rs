//! Data that an answer does not cover: spans too far from the time range, and columns that the call does not name.

use serde_json::{Value, json};

use crate::mcp::rpc::{call, key};
use crate::support::Client;
use crate::support::store::{BLUE, Store, binding, two_teams};

/// The tools that search a time range.
const SEARCHES: [&str; 3] = ["svc_query_traces", "svc_trace_stats", "svc_field_values"];

async fn search(agent: &Client, tool: &str) -> (Value, String) {
    let mut arguments = json!({"from": "2026-11-21T10:00:00Z", "to": "2026-11-21T12:00:00Z"});
    if tool == "svc_field_values" {
        arguments["ref"] = "ServiceName".into();
    }
    let answer = call(agent, tool, arguments).await.expect();
    (answer.body, answer.text)
}

#[tokio::test]
async fn a_search_names_the_range_read_around_the_window() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    let around = json!({"from": "2026-11-21T09:00:00Z", "to": "2026-11-21T13:00:00Z"});
    for tool in SEARCHES {
        let (body, text) = search(&agent, tool).await;
        assert_eq!(body["searched_around"], around, "{tool}: {body}");
        assert!(text.contains("no trace index: spans up to 1h around that were read"), "{tool}: {text}");
    }
    store
        .run("CREATE TABLE IF NOT EXISTS otel.otel_traces_trace_id_ts (TraceId String, Start DateTime, End DateTime) ENGINE = MergeTree ORDER BY TraceId")
        .await;
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    let mut bound = binding();
    bound["trace_index"] = "otel_traces_trace_id_ts".into();
    admin.with("if-match", &version).put("/schema/binding", bound).await.expect(200);
    for tool in SEARCHES {
        let (body, text) = search(&agent, tool).await;
        assert!(body.get("searched_around").is_none(), "{tool}: {body}");
        assert!(!text.contains("trace index"), "{tool}: {text}");
    }
}

#[tokio::test]
async fn alias_columns_are_listed() {
    let store = Store::start();
    let aliases: Vec<String> =
        (0..12).map(|at| format!("ADD COLUMN Alias{at} String ALIAS SpanKind")).collect();
    store.run(&format!("ALTER TABLE otel.otel_traces {}", aliases.join(", "))).await;
    let (_service, _admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    let whole = call(&agent, "svc_get_trace", json!({"trace_id": BLUE, "view": "full"})).await.expect();
    let id = whole.body["spans"][0]["SpanId"].clone();
    let spans = call(&agent, "svc_get_spans", json!({"trace_id": BLUE, "span_ids": [id]})).await.expect();
    for answer in [whole, spans] {
        let omitted = answer.body["omitted_columns"].as_array().unwrap();
        assert_eq!((omitted.len(), &omitted[0], &omitted[10]), (11, &json!("Alias0"), &json!("… 2 more")));
        assert!(answer.text.contains("only where `columns` names them: Alias0, Alias1"), "{}", answer.text);
    }
    for (tool, arguments) in [
        ("svc_get_trace", json!({"trace_id": BLUE, "view": "full", "columns": ["Alias0"]})),
        ("svc_get_trace", json!({"trace_id": BLUE})),
        ("svc_get_spans", json!({"trace_id": BLUE, "span_ids": [id], "columns": ["Alias0"]})),
    ] {
        let answer = call(&agent, tool, arguments).await.expect();
        assert!(answer.body.get("omitted_columns").is_none(), "{}", answer.body);
        assert!(!answer.text.contains("names them"), "{}", answer.text);
    }
}
