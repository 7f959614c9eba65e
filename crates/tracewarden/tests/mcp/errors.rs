//! Error messages of tool calls, which must contain enough for the next call to succeed.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::mcp::rpc::{call, key, send};
use crate::mcp::scoped_keys::calls;
use crate::support::Client;
use crate::support::store::{BLUE, RED, Store, two_teams};

/// Makes a call and checks that its error has this code and contains these texts.
async fn check(agent: &Client, tool: &str, arguments: Value, code: &str, expected_parts: &[&str]) {
    let text = call(agent, tool, arguments.clone()).await.failure(code);
    for part in expected_parts {
        assert!(text.contains(part), "{tool} {arguments}: {part} is not in: {text}");
    }
    assert!(text.len() < 1_000, "{text}");
}

fn condition(condition: Value) -> Value {
    json!({"conditions": [{"ref": "ServiceName", "op": "exists"}, condition]})
}

#[tokio::test]
async fn mistakes_are_answered_with_corrections() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    let agent = &agent;
    // Fields.
    let misspelt = json!({"ref": "Servicename", "op": "eq", "value": "shop"});
    let expected_parts =
        ["conditions[1].ref: no field `Servicename`; did you mean `ServiceName`?", "svc_filter_schema lists"];
    check(agent, "svc_query_traces", condition(misspelt.clone()), "unknown_field", &expected_parts).await;
    check(agent, "svc_trace_stats", condition(misspelt), "unknown_field", &expected_parts).await;
    let key_of_map = json!({"map": "SpanAttributes", "name": "taem", "op": "eq", "value": "x"});
    check(
        agent,
        "svc_query_traces",
        condition(key_of_map),
        "unknown_field",
        &["did you mean `SpanAttributes[\"team\"]`?"],
    )
    .await;
    let without_map = json!({"name": "team", "op": "eq", "value": "x"});
    let expected_parts =
        ["conditions[1].name: no column `team`; write {\"ref\":\"SpanAttributes[\\\"team\\\"]\"}"];
    check(agent, "svc_query_traces", condition(without_map), "unknown_field", &expected_parts).await;
    let expected_parts = ["group_by[0]: no field `Servicename`; did you mean `ServiceName`?"];
    check(agent, "svc_trace_stats", json!({"group_by": ["Servicename"]}), "unknown_field", &expected_parts)
        .await;
    let expected_parts = ["ref: no field `Team`", "svc_filter_schema lists"];
    check(agent, "svc_field_values", json!({"ref": "Team"}), "unknown_field", &expected_parts).await;
    let expected_parts = ["ref: `Duration` is of type number", "between"];
    check(agent, "svc_field_values", json!({"ref": "Duration"}), "value_type", &expected_parts).await;
    // A field that is only usable in policies does not exist for other users.
    let secret = json!({"map": "SpanAttributes", "name": "secret.label", "op": "exists"});
    check(
        agent,
        "svc_query_traces",
        condition(secret),
        "unknown_field",
        &["no field `SpanAttributes[\"secret.label\"]`"],
    )
    .await;
    // Operators and values.
    let operator = json!({"ref": "ServiceName", "op": "contains", "value": "sh"});
    check(
        agent,
        "svc_query_traces",
        condition(operator),
        "operator_not_allowed",
        &["conditions[1].op: `ServiceName` is of type string: eq, ne, in"],
    )
    .await;
    let value = json!({"ref": "Duration", "op": "gt", "value": "1s"});
    check(agent, "svc_query_traces", condition(value), "value_type", &["conditions[1].value", "number"])
        .await;
    let count = json!({"ref": "ServiceName", "op": "in", "value": "shop"});
    check(
        agent,
        "svc_query_traces",
        condition(count),
        "value_count",
        &["conditions[1]", "an example of each"],
    )
    .await;
    // Times.
    check(
        agent,
        "svc_query_traces",
        json!({"last": "1 hour"}),
        "invalid_request",
        &["last: `1 hour`", "\"15m\""],
    )
    .await;
    check(
        agent,
        "svc_query_traces",
        json!({"from": "2026-11-22 08:00"}),
        "invalid_request",
        &["from: `2026-11-22 08:00`", "write it like \"20"],
    )
    .await;
    let backwards = json!({"from": "2026-11-22T08:00:00Z", "to": "2026-11-22T07:00:00Z"});
    check(agent, "svc_query_traces", backwards, "invalid_window", &["`from` must be before `to`"]).await;
    // Arguments.
    check(
        agent,
        "svc_query_traces",
        json!({"filter": {}}),
        "invalid_request",
        &["filter: there is no such argument", "Known are conditions, same_span, none, from"],
    )
    .await;
    check(
        agent,
        "svc_query_traces",
        json!({"limit": "ten"}),
        "invalid_request",
        &["limit: a whole number such as 10 is needed here; the text `ten` was sent"],
    )
    .await;
    check(
        agent,
        "svc_query_traces",
        json!({"limit": 0}),
        "invalid_request",
        &["limit: `limit` must be at least 1"],
    )
    .await;
    check(agent, "svc_query_traces", json!({"cursor": "x"}), "invalid_cursor", &["leave `cursor` out"]).await;
    let both = json!({"cursor": "x", "last": "1h"});
    check(agent, "svc_query_traces", both, "invalid_request", &["cursor: it contains the window"]).await;
    check(
        agent,
        "svc_query_traces",
        json!({"max_tokens": 10}),
        "invalid_request",
        &["max_tokens: at least 1000"],
    )
    .await;
    check(agent, "svc_get_trace", json!({}), "invalid_request", &["trace_id: this argument is required"])
        .await;
    check(
        agent,
        "svc_get_trace",
        json!({"trace_id": RED, "view": "tree"}),
        "invalid_request",
        &["view: one of `outline`, `errors`, `slowest`, `full` is needed here; the text `tree` was sent"],
    )
    .await;
    check(
        agent,
        "svc_get_trace",
        json!({"trace_id": RED}),
        "trace_not_found",
        &["you may not read it", "svc_query_traces lists"],
    )
    .await;
    check(
        agent,
        "svc_get_spans",
        json!({"trace_id": RED, "span_ids": []}),
        "invalid_request",
        &["span_ids: 1 to 20"],
    )
    .await;
    let columns = json!({"trace_id": RED, "span_ids": ["1"], "columns": ["Spanname"]});
    check(
        agent,
        "svc_get_spans",
        columns,
        "unknown_field",
        &["columns[0]: no column `Spanname`; did you mean `SpanName` or"],
    )
    .await;
    check(
        agent,
        "svc_compare_traces",
        json!({"first_trace_id": RED, "second_trace_id": RED}),
        "trace_not_found",
        &["first_trace_id: "],
    )
    .await;
}

