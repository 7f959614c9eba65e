//! Tools accept a trace id in any notation, and answer with the stored one.

use serde_json::json;

use crate::mcp::answers::suggested;
use crate::mcp::rpc::{call, key};
use crate::support::store::{Store, two_teams};

const ID: &str = "0af7651916cd43dd8448eb211c80319c";

#[tokio::test]
async fn every_notation_of_an_id_finds_its_trace() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    store
        .run(&format!(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes) \
             SELECT now64(9) - 60, '{ID}', leftPad(toString(number + 1), 16, '0'), 'GET /', 'shop', map('team', 'blue') FROM numbers(2)"
        ))
        .await;
    let agent = key(&ada, json!({})).await;
    let span = format!("{:0>16}", 1);
    for notation in [
        ID.to_uppercase(),
        ID[1..].to_owned(),
        format!(" {ID}\n"),
        format!("traceparent: 00-{ID}-b7ad6b7169203331-01"),
        "0af76519-16cd-43dd-8448-eb211c80319c".to_owned(),
    ] {
        let answer = call(&agent, "svc_get_trace", json!({"trace_id": notation})).await.expect();
        assert_eq!(answer.body["trace"]["trace_id"], ID, "{notation}");
        for arguments in suggested(&answer.body, "svc_get_spans") {
            assert_eq!(arguments["trace_id"], ID);
        }
        let spans = json!({"trace_id": notation, "span_ids": [span]});
        let answer = call(&agent, "svc_get_spans", spans).await.expect();
        assert_eq!(
            (&answer.body["trace_id"], &answer.body["returned"]),
            (&json!(ID), &json!(1)),
            "{notation}"
        );
        let answer = call(&agent, "svc_critical_path", json!({"trace_id": notation})).await.expect();
        assert_eq!(answer.body["trace"]["trace_id"], ID, "{notation}");
        let two = json!({"first_trace_id": notation, "second_trace_id": notation});
        let answer = call(&agent, "svc_compare_traces", two).await.expect();
        for side in ["first", "second"] {
            assert_eq!(answer.body[side]["trace_id"], ID, "{notation}");
        }
        let answer = call(&agent, "svc_explain_access", json!({"trace_id": notation})).await.expect();
        assert_eq!(answer.body["trace"]["trace_id"], ID, "{notation}");
    }
}
