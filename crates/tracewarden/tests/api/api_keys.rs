//! `/me/api-keys`.

use serde_json::json;

use crate::support::{ADMIN_PASSWORD, Service, USER_PASSWORD};

#[tokio::test]
async fn a_key_has_the_current_roles_of_its_creator() {
    let service = Service::start();
    let admin = service.admin().await;
    let ada = service.user(&admin, "ada", &[]).await;
    let created = ada.post("/me/api-keys", json!({"name": "nightly"})).await.expect(201).body;
    let token = created["token"].as_str().unwrap();
    assert!(token.starts_with("twk_"));
    assert!(token.starts_with(created["token_hint"].as_str().unwrap().trim_end_matches('…')), "{created}");
    let key = service.anonymous().with_key(token);
    assert_eq!(key.get("/me").await.expect(200).body["auth"], "api_key");
    key.get("/users").await.problem(403, "forbidden");

    admin.patch("/users/ada", json!({"roles": ["admin"]})).await.expect(200);
    key.get("/users").await.expect(200);
    admin.patch("/users/ada", json!({"disabled": true})).await.expect(200);
    key.get("/me").await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn an_expiry_beyond_the_supported_range_is_rejected() {
    let service = Service::start();
    let admin = service.admin().await;
    for at in ["2262-04-12T00:00:00Z", "2500-01-01T00:00:00Z", "9999-12-31T23:59:59Z"] {
        let new = json!({"name": "late", "expires_at": at});
        let answer = admin.post("/me/api-keys", new).await.problem(422, "invalid_value");
        let error = answer.first_error();
        assert_eq!(error["pointer"], "/expires_at", "{error}");
        assert!(error["detail"].as_str().unwrap().contains("2262"), "{error}");
    }
    assert_eq!(admin.get("/me/api-keys").await.expect(200).body["api_keys"], json!([]));
    let last = json!({"name": "late", "expires_at": "2262-04-11T00:00:00Z"});
    let created = admin.post("/me/api-keys", last).await.expect(201).body;
    assert_eq!(created["expires_at"], "2262-04-11T00:00:00Z");
}

#[tokio::test]
async fn the_number_of_keys_per_user_is_limited() {
    let service = Service::start();
    let admin = service.admin().await;
    let new = |number: usize| json!({"name": format!("key {number}")});
    for number in 0..100 {
        admin.post("/me/api-keys", new(number)).await.expect(201);
    }
    admin.post("/me/api-keys", new(100)).await.problem(409, "conflict");
    let keys = admin.get("/me/api-keys").await.expect(200).body["api_keys"].clone();
    assert_eq!(keys.as_array().unwrap().len(), 100);
    admin.delete(&format!("/me/api-keys/{}", keys[0]["id"].as_str().unwrap())).await.expect(204);
    admin.post("/me/api-keys", new(100)).await.expect(201);
}

#[tokio::test]
async fn the_token_is_shown_once() {
    let service = Service::start();
    let admin = service.admin().await;
    let created = admin.post("/me/api-keys", json!({"name": "nightly"})).await.expect(201).body;
    let token = created["token"].as_str().unwrap();
    service.anonymous().with_key(token).get("/me").await.expect(200);
    let list = admin.get("/me/api-keys").await.expect(200);
    assert!(!String::from_utf8_lossy(&list.bytes).contains(token));
    let key = &list.body["api_keys"][0];
    assert_eq!(key["name"], "nightly");
    assert_eq!(key["id"], created["id"]);
    assert!(key["last_used_at"].is_string(), "{key}");
    assert!(key["expires_at"].is_null(), "{key}");
}

#[tokio::test]
async fn a_revoked_key_is_rejected() {
    let service = Service::start();
    let admin = service.admin().await;
    let created = admin.post("/me/api-keys", json!({"name": "nightly"})).await.expect(201).body;
    let key = service.anonymous().with_key(created["token"].as_str().unwrap());
    let path = format!("/me/api-keys/{}", created["id"].as_str().unwrap());
    admin.delete(&path).await.expect(204);
    key.get("/me").await.problem(401, "unauthenticated");
    admin.delete(&path).await.problem(404, "not_found");
}

#[tokio::test]
async fn sensitive_operations_need_a_session() {
    let service = Service::start();
    let admin = service.admin().await;
    let created = admin.post("/me/api-keys", json!({"name": "nightly"})).await.expect(201).body;
    let key = service.anonymous().with_key(created["token"].as_str().unwrap());
    key.post("/me/api-keys", json!({"name": "more"})).await.problem(403, "session_required");
    let change = json!({"current_password": ADMIN_PASSWORD, "new_password": "another long sentence"});
    key.post("/me/password", change).await.problem(403, "session_required");
    key.send(reqwest::Method::POST, "/logout", None).await.problem(403, "session_required");
    service.user(&admin, "ada", &[]).await;
    key.patch("/users/ada", json!({"roles": ["admin"]})).await.problem(403, "session_required");
    let eve = json!({"username": "eve", "roles": ["admin"]});
    key.post("/users", eve).await.problem(403, "session_required");
    key.send(reqwest::Method::POST, "/users/admin/password", None).await.problem(403, "session_required");
    // With an API key, an administrator may provision other users.
    key.post("/users", json!({"username": "bob"})).await.expect(201);
    key.send(reqwest::Method::POST, "/users/ada/password", None).await.expect(200);
}

#[tokio::test]
async fn keys_of_other_users_are_not_accessible() {
    let service = Service::start();
    let admin = service.admin().await;
    let ada = service.user(&admin, "ada", &[]).await;
    let created = admin.post("/me/api-keys", json!({"name": "nightly"})).await.expect(201).body;
    ada.delete(&format!("/me/api-keys/{}", created["id"].as_str().unwrap())).await.problem(404, "not_found");
    assert_eq!(ada.get("/me/api-keys").await.expect(200).body["api_keys"], json!([]));
}

#[tokio::test]
async fn keys_survive_a_password_change_and_end_with_their_user() {
    let service = Service::start();
    let admin = service.admin().await;
    let ada = service.user(&admin, "ada", &[]).await;
    let created = ada.post("/me/api-keys", json!({"name": "nightly"})).await.expect(201).body;
    let key = service.anonymous().with_key(created["token"].as_str().unwrap());
    let change = json!({"current_password": USER_PASSWORD, "new_password": "another long sentence"});
    ada.post("/me/password", change).await.expect(204);
    key.get("/me").await.expect(200);
    admin.delete("/users/ada").await.expect(204);
    key.get("/me").await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn an_expiry_in_the_past_is_refused() {
    let service = Service::start();
    let admin = service.admin().await;
    let past = json!({"name": "nightly", "expires_at": "2020-01-01T00:00:00Z"});
    assert_eq!(admin.post("/me/api-keys", past).await.expect(422).first_error()["pointer"], "/expires_at");
    let wrong = json!({"name": "nightly", "expires_at": "tomorrow"});
    let answer = admin.post("/me/api-keys", wrong).await.problem(400, "invalid_request");
    assert_eq!(answer.first_error()["pointer"], "/expires_at");
    let future = json!({"name": "nightly", "expires_at": "2200-01-01T00:00:00Z"});
    assert_eq!(
        admin.post("/me/api-keys", future).await.expect(201).body["expires_at"],
        "2200-01-01T00:00:00Z"
    );
}
