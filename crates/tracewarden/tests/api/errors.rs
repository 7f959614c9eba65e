//! Invalid requests and unavailable dependencies. Every error code is tested here or with its resource.

use std::io::Write as _;

use reqwest::Method;
use serde_json::json;

use crate::every_operation::{Fixture, WITHOUT_DATABASE, operations};
use crate::support::store::{BLUE, Store, bound_service};
use crate::support::{Answer, Client, Service};

async fn raw(client: &Client, body: impl Into<reqwest::Body>) -> Answer {
    let request =
        client.request(Method::POST, "/users").header("content-type", "application/json").body(body);
    Answer::read("POST /users".to_owned(), request).await
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused() {
    let service = Service::start();
    let admin = service.admin().await;
    for body in [
        "",
        "{",
        "nonsense",
        "{\"username\": \"ada\"} x",
        "{\"username\": \"ada\",}",
        "\u{feff}{}",
        "[]",
        "null",
    ] {
        raw(&admin, body).await.problem(400, "invalid_request");
    }
    raw(&admin, b"{\"username\": \"\xff\"}".to_vec()).await.problem(400, "invalid_request");
}

/// Deeply nested bodies are valid JSON, and a parser without a limit would recurse into them.
#[tokio::test]
async fn a_body_that_is_too_deep_is_refused() {
    let service = Service::start();
    let admin = service.admin().await;
    let nested = |(open, close): (&str, &str), levels: usize| {
        format!("{}null{}", open.repeat(levels), close.repeat(levels))
    };
    for kind in [("[", "]"), ("{\"a\":", "}")] {
        for (levels, expected) in [
            (100, "expected a string, a boolean or a list of strings"),
            (130, "the body is not JSON: recursion limit exceeded at line 1 column "),
            (100_000, "the body is not JSON: recursion limit exceeded at line 1 column "),
        ] {
            let body =
                format!("{{\"username\": \"ada\", \"attributes\": {{\"a\": {}}}}}", nested(kind, levels));
            let answer = raw(&admin, body).await.problem(400, "invalid_request");
            let detail = answer.first_error()["detail"].as_str().unwrap();
            assert!(detail.starts_with(expected), "{levels} levels of {kind:?}: {detail}");
        }
        // The limit for model files also counts the innermost value.
        for (levels, is_deeper) in [(63, false), (64, true), (100_000, true)] {
            let request =
                admin.request(Method::POST, "/schema/plan").header("content-type", "application/json");
            let answer =
                Answer::read("POST /schema/plan".to_owned(), request.body(nested(kind, levels))).await;
            let answer = answer.problem(400, "invalid_request");
            let detail = answer.first_error()["detail"].as_str().unwrap();
            let refused_for_it = detail.ends_with(": documents are at most 64 levels deep, this is deeper");
            assert_eq!(refused_for_it, is_deeper, "{levels} levels of {kind:?}: {detail}");
        }
    }
}

#[tokio::test]
async fn refusals_point_at_the_member() {
    let service = Service::start();
    let admin = service.admin().await;
    for (body, pointer) in [
        (r#"{"username": "ada", "rolls": []}"#, "/rolls"),
        (r#"{"username": 1}"#, "/username"),
        (r#"{"username": "ada", "roles": ["a", 2]}"#, "/roles/1"),
        (r#"{"username": "ada", "username": "bob"}"#, ""),
        ("{}", ""),
    ] {
        let answer = raw(&admin, body).await.problem(400, "invalid_request");
        assert_eq!(answer.first_error()["pointer"], pointer, "{}", answer.body);
        assert_eq!(answer.first_error()["code"], "invalid_request");
    }
}

#[tokio::test]
async fn an_array_does_not_stand_for_an_object() {
    let service = Service::start();
    let admin = service.admin().await;
    let document = service.anonymous().get("/openapi.json").await.expect(200).body;
    let mut with_body = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if !operation["requestBody"].is_object() {
                continue;
            }
            with_body += 1;
            let method: Method = method.to_uppercase().parse().unwrap();
            let path = path.replace(['{', '}'], "");
            let members = json!([null, null, null, null, null, null, null, null]);
            for body in [json!([]), members, json!(["a", "b"]), json!([[["t", "true", null]]])] {
                let answer = admin.send(method.clone(), &path, Some(body)).await;
                let answer = answer.problem(400, "invalid_request");
                assert_eq!(answer.first_error()["pointer"], "", "{}", answer.body);
                let detail = answer.first_error()["detail"].as_str().unwrap();
                // The parser of model files also reports the line.
                let reason = detail.strip_prefix("line 1, column 1: ").unwrap_or(detail);
                assert_eq!(reason, "invalid type: sequence, expected an object", "{}", answer.request_info);
            }
        }
    }
    assert!(with_body >= 10, "{with_body}");
    for (path, body, pointer) in [
        ("/traces/query", json!({"filter": [null]}), "/filter"),
        ("/traces/query", json!({"filter": {"conditions": [[null, "a", "eq", 1]]}}), "/filter/conditions/0"),
        ("/users", json!({"username": "ada", "attributes": []}), "/attributes"),
        ("/roles/x", json!({"policies": [["t", "true", null]]}), "/policies/0"),
        ("/schema/fields", json!({"fields": [[null, "a", null, true, false]]}), "/fields/0"),
    ] {
        let method = if path.starts_with("/traces") || path == "/users" { Method::POST } else { Method::PUT };
        let answer = admin.send(method, path, Some(body)).await.problem(400, "invalid_request");
        assert_eq!(answer.first_error()["pointer"], pointer, "{}", answer.body);
        assert!(!answer.body.to_string().contains("struct"), "{}", answer.body);
    }
    admin.get("/roles/x").await.problem(404, "not_found");
}

#[tokio::test]
async fn a_body_has_a_limit() {
    let service = Service::start();
    let admin = service.admin().await;
    let large = format!("{{\"username\": \"{}\"}}", "x".repeat(1024 * 1024));
    raw(&admin, large.clone()).await.problem(413, "payload_too_large");
    // The same without a declared length.
    let pieces: Vec<Result<String, std::io::Error>> =
        large.as_bytes().chunks(1000).map(|piece| Ok(String::from_utf8(piece.to_vec()).unwrap())).collect();
    let body = reqwest::Body::wrap_stream(futures::stream::iter(pieces));
    raw(&admin, body).await.problem(413, "payload_too_large");
    admin.get("/me").await.expect(200);
    // The limit for anonymous clients is lower.
    let login = json!({"username": "x".repeat(16 * 1024), "password": "y"});
    service.anonymous().post("/login", login).await.problem(413, "payload_too_large");
}

#[tokio::test]
async fn a_body_must_say_that_it_is_json() {
    let service = Service::start();
    let admin = service.admin().await;
    let request = admin.request(Method::POST, "/users").body("{}");
    Answer::read("no type".to_owned(), request).await.problem(415, "unsupported_media_type");
    let request = admin
        .request(Method::POST, "/users")
        .header("content-type", "application/json")
        .header("content-encoding", "gzip")
        .body("{}");
    Answer::read("gzip".to_owned(), request).await.problem(415, "unsupported_media_type");
    for kind in ["application/json; charset=utf-8", "APPLICATION/JSON", "application/json;charset=\"UTF-8\""]
    {
        let request = admin
            .request(Method::POST, "/policies/check")
            .header("content-type", kind)
            .body(r#"{"expression": "true"}"#);
        Answer::read(kind.to_owned(), request).await.expect(200);
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_problems_too() {
    let service = Service::start();
    let anonymous = service.anonymous();
    for path in [
        "/nothing",
        "/ui2",
        "//ui/",
        "/assets/index.js",
        "/index.html",
        "/mcp/x",
        "/users/a/b/c",
        "/me/",
        "//me",
        "/traces/",
        "/%00",
        "/me%2f",
    ] {
        anonymous.get(path).await.problem(404, "not_found");
    }
    let answer = anonymous.send(Method::PUT, "/users", None).await.problem(405, "method_not_allowed");
    assert!(answer.headers["allow"].to_str().unwrap().contains("POST"));
    anonymous.send(Method::OPTIONS, "/me", None).await.problem(405, "method_not_allowed");
    let admin = service.admin().await;
    for path in
        ["/users/%ff", "/users/%00", "/users/a%00b", "/traces/%00", "/users?cursor=%00", "/audit?actor=a%00"]
    {
        admin.get(path).await.problem(400, "invalid_request");
    }
}

#[tokio::test]
async fn large_heads_are_refused_and_the_service_goes_on() {
    let service = Service::start();
    let anonymous = service.anonymous().with("x-large", &"x".repeat(200_000));
    let answer = anonymous.request(Method::GET, "/healthz").send().await;
    assert!(answer.is_err() || answer.unwrap().status() == 431);
    service.anonymous().get("/healthz").await.expect(200);
}

#[tokio::test]
async fn an_unreachable_clickhouse_is_reported() {
    let service = Service::start();
    let admin = service.admin().await;
    admin.get("/schema/tables").await.problem(503, "unavailable");
    admin.get("/schema/tables/otel/otel_traces").await.problem(503, "unavailable");
    admin.put("/schema/binding", crate::support::store::binding()).await.problem(503, "unavailable");
    service.anonymous().get("/readyz").await.problem(503, "unavailable");
    service.anonymous().get("/healthz").await.expect(200);
}

#[tokio::test]
async fn a_hanging_clickhouse_times_out() {
    // The operating system accepts the connections, but no program answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let service = Service::start_with(&[("TRACEWARDEN_CLICKHOUSE_URL", &url)]);
    let begun = std::time::Instant::now();
    service.anonymous().get("/readyz").await.problem(503, "unavailable");
    assert!(begun.elapsed() < std::time::Duration::from_secs(8), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_lost_application_database_is_reported_and_nothing_is_returned() {
    let fixture = Fixture::make(&[]).await;
    let mut needing = operations(&fixture.service).await;
    needing.retain(|operation| !WITHOUT_DATABASE.contains(&operation.name().as_str()));
    let prepared_requests = fixture.prepared_requests(needing).await;
    assert!(prepared_requests.len() >= 50, "{}", prepared_requests.len());
    fixture.service.anonymous().get("/readyz").await.expect(200);
    // Each new connection opens the file again, but open connections keep the old one, so overwrite its content.
    let path = fixture.service.directory.path().join("tracewarden.db");
    for suffix in ["", "-wal", "-shm"] {
        let file = std::path::PathBuf::from(format!("{}{suffix}", path.display()));
        if let Ok(metadata) = file.metadata() {
            // Keep the length: a file that a process has mapped must not be truncated.
            let mut file = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
            file.write_all(&vec![0xaa; metadata.len() as usize]).unwrap();
        }
    }
    for (client, operation) in &prepared_requests {
        let answer = fixture.ask(client, operation).await;
        assert!([500, 503].contains(&answer.status), "{}: {}", operation.name(), answer.body);
        let answer_text = String::from_utf8_lossy(&answer.bytes);
        for forbidden_text in ["SQL", "sql", "blue", BLUE] {
            assert!(!answer_text.contains(forbidden_text), "{}: {answer_text}", operation.name());
        }
    }
    fixture.service.anonymous().get("/healthz").await.expect(200);
}

/// Names in a request can be as long as the request, and there can be many of them.
#[tokio::test]
async fn values_quoted_in_problems_are_short() {
    let service = Service::start();
    let admin = service.admin().await;
    for text in ["x", "\u{1}", "🦀", "\"", "~/"] {
        let long = text.repeat(200_000 / text.len() / 2);
        let list = |length: usize| (0..length).map(|at| format!("{text}{at}")).collect::<Vec<_>>();
        let policies = json!([{"title": "t", "expression": long}, {"title": long, "expression": format!("a.{long} == 1")}]);
        for (method, path, body) in [
            (Method::POST, "/users", json!({"username": "ada", &long: 1})),
            (Method::POST, "/users", json!({"username": "ada", "roles": [long]})),
            (Method::POST, "/users", json!({"username": "ada", "roles": list(20_000)})),
            (Method::POST, "/users", json!({"username": "ada", "attributes": {&long: 1}})),
            (Method::POST, "/users", json!({"username": "ada", "attributes": {&long: "x".repeat(2_000)}})),
            (Method::POST, "/users", json!({"username": 1, "roles": long})),
            (Method::PUT, "/roles/a", json!({"policies": policies})),
            (Method::PUT, "/roles/a", json!({"policies": [], "name": long})),
            (Method::POST, "/traces/query", json!({"view": long})),
            (Method::POST, "/traces/query", json!({"from": long})),
            (Method::POST, "/me/api-keys", json!({"name": "x", "tools": [long]})),
            (
                Method::POST,
                "/policies/evaluate",
                json!({"expression": long, "user": {"username": "x"}, "spans": []}),
            ),
            (
                Method::PUT,
                "/schema/binding",
                json!({"database": long, "table": long, "trace_id": long, "span_id": long,
                "timestamp": long, "parent_span_id": long}),
            ),
            (
                Method::POST,
                "/schema/plan",
                json!({"roles": [{"name": long, "policies": policies}], &long: 1}),
            ),
        ] {
            let answer = admin.send(method, path, Some(body)).await;
            assert!((400..600).contains(&answer.status), "{path}: {}", answer.status);
            let (status, code) = (answer.status, answer.body["code"].as_str().unwrap().to_owned());
            let answer = answer.problem(status, &code);
            let one = answer.bytes.len() < 64 * 1024;
            assert!(
                one || answer.body["errors"].as_array().unwrap().len() > 1,
                "{path}: {} bytes",
                answer.bytes.len()
            );
        }
    }
    let many = (0..20_000).map(|at| at.to_string()).collect::<Vec<_>>();
    let refused =
        admin.post("/users", json!({"username": "ada", "roles": many})).await.problem(422, "unknown_role");
    let listed = refused.body["errors"].as_array().unwrap().len() as u64;
    assert_eq!(listed + refused.body["more_errors"].as_u64().unwrap(), 20_000);
}

#[tokio::test]
async fn a_problem_says_whether_to_send_it_again() {
    let service = Service::start();
    let admin = service.admin().await;
    let retry = |answer: Answer| answer.body["retry"].as_str().unwrap().to_owned();
    assert_eq!(retry(admin.get("/nothing").await.problem(404, "not_found")), "never");
    let wrong = json!({"username": "admin", "password": "wrong"});
    let client_without_session = service.anonymous();
    assert_eq!(
        retry(client_without_session.post("/login", wrong.clone()).await.problem(401, "invalid_credentials")),
        "never"
    );
    // Too many failed attempts are distinct from a busy service.
    let mut last = client_without_session.post("/login", wrong.clone()).await;
    while last.status == 401 {
        last = client_without_session.post("/login", wrong.clone()).await;
    }
    let blocked = last.problem(429, "too_many_attempts");
    assert!(blocked.headers.contains_key("retry-after"));
    assert_eq!(retry(blocked), "safe");
}

/// Only administrators see how to correct it; `retry` is `never` for every caller.
#[tokio::test]
async fn a_missing_bound_table_is_reported() {
    let store = Store::start();
    let (service, admin) = bound_service(&store, &[]).await;
    admin.put("/roles/all", json!({"policies": [{"title": "all", "expression": "true"}]})).await.expect(201);
    let ada = service.user(&admin, "ada", &["all"]).await;
    admin.patch("/users/admin", json!({"roles": ["admin", "all"]})).await.expect(200);
    for (change, undo, reason) in [
        (
            "RENAME TABLE otel.otel_traces TO otel.away",
            "RENAME TABLE otel.away TO otel.otel_traces",
            "no longer exists",
        ),
        (
            "ALTER TABLE otel.otel_traces RENAME COLUMN ParentSpanId TO P",
            "ALTER TABLE otel.otel_traces RENAME COLUMN P TO ParentSpanId",
            "no column `ParentSpanId`",
        ),
    ] {
        store.run(change).await;
        for (method, path) in [
            (Method::POST, "/traces/query".to_owned()),
            (Method::GET, format!("/traces/{BLUE}")),
            (Method::GET, format!("/traces/{BLUE}/explain")),
            (Method::GET, "/filter/values?ref=ServiceName".to_owned()),
        ] {
            for (client, is_admin) in [(&admin, true), (&ada, false)] {
                let request = client.request(method.clone(), &path);
                let request = if method == Method::POST { request.json(&json!({})) } else { request };
                let answer = Answer::read(path.clone(), request).await.problem(502, "clickhouse_error");
                let detail = answer.body["detail"].as_str().unwrap();
                let (advice, table) = (detail.contains("/schema/binding"), detail.contains(reason));
                assert_eq!((advice, table), (is_admin, is_admin), "{path}: {detail}");
                assert_eq!(answer.body["retry"], "never", "{path}");
            }
        }
        store.run(undo).await;
        ada.post("/traces/query", json!({})).await.expect(200);
    }
}

/// Values of any length are compared in full.
#[tokio::test]
async fn long_values_are_compared_in_full() {
    let store = Store::start();
    let (service, admin) = bound_service(&store, &[]).await;
    admin.put("/roles/all", json!({"policies": [{"title": "all", "expression": "true"}]})).await.expect(201);
    let ada = service.user(&admin, "ada", &["all"]).await;
    store
        .run(&format!(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ServiceName) VALUES \
             (now64(9) - 60, '{BLUE}', '1', repeat('N', 700000)), (now64(9) - 60, 'b{}', '1', repeat('N', 699999))",
            &BLUE[1..]
        ))
        .await;
    for (op, length, found) in [("eq", 700_000, 1), ("prefix", 150_000, 2), ("eq", 300_000, 0)] {
        let condition = json!({"name": "ServiceName", "op": op, "value": "N".repeat(length)});
        let filter = json!({"view": "ids", "filter": {"conditions": [condition]}});
        let ids = ada.post("/traces/query", filter).await.expect(200).body["trace_ids"].clone();
        assert_eq!(ids.as_array().unwrap().len(), found, "{op} {length}");
    }
    let name = "n".repeat(500_000);
    let binding = json!({"database": name, "table": "t", "trace_id": "a", "span_id": "b", "timestamp": "c", "parent_span_id": "d"});
    admin.with("if-match", "*").put("/schema/binding", binding).await.problem(422, "invalid_value");
}
