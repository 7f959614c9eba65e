//! Headers of every answer, and content negotiation.

use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, Client, Service};

#[track_caller]
fn assert_secure_headers(answer: &Answer) {
    let header = |name: &str| answer.headers.get(name).map_or("", |value| value.to_str().unwrap());
    let policy = header("content-security-policy");
    assert!(policy.contains("default-src 'none'"), "{}: {policy}", answer.request_info);
    assert!(policy.contains("frame-ancestors 'none'"), "{}: {policy}", answer.request_info);
    assert!(policy.contains("base-uri 'none'"), "{}: {policy}", answer.request_info);
    assert!(!policy.contains("unsafe-inline"), "{}: {policy}", answer.request_info);
    assert_eq!(header("x-content-type-options"), "nosniff", "{}", answer.request_info);
    assert_eq!(header("referrer-policy"), "no-referrer", "{}", answer.request_info);
    assert_eq!(header("cache-control"), "no-store", "{}", answer.request_info);
    assert_eq!(header("x-request-id").len(), 32, "{}", answer.request_info);
}

async fn all_kinds_of_answers(admin: &Client, anonymous: &Client) -> Vec<Answer> {
    vec![
        admin.get("/me").await.expect(200),
        admin.post("/users", json!({"username": "ada"})).await.expect(201),
        admin.delete("/users/ada").await.expect(204),
        anonymous.get("/me").await.problem(401, "unauthenticated"),
        anonymous.get("/nothing").await.problem(404, "not_found"),
        anonymous.get("/healthz").await.expect(200),
        anonymous.get("/openapi.json").await.expect(200),
        anonymous.send(Method::DELETE, "/login", None).await.problem(405, "method_not_allowed"),
        admin.post("/traces/query", json!({})).await.problem(409, "not_bound"),
    ]
}

#[tokio::test]
async fn every_answer_is_secured() {
    let service = Service::start();
    let answers = all_kinds_of_answers(&service.admin().await, &service.anonymous()).await;
    for answer in &answers {
        assert_secure_headers(answer);
        assert!(!answer.headers.contains_key("strict-transport-security"), "{}", answer.request_info);
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "{}", answer.request_info);
    }
}

#[tokio::test]
async fn hsts_is_sent_over_https() {
    let service = Service::start_with(&[("TRACEWARDEN_PUBLIC_URL", "https://traces.example.com")]);
    let answer = service.anonymous().get("/healthz").await.expect(200);
    assert!(answer.headers["strict-transport-security"].to_str().unwrap().starts_with("max-age="));
}

#[tokio::test]
async fn request_ids_are_generated_and_unique() {
    let service = Service::start();
    let client = service.anonymous().with("x-request-id", "chosen-by-the-client");
    let first = client.get("/healthz").await.expect(200);
    let second = client.get("/healthz").await.expect(200);
    assert_ne!(first.headers["x-request-id"], second.headers["x-request-id"]);
    assert!(!first.headers["x-request-id"].to_str().unwrap().contains("chosen"));
}

#[tokio::test]
async fn unsupported_formats_are_not_acceptable() {
    let service = Service::start();
    let admin = service.admin().await;
    for accept in ["text/html", "application/xml", "application/json;q=0", "application/x-ndjson"] {
        admin.with("accept", accept).get("/me").await.problem(406, "not_acceptable");
    }
    for accept in ["*/*", "application/*", "application/json", "text/html, */*;q=0.1"] {
        admin.with("accept", accept).get("/me").await.expect(200);
    }
    // A request whose answer would not be acceptable has no effect.
    let html = admin.with("accept", "text/html");
    html.post("/users", json!({"username": "ada"})).await.problem(406, "not_acceptable");
    admin.get("/users/ada").await.problem(404, "not_found");
}

#[tokio::test]
async fn answers_are_compressed_when_the_client_accepts_it() {
    let service = Service::start();
    let anonymous = service.anonymous();
    let plain = anonymous.get("/openapi.json").await.expect(200);
    for (encoding, magic) in [("gzip", &[0x1f, 0x8b][..]), ("zstd", &[0x28, 0xb5, 0x2f, 0xfd][..])] {
        let answer = anonymous.with("accept-encoding", encoding).get("/openapi.json").await.expect(200);
        assert_eq!(answer.headers["content-encoding"], encoding);
        assert!(answer.bytes.starts_with(magic));
        assert!(answer.bytes.len() * 4 < plain.bytes.len());
    }
}

#[tokio::test]
async fn forwarded_addresses_count_from_configured_proxies_only() {
    for (trusted, expected) in [("", "127.0.0.1"), ("127.0.0.0/8", "198.51.100.7")] {
        let service = Service::start_with(&[("TRACEWARDEN_TRUSTED_PROXIES", trusted)]);
        let admin = service.admin().await;
        let forwarded = admin.with("x-forwarded-for", "203.0.113.1, 198.51.100.7");
        forwarded.post("/users", json!({"username": "ada"})).await.expect(201);
        let records = admin.get("/audit?limit=1").await.expect(200).body;
        assert_eq!(records["records"][0]["client_ip"], expected, "{records}");
    }
}
