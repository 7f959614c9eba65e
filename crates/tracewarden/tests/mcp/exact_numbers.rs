//! Numbers in conditions keep all their digits through MCP.

use reqwest::Method;
use serde_json::{Value, json};

use crate::mcp::rpc::key;
use crate::support::store::{Store, two_teams};
use crate::support::{Answer, Client};

#[tokio::test]
async fn operands_keep_all_digits() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    // A double represents neither exactly: both would become 1700010800.9011612.
    for (trace, size) in [("3", "1700010800.901161215"), ("4", "1700010800.901161200")] {
        store
            .run(&format!(
                "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, Duration, SpanAttributes) \
                 SELECT now64(9) - 60, repeat('{trace}', 32), '0000000000000001', 'GET /', 'shop', 1, \
                 map('team', 'blue', 'size', '{size}')"
            ))
            .await;
    }
    let agent = key(&ada, json!({})).await;
    for operand in ["1700010800.901161215", "\"1700010800.901161215\"", "1.700010800901161215e9"] {
        let answer = query(
            &agent,
            &format!(
                r#"{{"conditions": [{{"ref": "SpanAttributes[\"size\"]", "op": "eq", "value": {operand}}}]}}"#
            ),
        )
        .await;
        let traces = &answer["result"]["structuredContent"]["traces"];
        let ids: Vec<&Value> = traces.as_array().unwrap().iter().map(|trace| &trace["trace_id"]).collect();
        assert_eq!(ids, [&json!("3".repeat(32))], "{operand}: {answer}");
    }
}

/// Calls `svc_query_traces` with the given text as arguments.
async fn query(agent: &Client, arguments: &str) -> Value {
    let call = format!(
        r#""method": "tools/call", "params": {{"name": "svc_query_traces", "arguments": {arguments}}}"#
    );
    message(agent, "1", &call).await.expect(200).body
}

async fn message(agent: &Client, id: &str, request: &str) -> Answer {
    let request = agent
        .request(Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .header("mcp-protocol-version", "2025-11-25")
        .body(format!(r#"{{"jsonrpc": "2.0", "id": {id}, {request}}}"#));
    Answer::read(id.to_owned(), request).await
}

#[tokio::test]
async fn a_number_that_no_column_can_hold_is_refused_by_its_name() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    let long = "7".repeat(320);
    for (number, why) in [
        ("1e309", "larger than any column can store"),
        ("1e400", "larger than any column can store"),
        ("-1e400", "larger than any column can store"),
        (long.as_str(), "larger than any column can store"),
        ("1e-999", "nearer to zero than any column can store; write 0"),
    ] {
        for sent in [number.to_owned(), format!("\"{number}\"")] {
            for (member, operand) in [
                ("value", format!(r#""op": "gt", "value": {sent}"#)),
                ("values[1]", format!(r#""op": "between", "values": [0, {sent}]"#)),
            ] {
                let answer =
                    query(&agent, &format!(r#"{{"conditions": [{{"ref": "Duration", {operand}}}]}}"#)).await;
                let text =
                    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
                assert_eq!(answer["result"]["isError"], true, "{answer}");
                assert!(
                    text.starts_with(&format!(
                        "error value_type: conditions[0].{member}: the number is {why}"
                    )),
                    "{sent}: {text}"
                );
            }
            // A string field compares the text.
            let answer = query(
                &agent,
                &format!(r#"{{"conditions": [{{"ref": "ServiceName", "op": "eq", "value": {sent}}}]}}"#),
            )
            .await;
            assert_eq!(answer["result"]["structuredContent"]["returned"], 0, "{answer}");
        }
    }
    for limit in ["99999999999999999999", "1e309", "\"1e400\"", &long] {
        let answer = query(&agent, &format!(r#"{{"limit": {limit}}}"#)).await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(text.contains("limit: the number is too large for this argument"), "{text}");
        assert!(!text.contains("the text"), "{text}");
    }
}

#[tokio::test]
async fn an_answer_has_the_id_of_its_request() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    let ping = r#""method": "ping""#;
    for (id, same) in [
        ("7", json!(7)),
        ("9223372036854775807", json!(i64::MAX)),
        ("\"18446744073709551616\"", json!("18446744073709551616")),
    ] {
        assert_eq!(message(&agent, id, ping).await.expect(200).body["id"], same);
    }
    for id in ["18446744073709551616", "1e400", "1.5", "null", "true"] {
        let answer = message(&agent, id, ping).await.expect(400).body;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("`id`"), "{answer}");
    }
}
