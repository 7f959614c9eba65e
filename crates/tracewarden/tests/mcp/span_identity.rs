//! Spans with empty or repeated ids in tool answers.

use serde_json::json;

use crate::mcp::rpc::{call, key};
use crate::support::store::{Store, binding, two_teams};

const ID: &str = "0000000000000000000000000000000e";

#[tokio::test]
async fn spans_of_one_id_are_not_mistaken_for_each_other() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    // Six spans without an id, a second apart, each with a different message.
    store
        .run(&format!(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, ServiceName, Duration, \
             StatusCode, StatusMessage, SpanAttributes) SELECT now64(9) - 30 + number, '{ID}', '', '', \
             concat('name-', char(97 + number)), concat('service-', char(97 + number)), 5000000, 'Error', \
             concat('message ', char(97 + number)), map('team', 'blue') FROM numbers(6)"
        ))
        .await;
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    let mut shown = binding();
    shown["display"] =
        json!({"service": "ServiceName", "name": "SpanName", "duration": "Duration", "status": "StatusCode"});
    admin.with("if-match", &version).put("/schema/binding", shown).await.expect(200);
    let agent = key(&ada, json!({})).await;

    let answer = call(&agent, "svc_get_trace", json!({"trace_id": ID, "view": "errors"})).await.expect();
    let errors = answer.body["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 6, "{}", answer.body);
    for error in errors {
        let message = error["message"].as_str().unwrap();
        let letter = message.strip_prefix("message ").unwrap();
        assert!(error["path"].to_string().contains(&format!("service-{letter}")), "{error}");
    }
    let answer = call(&agent, "svc_get_trace", json!({"trace_id": ID, "view": "full", "max_tokens": 20_000}))
        .await
        .expect();
    let names: Vec<&str> = answer.body["spans"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|span| span["SpanName"].as_str())
        .collect();
    assert_eq!(names, ["name-a", "name-b", "name-c", "name-d", "name-e", "name-f"], "{}", answer.body);

    // Spans that share all these values are each listed once, over several pages.
    let alike = "000000000000000000000000000000a1";
    store
        .run(&format!(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes) SELECT \
             toDateTime64('2026-11-21 10:00:00', 9), '{alike}', '', 'n', 's', \
             map('team', 'blue', 'number', toString(number), 'text', repeat('x', 900)) FROM numbers(12)"
        ))
        .await;
    let mut numbers = std::collections::BTreeSet::new();
    let mut arguments = json!({"trace_id": alike, "view": "full", "max_tokens": 1_500});
    let mut pages = 0;
    loop {
        let answer = call(&agent, "svc_get_trace", arguments.clone()).await.expect();
        for span in answer.body["spans"].as_array().unwrap() {
            let number = span["SpanAttributes"]["number"].as_str().unwrap().to_owned();
            assert!(numbers.insert(number), "twice: {}", answer.body);
        }
        pages += 1;
        let more = answer.body["next"]
            .as_array()
            .unwrap()
            .iter()
            .find(|next| next["arguments"]["cursor"].is_string());
        match more {
            Some(more) => arguments = more["arguments"].clone(),
            None => break,
        }
    }
    assert_eq!((numbers.len(), pages > 2), (12, true), "{pages} pages: {numbers:?}");

    // No suggested call refers to spans by an empty id.
    for (tool, arguments) in [
        ("svc_critical_path", json!({"trace_id": ID})),
        ("svc_get_trace", json!({"trace_id": ID, "view": "outline"})),
        ("svc_get_trace", json!({"trace_id": ID, "view": "errors"})),
        ("svc_get_trace", json!({"trace_id": ID, "view": "slowest"})),
    ] {
        let answer = call(&agent, tool, arguments).await.expect();
        for next in answer.body["next"].as_array().unwrap() {
            let ids = next["arguments"]["span_ids"].as_array().cloned().unwrap_or_default();
            assert!(!ids.contains(&json!("")) && next["arguments"]["root"] != "", "{tool}: {next}");
        }
    }
    let answer = call(&agent, "svc_get_spans", json!({"trace_id": ID, "span_ids": [""]})).await.expect();
    assert_eq!(answer.body["returned"], 4, "{}", answer.body);
    assert!(answer.text.contains("at most 4 are given"), "{}", answer.text);
}
