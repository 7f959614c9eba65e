//! State-changing requests that another site makes a browser send.

use reqwest::Method;
use serde_json::json;

use crate::every_operation::{Fixture, Operation, operations, stored_tables};
use crate::support::{Answer, Service};

/// Tests every operation that may change something, with a caller who is allowed to.
#[tokio::test]
async fn another_site_changes_nothing() {
    let fixture = Fixture::make(&[]).await;
    let mut changing = Vec::new();
    for operation in operations(&fixture.service).await.into_iter().filter(Operation::changes) {
        changing.push((fixture.client(&operation).await, operation));
    }
    assert!(changing.len() >= 25, "{}", changing.len());
    let before = stored_tables(&fixture.service).await;
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1:1"),
    ] {
        for (client, operation) in &changing {
            fixture.ask(&client.with(name, value), operation).await.problem(403, "cross_site");
        }
        // An invalid API key does not exempt a request from the check.
        for path in ["/login", "/identity/break-glass"] {
            let login = changing.iter().find(|(_, operation)| operation.path == path).unwrap();
            let cross_site_client = login.0.with("authorization", "Bearer x").with(name, value);
            fixture.ask(&cross_site_client, &login.1).await.problem(403, "cross_site");
        }
        fixture.admin.with(name, value).get("/me").await.expect(200);
    }
    assert_eq!(stored_tables(&fixture.service).await, before);
}

#[tokio::test]
async fn the_same_site_and_programs_are_accepted() {
    let service = Service::start();
    let admin = service.admin().await;
    let own = service.base.clone();
    for (at, (name, value)) in
        [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "none"), ("origin", own.as_str()), ("x", "y")]
            .into_iter()
            .enumerate()
    {
        let user = json!({"username": format!("user-{at}")});
        admin.with(name, value).post("/users", user).await.expect(201);
    }
    // Browsers do not attach API keys by themselves.
    let created = admin.post("/me/api-keys", json!({"name": "x"})).await.expect(201).body;
    let key = service.anonymous().with_key(created["token"].as_str().unwrap());
    key.with("sec-fetch-site", "cross-site").post("/users", json!({"username": "bob"})).await.expect(201);
}

/// Tests every operation that may change something, including those that read no body.
#[tokio::test]
async fn bodies_that_a_form_can_send_are_refused() {
    let service = Service::start();
    let admin = service.admin().await;
    let mut without_body = 0;
    for operation in operations(&service).await.into_iter().filter(Operation::changes) {
        without_body += usize::from(!operation.reads_body);
        let (method, path) = (&operation.method, operation.path_of_missing_object());
        for (kind, body) in [
            (Some("text/plain"), r#"{"username": "ada"}"#),
            (Some("application/x-www-form-urlencoded"), "a=b"),
            (Some("application/x-www-form-urlencoded"), ""),
            (Some("multipart/form-data; boundary=x"), "--x--"),
            (Some("application/jsonx"), "{}"),
            (None, "{}"),
        ] {
            let mut request = admin.request(method.clone(), &path).body(body);
            if let Some(kind) = kind {
                request = request.header("content-type", kind);
            }
            let answer = Answer::read(format!("{method} {path}"), request).await;
            answer.problem(415, "unsupported_media_type");
        }
        let pieces = futures::stream::iter([Ok::<_, std::io::Error>("{}")]);
        let request = admin.request(method.clone(), &path).body(reqwest::Body::wrap_stream(pieces));
        let answer = Answer::read(format!("{method} {path}"), request).await;
        answer.problem(415, "unsupported_media_type");
    }
    assert!(without_body >= 10, "{without_body}");
    // An unused JSON body is accepted: some programs always send one.
    let id = admin.get("/me/sessions").await.expect(200).body["sessions"][0]["id"].clone();
    let path = format!("/me/sessions/{}", id.as_str().unwrap());
    admin.send(Method::DELETE, &path, Some(json!({}))).await.expect(204);
    admin.get("/me").await.problem(401, "unauthenticated");
}