/// Alternative forms that models send instead of a number, a list or no value.
#[tokio::test]
async fn alternative_argument_forms_are_accepted() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    let condition = json!({"ref": "ServiceName", "op": "eq", "value": "shop"});
    let limited = json!({"conditions": [condition], "limit": 5, "last": "1h"});
    let wanted = call(&agent, "svc_query_traces", limited.clone()).await.expect().body["traces"].clone();
    assert_eq!(wanted.as_array().unwrap().len(), 1);
    for (name, value) in [
        ("conditions", json!(json!([condition]).to_string())),
        ("conditions", condition.clone()),
        ("conditions", json!(condition.to_string())),
        ("limit", json!("5")),
        ("limit", json!(5.0)),
        ("cursor", json!("")),
        ("cursor", json!(null)),
        ("from", json!("")),
    ] {
        let mut arguments = limited.clone();
        arguments[name] = value;
        let found = call(&agent, "svc_query_traces", arguments.clone()).await.expect().body;
        assert_eq!(found["traces"], wanted, "{arguments}");
    }
    let span = json!({"trace_id": BLUE, "span_ids": "0000000000000000"});
    assert_eq!(call(&agent, "svc_get_spans", span.clone()).await.expect().body["returned"], 1);
    // The whole arguments as JSON text, and an empty list instead of no arguments.
    for (name, arguments) in [("svc_get_spans", json!(span.to_string())), ("svc_filter_schema", json!([]))] {
        let params = json!({ "name": name, "arguments": arguments });
        let result = send(&agent, "tools/call", params).await.expect(200).body["result"].clone();
        assert!(result["structuredContent"]["returned"].as_u64().unwrap() > 0, "{result}");
    }
    check(
        &agent,
        "svc_get_trace",
        json!({"trace_id": BLUE, "depth": -1}),
        "invalid_request",
        &["depth: 0 or more"],
    )
    .await;
}

