//! Every tool call is recorded in the audit log, with tool, arguments, client and counts.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Value, json};

use crate::mcp::rpc::{call, key, send};
use crate::mcp::scoped_keys::calls;
use crate::support::Client;
use crate::support::rejected_records::RejectedRecords;
use crate::support::store::{BLUE, RED, Store, two_teams};

/// Returns the records of tool calls, oldest first.
async fn records(admin: &Client) -> Vec<Value> {
    let body = admin.get("/audit?actor=ada&limit=200").await.expect(200).body;
    let mut records = body["records"].as_array().unwrap().clone();
    records.retain(|record| record["actor"]["via"] == "mcp");
    records.reverse();
    records
}

#[tokio::test]
async fn each_call_leaves_one_record_with_request_and_result() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    let introduction = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "curious\u{202e}agent", "version": "1.2"}});
    let introduced = send(&agent, "initialize", introduction).await.expect(200);
    let agent = agent.with("mcp-session-id", introduced.headers["mcp-session-id"].to_str().unwrap());
    let expected = [
        ("svc_filter_schema", "filter.schema", None, None),
        ("svc_field_values", "traces.values", None, Some((1, 0))),
        ("svc_trace_stats", "traces.stats", None, Some((1, 3))),
        ("svc_query_traces", "traces.query", None, Some((1, 0))),
        ("svc_get_trace", "traces.get", Some(BLUE), Some((1, 3))),
        ("svc_get_spans", "traces.get", Some(BLUE), Some((1, 1))),
        ("svc_critical_path", "traces.get", Some(BLUE), Some((1, 3))),
        ("svc_explain_access", "traces.explain", Some(BLUE), Some((1, 3))),
    ];
    for (tool, arguments) in calls(BLUE).into_iter().take(expected.len()) {
        call(&agent, tool, arguments).await.expect();
    }
    let found = records(&admin).await;
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (record, ((tool, arguments), (named, action, target, counts))) in
        found.iter().zip(calls(BLUE).into_iter().zip(expected))
    {
        assert_eq!(tool, named);
        assert_eq!(record["action"], action, "{record}");
        assert_eq!(record["outcome"], "success", "{record}");
        assert_eq!(record["target"], json!(target), "{record}");
        let mcp = &record["detail"]["mcp"];
        assert_eq!((&mcp["tool"], &mcp["arguments"]), (&json!(tool), &arguments), "{record}");
        assert_eq!(mcp["client"], "curiousagent 1.2", "{record}");
        if let Some((traces, spans)) = counts {
            assert_eq!(
                (&record["detail"]["traces"], &record["detail"]["spans"]),
                (&json!(traces), &json!(spans)),
                "{record}"
            );
        }
    }
    // A comparison of two traces reads twice.
    call(&agent, "svc_compare_traces", json!({"first_trace_id": BLUE, "second_trace_id": BLUE}))
        .await
        .expect();
    let found = records(&admin).await;
    assert_eq!(found.len(), expected.len() + 2);
    assert!(found.iter().rev().take(2).all(|record| record["target"] == BLUE));
}

