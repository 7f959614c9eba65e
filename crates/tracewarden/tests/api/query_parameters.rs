//! Undeclared query parameters, on every operation.

use serde_json::json;

use crate::every_operation::{Fixture, operations};
use crate::support::{Answer, Service};

/// Probes and load balancers add their own parameters.
const ANY_QUERY: [&str; 2] = ["GET /healthz", "GET /readyz"];

#[tokio::test]
async fn unknown_parameters_are_rejected_without_effect() {
    let fixture = Fixture::make(&[]).await;
    let operations = operations(&fixture.service).await;
    let document = fixture.service.anonymous().get("/openapi.json").await.expect(200).body;
    let before = fixture.stored_data().await.0;
    let mut repeated = 0;
    for operation in &operations {
        let name = operation.name();
        let client = fixture.client(operation).await;
        let (path, body) = fixture.request_info(operation);
        let join = if path.contains('?') { '&' } else { '?' };
        let ask = async |query: &str| -> Answer {
            client.send(operation.method.clone(), &format!("{path}{join}{query}"), body.clone()).await
        };
        if ANY_QUERY.contains(&name.as_str()) {
            ask("probe=1&probe=2").await.expect(200);
            continue;
        }
        for query in ["dry_run=true", "dry%5Frun", "=", "DRY_RUN=1", "a%2Fb=1"] {
            let refused = ask(query).await.problem(400, "invalid_request");
            let detail = refused.first_error()["detail"].as_str().unwrap();
            assert!(detail.starts_with("query parameters: unknown parameter"), "{name}: {detail}");
        }
        assert_eq!(ask("dry_run=true").await.first_error()["pointer"], "/dry_run", "{name}");
        let declared =
            &document["paths"][&operation.path][operation.method.as_str().to_lowercase()]["parameters"];
        for parameter in
            declared.as_array().into_iter().flatten().filter(|parameter| parameter["in"] == "query")
        {
            let parameter = parameter["name"].as_str().unwrap();
            let refused = ask(&format!("{parameter}=1&{parameter}=1")).await.problem(400, "invalid_request");
            assert_eq!(refused.first_error()["pointer"], format!("/{parameter}"), "{name}");
            repeated += 1;
        }
    }
    assert!(repeated >= 10, "{repeated}");
    let (mut before, mut after) = (before, fixture.stored_data().await.0);
    // Tables that also change because of this test's sessions and the audit records of rejected requests.
    for table in ["sessions", "audit", "users", "throttles", "api_keys"] {
        before.remove(table);
        after.remove(table);
    }
    assert_eq!(before, after);
}

#[tokio::test]
async fn other_interfaces_take_any_query() {
    let service = Service::start();
    let admin = service.admin().await;
    service.anonymous().get("/ui/?utm_source=mail").await;
    let key = admin.post("/me/api-keys", json!({"name": "x"})).await.expect(201).body;
    let agent = service.anonymous().with_key(key["token"].as_str().unwrap());
    let agent = agent.with("accept", "application/json, text/event-stream");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let answer = agent.post("/mcp?session=1", ping).await;
    assert_ne!(answer.status, 400, "{}", answer.body);
    let page = service.anonymous().get("/ui/?utm_source=mail").await;
    assert_ne!(page.status, 400);
}
