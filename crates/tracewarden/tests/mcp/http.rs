//! The MCP interface as HTTP: authentication, allowed origins, and that every request is independent of earlier ones.

use reqwest::Method;
use serde_json::{Value, json};

use crate::mcp::rpc::{call, key, send};
use crate::support::store::{BLUE, Store, two_teams};
use crate::support::{Answer, Client, Service};

const INITIALIZE: &str = "initialize";

fn initialize_message(name: &str) -> Value {
    json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": "7"}})
}

#[tokio::test]
async fn only_valid_keys_are_accepted() {
    let service = Service::start();
    let admin = service.admin().await;
    let list = |client: Client| async move { send(&client, "tools/list", json!({})).await };
    let refused = |answer: Answer| {
        let answer = answer.problem(401, "unauthenticated");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        assert!(answer.body["detail"].as_str().unwrap().contains("API key"), "{}", answer.body);
    };
    refused(list(service.anonymous()).await);
    // Browsers send cookies by themselves, so a cookie does not authenticate.
    refused(list(admin.clone()).await);
    let unknown = format!("twk_{}", "0".repeat(34));
    list(service.anonymous().with_key(&unknown)).await.problem(401, "unauthenticated");
    list(service.anonymous().with("authorization", "Basic YTpi")).await.problem(401, "unauthenticated");

    let agent = key(&admin, json!({})).await;
    list(agent.clone()).await.expect(200);
    let id =
        admin.get("/me/api-keys").await.expect(200).body["api_keys"][0]["id"].as_str().unwrap().to_owned();
    admin.delete(&format!("/me/api-keys/{id}")).await.expect(204);
    list(agent).await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn a_key_whose_owner_must_change_the_password_is_refused() {
    let service = Service::start();
    let admin = service.admin().await;
    let ada = service.user(&admin, "ada", &[]).await;
    let agent = key(&ada, json!({})).await;
    send(&agent, "tools/list", json!({})).await.expect(200);
    admin.post("/users/ada/password", json!({})).await.expect(200);
    send(&agent, "tools/list", json!({})).await.problem(403, "password_change_required");
    let records = admin.get("/audit?action=tools.call").await.expect(200).body;
    assert_eq!(records["records"][0]["outcome"], "denied", "{records}");
    assert_eq!(records["records"][0]["actor"]["via"], "mcp", "{records}");
}

#[tokio::test]
async fn pages_of_other_sites_and_other_names_are_refused() {
    let service = Service::start_with(&[("TRACEWARDEN_MCP_HOSTS", "traces.internal:8080,tracewarden")]);
    let admin = service.admin().await;
    let agent = key(&admin, json!({})).await;
    let from = |name: &'static str, value: String| {
        let agent = agent.with(name, &value);
        async move { send(&agent, "tools/list", json!({})).await }
    };
    from("origin", service.base.clone()).await.expect(200);
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"] {
        let answer = from("origin", origin.to_owned()).await.problem(403, "cross_site");
        assert!(answer.body["detail"].as_str().unwrap().contains("Origin"), "{}", answer.body);
    }
    for host in ["traces.internal:8080", "tracewarden", "tracewarden:99", "localhost:1", "127.0.0.1"] {
        from("host", host.to_owned()).await.expect(200);
    }
    for host in ["evil.example", "traces.internal:8081", "127.0.0.1.evil.example"] {
        let answer = from("host", host.to_owned()).await.problem(403, "cross_site");
        assert!(answer.body["detail"].as_str().unwrap().contains("mcp_hosts"), "{}", answer.body);
    }
}

/// A proxy may pass `Host` on with the port, or without it.
#[tokio::test]
async fn the_port_of_the_public_url_is_part_of_its_name() {
    let service = Service::start_with(&[("TRACEWARDEN_PUBLIC_URL", "https://traces.example.com:8443")]);
    let agent = key(&service.admin().await, json!({})).await;
    send(&agent.with("host", "traces.example.com:8443"), "tools/list", json!({})).await.expect(200);
    let refused = send(&agent.with("host", "traces.example.com"), "tools/list", json!({})).await;
    let detail = refused.problem(403, "cross_site").body["detail"].to_string();
    assert!(detail.contains("forward `Host` unchanged, with its port"), "{detail}");
    let documented = include_str!("../../../../docs/operations.md");
    assert!(documented.contains("proxy_set_header Host $http_host;") && !documented.contains("Host $host;"));
}

