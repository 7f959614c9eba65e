//! API keys with constraints on tools and traces or with an expiry, which apply as in the REST API.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tracewarden_testkit::wait::until;

use crate::mcp::rpc::{call, key, send};
use crate::support::Client;
use crate::support::store::{BLUE, RED, Store, two_teams};

/// Returns the tools, each with valid arguments.
pub fn calls(trace: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("svc_filter_schema", json!({})),
        ("svc_field_values", json!({"ref": "ServiceName"})),
        ("svc_trace_stats", json!({})),
        ("svc_query_traces", json!({})),
        ("svc_get_trace", json!({"trace_id": trace})),
        ("svc_get_spans", json!({"trace_id": trace, "span_ids": ["0000000000000000"]})),
        ("svc_critical_path", json!({"trace_id": trace})),
        ("svc_explain_access", json!({"trace_id": trace})),
        ("svc_compare_traces", json!({"first_trace_id": trace, "second_trace_id": trace})),
    ]
}

async fn listed_tools(agent: &Client) -> Vec<String> {
    let answer = send(agent, "tools/list", json!({})).await.expect(200);
    let tools = answer.body["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn each_tool_constraint_allows_only_that_tool() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    let whole = key(&ada, json!({})).await;
    let all = listed_tools(&whole).await;
    assert_eq!(all.len(), calls(BLUE).len());
    for (only, _) in calls(BLUE) {
        assert!(all.iter().any(|name| name == only), "{only}");
        let agent = key(&ada, json!({"tools": [only]})).await;
        assert_eq!(listed_tools(&agent).await, [only]);
        for (tool, arguments) in calls(BLUE) {
            let called = call(&agent, tool, arguments).await;
            if tool == only {
                called.expect();
            } else {
                let text = called.failure("forbidden");
                assert!(text.contains("limited to other tools"), "{text}");
            }
        }
        // The REST API has equivalents of five of them.
        let rest = [
            ("svc_query_traces", agent.post("/traces/query", json!({})).await),
            ("svc_get_trace", agent.get(&format!("/traces/{BLUE}")).await),
            ("svc_filter_schema", agent.get("/filter/schema").await),
            ("svc_field_values", agent.get("/filter/values?ref=ServiceName").await),
            ("svc_explain_access", agent.get(&format!("/traces/{BLUE}/explain")).await),
        ];
        for (tool, answer) in rest {
            if tool == only {
                answer.expect(200);
            } else {
                answer.problem(403, "forbidden");
            }
        }
    }
    let refused = admin.get("/audit?action=api_key.use&limit=1").await.expect(200).body;
    let record = &refused["records"][0];
    assert_eq!(
        (record["outcome"].as_str(), record["detail"]["code"].as_str()),
        (Some("denied"), Some("forbidden"))
    );
}

#[tokio::test]
async fn a_policy_constraint_applies_to_every_tool() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    for (policy, is_granted) in [("ServiceName == \"shop\"", true), ("ServiceName == \"other\"", false)] {
        let agent = key(&ada, json!({"policy": policy})).await;
        for trace in [BLUE, RED] {
            let visible = is_granted && trace == BLUE;
            let mut about_it = calls(trace);
            about_it.retain(|(_, arguments)| arguments.to_string().contains(trace));
            assert_eq!(about_it.len(), 5);
            for (tool, arguments) in about_it {
                let called = call(&agent, tool, arguments).await;
                if visible {
                    called.expect();
                } else {
                    called.failure("trace_not_found");
                }
            }
        }
        let query = call(&agent, "svc_query_traces", json!({})).await.expect().body;
        assert_eq!(query["returned"], u64::from(is_granted));
        let stats = call(&agent, "svc_trace_stats", json!({})).await.expect().body;
        assert_eq!(
            (&stats["all"]["traces"], &stats["all"]["spans"]),
            (&json!(u64::from(is_granted)), &json!(u64::from(is_granted) * 3))
        );
        let values = call(&agent, "svc_field_values", json!({"ref": "ServiceName"})).await.expect().body;
        assert_eq!(values["values"].as_array().unwrap().len(), usize::from(is_granted));
    }
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "the key expires by the clock of this machine")]
async fn an_expired_key_is_refused_at_the_next_call() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    // Long enough for the calls before the expiry.
    let expiry = Duration::from_secs(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 6);
    let at = tracewarden_model::Timestamp::from_nanos(i64::try_from(expiry.as_nanos()).unwrap());
    let agent = key(&ada, json!({"expires_at": at.to_string()})).await;
    call(&agent, "svc_query_traces", json!({})).await.expect();
    until(async || SystemTime::now(), |now| now.duration_since(UNIX_EPOCH).unwrap() >= expiry).await;
    send(&agent, "tools/list", json!({})).await.problem(401, "unauthenticated");
    agent.post("/traces/query", json!({})).await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn revoked_access_is_gone_at_the_next_call() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    call(&agent, "svc_get_trace", json!({"trace_id": BLUE})).await.expect();
    admin.patch("/users/ada", json!({"roles": []})).await.expect(200);
    call(&agent, "svc_get_trace", json!({"trace_id": BLUE})).await.failure("trace_not_found");
    assert_eq!(call(&agent, "svc_query_traces", json!({})).await.expect().body["returned"], 0);
    // An administrator's API key allows administration in the REST API, and gives no access to traces here.
    let own = key(&admin, json!({})).await;
    call(&own, "svc_get_trace", json!({"trace_id": BLUE})).await.failure("trace_not_found");
}
