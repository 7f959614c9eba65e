//! The official SDKs list and call every tool, with both revisions of the protocol that they support.

use serde_json::{Value, json};

use crate::mcp::clients::{Revision, Sdk, python, typescript};
use crate::mcp::rpc::{call, token};
use crate::mcp::scoped_keys::calls;
use crate::support::Client;
use crate::support::store::{BLUE, RED, Store, two_teams};

/// Members that depend on the time of the call.
const TIME_DEPENDENT: [&str; 3] = ["window", "searched_around", "next"];

/// Removes members that depend on the time, and converts numbers to JavaScript's form, where 0.0 is 0.
fn without_time_dependent(structured: Value) -> Value {
    match structured {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(list) => list.into_iter().map(without_time_dependent).collect(),
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(name, _)| !TIME_DEPENDENT.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name, without_time_dependent(value))).collect())
        }
        other => other,
    }
}

#[tokio::test]
async fn every_tool_is_listed_and_called_by_both_sdks_in_both_revisions() {
    let store = Store::start();
    let (service, admin, ada) = two_teams(&store).await;
    let key = token(&ada, json!({})).await;
    let agent = ada.with_key(&key);
    let url = format!("{}/mcp", service.base);
    let mut expected = Vec::new();
    for (tool, arguments) in calls(BLUE) {
        expected.push((
            tool,
            arguments.clone(),
            without_time_dependent(call(&agent, tool, arguments).await.expect().body),
        ));
    }
    let mut wanted: Vec<Value> =
        expected.iter().map(|(tool, arguments, _)| json!({"name": tool, "arguments": arguments})).collect();
    wanted.push(json!({"name": "svc_get_trace", "arguments": {"trace_id": RED}}));
    wanted.push(json!({"name": "svc_query_traces", "arguments": {"last": "soon"}}));
    let wanted = Value::from(wanted);
    for revision in Revision::ALL {
        for sdk in Sdk::ALL {
            let (url, key, wanted) = (url.clone(), key.clone(), wanted.clone());
            let pending_document = tokio::task::spawn_blocking(move || match sdk {
                Sdk::Python => python(revision, &url, &key, &wanted),
                Sdk::TypeScript => typescript(revision, &url, &key, &wanted),
            });
            let document = pending_document.await.unwrap();
            println!("{} at {}", document["sdk"], document["protocol"]);
            assert_eq!(document["server"]["name"], "tracewarden");
            assert!(document["instructions"].as_str().unwrap().contains("svc_trace_stats"));
            let listed = document["tools"].as_array().unwrap();
            assert_eq!(listed.len(), expected.len());
            for tool in listed {
                assert!(
                    tool["outputSchema"].is_object() && tool["annotations"]["readOnlyHint"] == true,
                    "{tool}"
                );
            }
            let results = document["results"].as_array().unwrap();
            for ((tool, _, structured), result) in expected.iter().zip(results) {
                assert_ne!(result["isError"], true, "{sdk:?} {revision:?} {tool}: {result}");
                assert_eq!(
                    without_time_dependent(result["structured"].clone()),
                    *structured,
                    "{sdk:?} {revision:?} {tool}"
                );
            }
            let [forbidden, unreadable] = &results[expected.len()..] else { panic!("{results:?}") };
            assert!(
                forbidden["isError"] == true
                    && forbidden["text"].as_str().unwrap().contains("trace_not_found")
            );
            assert!(
                unreadable["isError"] == true && unreadable["text"].as_str().unwrap().contains("\"15m\"")
            );
            // The audit log contains the client's name with either revision.
            assert_eq!(last_client(&admin).await, format!("{} 1.0", sdk.client_name()));
        }
    }
}

async fn last_client(admin: &Client) -> String {
    let body = admin.get("/audit?actor=ada&limit=1").await.expect(200).body;
    body["records"][0]["detail"]["mcp"]["client"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn sdks_report_a_revoked_key() {
    let store = Store::start();
    let (service, _admin, ada) = two_teams(&store).await;
    let key = token(&ada, json!({})).await;
    let id = ada.get("/me/api-keys").await.expect(200).body["api_keys"][0]["id"].as_str().unwrap().to_owned();
    ada.delete(&format!("/me/api-keys/{id}")).await.expect(204);
    let url = format!("{}/mcp", service.base);
    for revision in Revision::ALL {
        for sdk in Sdk::ALL {
            let (url, key) = (url.clone(), key.clone());
            let pending_document =
                tokio::task::spawn_blocking(move || sdk.ask(revision, &url, &key, &json!([])));
            let error = pending_document.await.unwrap().unwrap_err();
            assert_eq!(error["status"], 401, "{sdk:?} {revision:?}: {error}");
        }
    }
}