#[tokio::test]
async fn an_empty_answer_says_why_it_may_be_empty() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    let nothing =
        json!({"conditions": [{"ref": "ServiceName", "op": "eq", "value": "unknown-user"}], "last": "5m"});
    for (tool, arguments) in [
        ("svc_query_traces", nothing.clone()),
        ("svc_trace_stats", nothing),
        ("svc_field_values", json!({"ref": "ServiceName", "prefix": "x", "last": "5m"})),
    ] {
        let text = call(&agent, tool, arguments).await.expect().text;
        for part in ["longer `last`", "may not read"] {
            assert!(text.contains(part), "{tool}: {text}");
        }
    }
}

/// A tool, and a function that makes its arguments for a trace id.
type TraceTool<'a> = (&'a str, Box<dyn Fn(&str) -> Value + 'a>);

/// Tests every tool that takes a trace id with a forbidden trace, an absent one and invalid ids.
#[tokio::test]
async fn forbidden_and_absent_traces_get_the_same_answer() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    let absent = "9".repeat(32);
    let long = "2".repeat(10_000);
    let ids = [RED, &absent, "", "0", "no id", &RED[..31], "\u{0}\u{7f}ä\u{2028}", &long];
    let tools = send(&agent, "tools/list", json!({})).await.expect(200).body;
    let takes_trace_id = |tool: &&Value| {
        let arguments = tool["inputSchema"]["properties"].as_object().unwrap();
        arguments.keys().any(|name| name.ends_with("trace_id"))
    };
    let tools: Vec<&Value> =
        tools["result"]["tools"].as_array().unwrap().iter().filter(takes_trace_id).collect();
    assert!(tools.len() >= 5, "{tools:?}");
    let every = tools.iter().map(|tool| -> TraceTool<'_> {
        let name = tool["name"].as_str().unwrap();
        // An empty id counts as no id for this tool, which then explains no trace.
        let absent = absent.as_str();
        let arguments = move |trace: &str| {
            let trace = if name == "svc_explain_access" && trace.is_empty() { absent } else { trace };
            calls(trace).into_iter().find(|(known, _)| *known == name).unwrap().1
        };
        (name, Box::new(arguments))
    });
    // The other trace comes first or second, and is visible or not.
    let two = |first: &str, second: &str| json!({"first_trace_id": first, "second_trace_id": second});
    let columns = ["ServiceName"];
    let more: [TraceTool<'_>; 6] = [
        ("svc_get_trace", Box::new(|id| json!({"trace_id": id, "view": "errors"}))),
        (
            "svc_get_spans",
            Box::new(|id| json!({"trace_id": id, "span_ids": ["0000000000000001"], "columns": columns})),
        ),
        ("svc_compare_traces", Box::new(|id| two(id, BLUE))),
        ("svc_compare_traces", Box::new(|id| two(BLUE, id))),
        ("svc_compare_traces", Box::new(|id| two(id, RED))),
        ("svc_compare_traces", Box::new(|id| two(&absent, id))),
    ];
    for (tool, arguments) in every.chain(more) {
        let mut answers = Vec::new();
        // A comparison counts as two queries, and a user has ten.
        for some in ids.chunks(4) {
            answers.extend(join_all(some.iter().map(|id| call(&agent, tool, arguments(id)))).await);
        }
        for (id, answer) in ids.iter().zip(&answers) {
            assert_eq!(answer.result, answers[0].result, "{tool} {}", arguments(id));
        }
        answers.into_iter().next().unwrap().failure("trace_not_found");
    }
}

#[tokio::test]
async fn administrators_see_the_error_of_clickhouse() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    admin.patch("/users/admin", json!({"roles": ["admin", "blue"]})).await.expect(200);
    store.run("ALTER TABLE otel.otel_traces ADD COLUMN Failing UInt8 ALIAS throwIf(Duration >= 0)").await;
    for (client, knows) in [(&admin, true), (&ada, false)] {
        let failed = client.post("/traces/query", json!({"columns": ["Failing"]})).await.expect(502).body;
        let detail = failed["detail"].as_str().unwrap();
        assert_eq!(detail.contains("answered with code 395"), knows, "{detail}");
        let agent = key(client, json!({})).await;
        let arguments = json!({"trace_id": BLUE, "view": "full", "columns": ["Failing"]});
        let text = call(&agent, "svc_get_trace", arguments).await.failure("clickhouse_error");
        assert!(text.starts_with(&format!("error clickhouse_error: {detail}\n")), "{detail}: {text}");
    }
}