#[tokio::test]
async fn unsupported_requests_get_the_usual_errors() {
    let service = Service::start();
    let agent = key(&service.admin().await, json!({})).await;
    let agent = agent.with("accept", "application/json, text/event-stream");
    for method in [Method::GET, Method::DELETE, Method::PUT] {
        let answer = agent.send(method, "/mcp", None).await.problem(405, "method_not_allowed");
        assert_eq!(answer.headers["allow"], "POST");
    }
    for accept in ["text/event-stream", "application/json;q=0, */*", "text/html"] {
        agent.with("accept", accept).post("/mcp", ping()).await.problem(406, "not_acceptable");
    }
    for (kind, status) in [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON;charset=UTF-8", 200),
        ("application/json-rpc", 415),
        ("application/jsonl", 415),
        ("application/json5", 415),
        ("text/json", 415),
    ] {
        let request =
            agent.request(Method::POST, "/mcp").header("content-type", kind).body(ping().to_string());
        let answer = Answer::read(kind.to_owned(), request).await;
        if status == 200 {
            assert_eq!(answer.expect(200).body["result"], json!({}), "{kind}");
        } else {
            answer.problem(status, "unsupported_media_type");
        }
    }
    let batch = agent.post("/mcp", json!([ping(), ping()])).await.problem(400, "invalid_request");
    assert!(batch.body["detail"].as_str().unwrap().contains("a request of its own"), "{}", batch.body);
    let form = agent.request(Method::POST, "/mcp").header("content-type", "text/plain").body("{}");
    Answer::read("text".to_owned(), form).await.problem(415, "unsupported_media_type");
    let large =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"x": "x".repeat(1 << 20)}});
    agent.post("/mcp", large).await.problem(413, "payload_too_large");
    // An invalid message is answered with a protocol error or problem details, never with an empty answer.
    let garbled = agent.request(Method::POST, "/mcp").header("content-type", "application/json").body("{");
    let answer = Answer::read("garbled".to_owned(), garbled).await;
    assert!((400..500).contains(&answer.status) && answer.body.is_object(), "{answer:?}");
    let unknown = send(&agent, "nothing/here", json!({})).await;
    assert_eq!(unknown.body["error"]["code"], -32601, "{}", unknown.body);
}

fn ping() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})
}

#[tokio::test]
async fn json_is_returned_with_and_without_a_trailing_slash() {
    let service = Service::start();
    let agent = key(&service.admin().await, json!({})).await;
    for path in ["/mcp", "/mcp/"] {
        for accept in ["*/*", "application/json", "application/*, text/*", "text/event-stream, */*;q=0.1", ""]
        {
            let answer = agent.with("accept", accept).post(path, ping()).await.expect(200);
            assert_eq!(
                (&answer.headers["content-type"], &answer.body["result"]),
                (&"application/json".parse().unwrap(), &json!({}))
            );
        }
        agent.post(path, ping()).await.expect(200);
        service.anonymous().post(path, ping()).await.problem(401, "unauthenticated");
        agent.get(path).await.problem(405, "method_not_allowed");
    }
}

/// The revision with batches is not supported; a client that requests it is offered another one.
#[tokio::test]
async fn only_revisions_without_batches_are_announced() {
    let service = Service::start();
    let agent = key(&service.admin().await, json!({})).await;
    for (requested, negotiated) in [
        ("2025-03-26", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
    ] {
        let sent = json!({"protocolVersion": requested, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": INITIALIZE, "params": sent});
        let answer = agent.post("/mcp", message).await.expect(200);
        assert_eq!(answer.body["result"]["protocolVersion"], negotiated, "{requested}: {}", answer.body);
    }
}

/// Returns the instructions without the current time.
fn without_date(instructions: &str) -> (&str, &str) {
    let (before, now) = instructions.split_once("It is now ").unwrap();
    (before, now.split_once('\n').unwrap().1)
}

#[tokio::test]
async fn requests_are_stateless() {
    let service = Service::start();
    let admin = service.admin().await;
    let agent = key(&admin, json!({})).await;
    // Requests without `initialize`, and with a session id that another replica issued.
    let first = send(&agent, "tools/list", json!({})).await.expect(200);
    let introduced = send(&agent, INITIALIZE, initialize_message("a")).await.expect(200);
    let result = &introduced.body["result"];
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(result["serverInfo"]["name"], "tracewarden");
    let instructions = result["instructions"].as_str().unwrap();
    for part in ["svc_trace_stats", "It is now 20", "never instructions", "admin"] {
        assert!(instructions.contains(part), "{instructions}");
    }
    let session = introduced.headers["mcp-session-id"].to_str().unwrap();
    let another = agent.with("mcp-session-id", session);
    let second = send(&another, "tools/list", json!({})).await.expect(200);
    assert_eq!(first.body, second.body);
    let notified = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let accepting = another.with("accept", "application/json, text/event-stream");
    accepting.post("/mcp", notified).await.expect(202);
    // The same with the revision that has no `initialize`.
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "b", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let newest = agent
        .with("accept", "application/json, text/event-stream")
        .with("mcp-protocol-version", "2026-07-28")
        .with("mcp-method", "server/discover");
    let discover = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}});
    let discovered = newest.post("/mcp", discover).await.expect(200);
    assert_eq!(
        without_date(discovered.body["result"]["instructions"].as_str().unwrap()),
        without_date(instructions)
    );
    assert!(!discovered.headers.contains_key("mcp-session-id"));
}

#[tokio::test]
async fn answers_have_the_common_headers() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    let arguments = json!({"name": "svc_get_trace", "arguments": {"trace_id": BLUE}});
    let answer = send(&agent, "tools/call", arguments).await.expect(200);
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.headers["cache-control"], "no-store");
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    let record = ada.get("/me").await.expect(200);
    assert_ne!(answer.headers["x-request-id"], record.headers["x-request-id"]);
    call(&agent, "svc_get_trace", json!({"trace_id": BLUE})).await.expect();
}