#[tokio::test]
async fn without_its_record_no_tool_answers() {
    let store = Store::start();
    let (service, admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    let before = records(&admin).await.len();
    let (mut begun, mut left) = (0, Vec::new());
    for refused in [RejectedRecords::All, RejectedRecords::Completions] {
        service.reject_records(refused).await;
        for (tool, arguments) in calls(BLUE) {
            // This tool reads no traces and leaves a single record, which needs no completion.
            if tool == "svc_filter_schema" && matches!(refused, RejectedRecords::Completions) {
                continue;
            }
            let answer = send(&agent, "tools/call", json!({"name": tool, "arguments": arguments})).await;
            let revealed = String::from_utf8_lossy(&answer.bytes);
            let failed = answer.status >= 500 || answer.body["result"]["isError"] == true;
            assert!(failed, "{refused:?} {tool}: {revealed}");
            assert!(!revealed.contains("blue") && !revealed.contains(BLUE), "{refused:?} {tool}: {revealed}");
            // A comparison does not begin the second trace before the first read has ended.
            begun += usize::from(matches!(refused, RejectedRecords::Completions));
        }
        // Read the records before completions are accepted again: an aborted answer records its end in the background,
        // possibly after that.
        if matches!(refused, RejectedRecords::Completions) {
            left = records(&admin).await.split_off(before);
        }
        service.accept_records().await;
    }
    let unknown = |record: &Value| record["outcome"] == "unknown";
    assert_eq!(begun, calls(BLUE).len() - 1);
    assert_eq!(left.len(), begun, "{left:#?}");
    assert!(left.iter().all(unknown), "{left:#?}");
    let ended = records(&admin).await.split_off(before);
    assert_eq!(ended.len(), begun, "{ended:#?}");
    assert!(ended.iter().all(|record| unknown(record) || record["outcome"] == "aborted"), "{ended:#?}");
    for (tool, arguments) in calls(BLUE) {
        call(&agent, tool, arguments).await.expect();
    }
}

#[tokio::test]
async fn traces_are_compared_one_after_the_other() {
    let store = Store::start();
    let (mut service, admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    service.restart_with(&[("TRACEWARDEN_MAX_QUERIES_PER_USER", "1")]);
    let (admin, agent) = (admin.at(&service), agent.at(&service));
    let compared = |second: &str| json!({"first_trace_id": BLUE, "second_trace_id": second});
    call(&agent, "svc_compare_traces", compared(BLUE)).await.expect();
    let refused = call(&agent, "svc_compare_traces", compared(RED)).await.failure("trace_not_found");
    assert!(refused.contains("second_trace_id"), "{refused}");
    let found = records(&admin).await;
    let revealed: Vec<_> = found.iter().map(|record| (&record["target"], &record["outcome"])).collect();
    let (blue, red, success, not_found) = (json!(BLUE), json!(RED), json!("success"), json!("not_found"));
    let expected = [(&blue, &success), (&blue, &success), (&blue, &success), (&red, &not_found)];
    assert_eq!(revealed, expected, "{found:#?}");
}

/// An argument that only the trace itself shows to be invalid is rejected after a recorded read.
#[tokio::test]
async fn an_invalid_cursor_is_rejected_after_a_recorded_read() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    for view in ["outline", "errors", "slowest", "full"] {
        let before = records(&admin).await.len();
        let arguments = json!({"trace_id": BLUE, "view": view, "cursor": "1@00000000"});
        let failure = call(&agent, "svc_get_trace", arguments).await.failure("invalid_request");
        assert!(failure.contains("cursor"), "{failure}");
        let found = records(&admin).await;
        assert_eq!(found.len(), before + 1, "{view}");
        assert_eq!(found.last().unwrap()["outcome"], "success", "{view}: {found:#?}");
    }
}

/// The suffix of a cursor identifies the list, and can be combined with any position.
#[tokio::test]
async fn a_cursor_beyond_the_end_gives_an_empty_recorded_page() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    for (at, view) in (0_u8..).zip(["outline", "errors", "slowest", "full"]) {
        let mut list = DefaultHasher::new();
        (BLUE, at, None::<usize>, None::<String>, 3_u64).hash(&mut list);
        let list = format!("{:08x}", list.finish() as u32);
        for position in [usize::MAX, usize::MAX - 1, 1 << 40, 1_000] {
            let before = records(&admin).await.len();
            let arguments = json!({"trace_id": BLUE, "view": view, "cursor": format!("{position}@{list}")});
            let answer = call(&agent, "svc_get_trace", arguments).await.expect();
            assert_eq!(answer.body["returned"], 0, "{view}, {position}: {}", answer.text);
            let found = records(&admin).await;
            assert_eq!(found.len(), before + 1, "{view}");
            assert_eq!(found.last().unwrap()["outcome"], "success", "{view}, {position}: {found:#?}");
        }
    }
}

