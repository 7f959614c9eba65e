//! Who may call what, for every operation of the OpenAPI document.

use reqwest::Method;
use serde_json::json;

use crate::support::Service;

/// Operations that answer without a session or key. This list may only shrink.
const PUBLIC: &[&str] = &["GET /healthz", "GET /openapi.json", "GET /readyz", "POST /login"];

/// Operations that answer while the password must be changed first.
const WHILE_PASSWORD_IS_PENDING: &[&str] = &["GET /me", "POST /logout", "POST /me/password"];

/// Operations that any user may call.
const ANY_USER: &[&str] = &[
    "DELETE /me/api-keys/{id}",
    "DELETE /me/sessions/{id}",
    "GET /filter/schema",
    "GET /me/api-keys",
    "GET /me/sessions",
    "GET /traces/{id}",
    "POST /me/api-keys",
    "POST /traces/query",
];

/// All operations, and the path with something put in for its parameters.
async fn operations(service: &Service) -> Vec<(String, Method, String)> {
    let document = service.anonymous().get("/openapi.json").await.expect(200).body;
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let concrete = path.replace(['{', '}'], "");
            operations.push((format!("{method} {path}"), method, concrete));
        }
    }
    assert!(operations.len() >= 35, "{operations:?}");
    operations
}

#[tokio::test]
async fn without_a_credential_only_public_operations_answer() {
    let service = Service::start();
    for (name, method, path) in operations(&service).await {
        let answer = service.anonymous().send(method, &path, None).await;
        if PUBLIC.contains(&name.as_str()) {
            assert_ne!(answer.body["code"], "unauthenticated", "{name}");
        } else {
            let answer = answer.problem(401, "unauthenticated");
            assert_eq!(answer.headers["www-authenticate"], "Bearer", "{name}");
        }
    }
}

#[tokio::test]
async fn invalid_credentials_are_none() {
    let service = Service::start();
    let admin = service.admin().await;
    let anonymous = service.anonymous();
    let clients = [
        anonymous
            .with("cookie", "tracewarden=0000000000000000000000000000000000000000000000000000000000000000"),
        anonymous.with("cookie", "tracewarden=\u{e4}"),
        anonymous.with("authorization", "Bearer twk_0000000000000000000000000000000000"),
        anonymous.with("authorization", "Bearer "),
        anonymous.with("authorization", "Bearer"),
        anonymous.with("authorization", "Basic YWRtaW46YWRtaW4="),
        // A key that is invalid is not made good by a valid cookie beside it.
        admin.with("authorization", "Bearer twk_nonsense"),
        // The cookie of an installation over https.
        anonymous.with("cookie", &admin.cookie().replace("tracewarden=", "__Host-tracewarden=")),
        // A cookie that somebody planted beside the real one.
        anonymous.with("cookie", &format!("{}; tracewarden=planted", admin.cookie())),
    ];
    for (at, client) in clients.iter().enumerate() {
        let answer = client.get("/me").await;
        assert_eq!(answer.status, 401, "client {at}");
        answer.problem(401, "unauthenticated");
    }
    admin.get("/me").await.expect(200);
    // Strangers do not fill the log with errors.
    assert!(!service.log().contains("ERROR"), "{}", service.log());
}

#[tokio::test]
async fn users_reach_what_is_theirs_and_nothing_else() {
    let service = Service::start();
    let admin = service.admin().await;
    let user = service.user(&admin, "ada", &[]).await;
    for (name, method, path) in operations(&service).await {
        // What would end the session under test.
        if name == "POST /logout" {
            continue;
        }
        let answer = user.send(method, &path, None).await;
        let any_user = [PUBLIC, WHILE_PASSWORD_IS_PENDING, ANY_USER].concat().contains(&name.as_str());
        assert_eq!(answer.body["code"] == "forbidden", !any_user, "{name}: {}", answer.status);
        if !any_user {
            answer.problem(403, "forbidden");
        }
    }
}

#[tokio::test]
async fn a_pending_password_change_comes_before_everything_else() {
    let service = Service::start();
    let admin = service.admin().await;
    let created = admin.post("/users", json!({"username": "ada", "roles": ["admin"]})).await.expect(201);
    let ada = service.sign_in("ada", created.body["initial_password"].as_str().unwrap()).await;
    for (name, method, path) in operations(&service).await {
        if name == "POST /logout" || PUBLIC.contains(&name.as_str()) {
            continue;
        }
        let answer = ada.send(method, &path, None).await;
        if WHILE_PASSWORD_IS_PENDING.contains(&name.as_str()) {
            assert_ne!(answer.status, 403, "{name}");
        } else {
            answer.problem(403, "password_change_required");
        }
    }
}
