//! Numbers of conditions keep all their digits on their way through the protocol.

use reqwest::Method;
use serde_json::{Value, json};

use crate::rpc::key;
use crate::support::Answer;
use crate::support::store::{Store, two_teams};

#[tokio::test]
async fn every_digit_of_an_operand_counts() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    // A double holds neither: both would be 1700010800.9011612.
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
        let body = format!(
            r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {{"name": "svc_query_traces", "arguments":
                {{"conditions": [{{"ref": "SpanAttributes[\"size\"]", "op": "eq", "value": {operand}}}]}}}}}}"#
        );
        let request = agent
            .request(Method::POST, "/mcp")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", "2025-11-25")
            .body(body);
        let answer = Answer::read(operand.to_owned(), request).await.expect(200).body;
        let traces = &answer["result"]["structuredContent"]["traces"];
        let ids: Vec<&Value> = traces.as_array().unwrap().iter().map(|trace| &trace["trace_id"]).collect();
        assert_eq!(ids, [&json!("3".repeat(32))], "{operand}: {answer}");
    }
}
