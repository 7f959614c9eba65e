//! State changes that another site makes a browser send.

use serde_json::json;

use crate::support::{ADMIN_PASSWORD, Service};

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
        foreign.send(reqwest::Method::POST, "/logout", None).await.problem(403, "cross_site");
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

#[tokio::test]
async fn bodies_that_a_form_can_send_are_refused() {
    let service = Service::start();
    let admin = service.admin().await;
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
    ] {
        let request = admin
            .request(reqwest::Method::POST, "/users")
            .header("content-type", kind)
            .body(r#"{"username": "ada"}"#);
        crate::support::Answer::read(kind.to_owned(), request).await.problem(415, "unsupported_media_type");
    }
}
