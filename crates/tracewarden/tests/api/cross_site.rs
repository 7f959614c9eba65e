//! State changes that another site makes a browser send.

use reqwest::Method;
use serde_json::json;

use crate::support::{ADMIN_PASSWORD, Answer, Service};

#[tokio::test]
async fn another_site_changes_nothing() {
    let service = Service::start();
    let admin = service.admin().await;
    let user = json!({"username": "ada"});
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1:1"),
    ] {
        let foreign = admin.with(name, value);
        foreign.post("/users", user.clone()).await.problem(403, "cross_site");
        foreign.delete("/users/admin").await.problem(403, "cross_site");
        foreign.put("/roles/a", json!({"policies": []})).await.problem(403, "cross_site");
        foreign.patch("/users/admin", json!({})).await.problem(403, "cross_site");
        foreign.send(Method::POST, "/logout", None).await.problem(403, "cross_site");
        foreign.get("/me").await.expect(200);
        let login = json!({"username": "admin", "password": ADMIN_PASSWORD});
        let anonymous = service.anonymous().with(name, value);
        anonymous.post("/login", login.clone()).await.problem(403, "cross_site");
        anonymous.with("authorization", "Bearer x").post("/login", login).await.problem(403, "cross_site");
    }
    admin.get("/users/ada").await.problem(404, "not_found");
}

#[tokio::test]
async fn the_own_site_and_programs_may() {
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
    // No browser attaches a key by itself.
    let created = admin.post("/me/api-keys", json!({"name": "x"})).await.expect(201).body;
    let key = service.anonymous().with_key(created["token"].as_str().unwrap());
    key.with("sec-fetch-site", "cross-site").post("/users", json!({"username": "bob"})).await.expect(201);
}

/// By every operation that may change something, also by those that read no body.
#[tokio::test]
async fn bodies_that_a_form_can_send_are_refused() {
    let service = Service::start();
    let admin = service.admin().await;
    let document = service.anonymous().get("/openapi.json").await.expect(200).body;
    let mut without_body = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap().iter().filter(|(method, _)| *method != "get") {
            without_body += usize::from(!operation["requestBody"].is_object());
            let method: Method = method.to_uppercase().parse().unwrap();
            let path = path.replace(['{', '}'], "");
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
    }
    assert!(without_body >= 10, "{without_body}");
    // JSON that nobody reads does no harm, and some programs always send it.
    let id = admin.get("/me/sessions").await.expect(200).body["sessions"][0]["id"].clone();
    let path = format!("/me/sessions/{}", id.as_str().unwrap());
    admin.send(Method::DELETE, &path, Some(json!({}))).await.expect(204);
    admin.get("/me").await.problem(401, "unauthenticated");
}