#[tokio::test]
async fn unreadable_calls_are_recorded() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    // Arguments that are not an object.
    for arguments in [json!("{}"), json!([]), json!(7)] {
        let before = records(&admin).await.len();
        let answer =
            send(&agent, "tools/call", json!({"name": "svc_get_trace", "arguments": arguments})).await;
        if arguments == json!(7) {
            assert_eq!(answer.body["error"]["code"], -32602, "{}", answer.body);
        } else {
            // An object as JSON text, and an empty list, are accepted as arguments; the model gets an error on the missing
            // members.
            assert_eq!(answer.body["result"]["isError"], true, "{}", answer.body);
        }
        let found = records(&admin).await;
        assert_eq!(found.len(), before + 1, "{arguments}");
        let record = found.last().unwrap();
        assert_eq!(
            (record["action"].as_str(), record["outcome"].as_str()),
            (Some("traces.get"), Some("failed"))
        );
        assert_eq!(record["detail"]["mcp"]["arguments"], arguments, "{record}");
    }
    // An invalid message, with an unacceptable media type or an unknown host.
    let agent = agent.with("accept", "application/json, text/event-stream");
    for (header, value) in
        [("accept", "text/event-stream"), ("host", "evil.example"), ("origin", "https://evil.example")]
    {
        let before = records(&admin).await.len();
        let answer = agent.with(header, value).post("/mcp", json!({})).await;
        assert!((400..500).contains(&answer.status), "{answer:?}");
        let found = records(&admin).await;
        assert_eq!(found.len(), before + 1, "{header}: {found:#?}");
        assert_eq!(found.last().unwrap()["action"], "tools.call");
    }
}

#[tokio::test]
async fn every_view_counts_each_span_once() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    for view in ["outline", "errors", "slowest", "full"] {
        call(&agent, "svc_get_trace", json!({"trace_id": BLUE, "view": view})).await.expect();
        let found = records(&admin).await;
        let record = found.last().unwrap();
        assert_eq!(
            (&record["detail"]["traces"], &record["detail"]["spans"]),
            (&json!(1), &json!(3)),
            "{record}"
        );
    }
}

#[tokio::test]
async fn refused_calls_are_recorded() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    for (tool, arguments, action, outcome, code) in [
        ("svc_get_trace", json!({"trace_id": RED}), "traces.get", "not_found", Value::Null),
        ("svc_get_trace", json!({"trace": RED}), "traces.get", "failed", json!("invalid_request")),
        ("svc_explain_access", json!({"trace_id": RED}), "traces.explain", "not_found", Value::Null),
        ("svc_explain_access", json!({"user": "x"}), "traces.explain", "failed", json!("invalid_request")),
        ("svc_query_traces", json!({"last": "soon"}), "traces.query", "failed", json!("invalid_request")),
        (
            "svc_query_traces",
            json!({"conditions": [{"ref": "x", "op": "eq", "value": 1}]}),
            "traces.query",
            "failed",
            json!("unknown_field"),
        ),
        ("svc_trace_stats", json!({"group_by": ["x"]}), "traces.stats", "failed", json!("unknown_field")),
        ("svc_filter_schema", json!({"max_tokens": 1}), "filter.schema", "failed", json!("invalid_request")),
    ] {
        let before = records(&admin).await.len();
        assert!(call(&agent, tool, arguments.clone()).await.failed, "{tool} {arguments}");
        let found = records(&admin).await;
        assert_eq!(found.len(), before + 1, "{tool} {arguments}: {found:#?}");
        let record = found.last().unwrap();
        assert_eq!((&record["action"], &record["outcome"]), (&json!(action), &json!(outcome)), "{record}");
        assert_eq!(record["detail"]["code"], code, "{record}");
        assert_eq!(record["detail"]["mcp"]["arguments"], arguments, "{record}");
    }
    let unknown =
        send(&agent, "tools/call", json!({"name": "svc_run_sql", "arguments": {"sql": "SELECT 1"}})).await;
    let message = unknown.expect(200).body["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("no tool `svc_run_sql`") && message.contains("svc_get_trace"), "{message}");
    let found = records(&admin).await;
    let record = found.last().unwrap();
    assert_eq!((record["action"].as_str(), record["outcome"].as_str()), (Some("tools.call"), Some("failed")));
    assert_eq!(record["detail"]["mcp"]["tool"], "svc_run_sql");
}
