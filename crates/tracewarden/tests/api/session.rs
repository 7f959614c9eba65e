//! `/login` and `/logout`.

use serde_json::json;

use crate::every_operation::operations;
use crate::support::{ADMIN_PASSWORD, Answer, Service, USER_PASSWORD};

#[tokio::test]
async fn a_login_answers_with_the_caller_and_a_cookie() {
    let service = Service::start();
    let body = json!({"username": "admin", "password": ADMIN_PASSWORD});
    let answer = service.anonymous().post("/login", body).await.expect(200);
    assert_eq!(answer.body["username"], "admin");
    assert_eq!(answer.body["auth"], "session");
    assert_eq!(answer.body["is_admin"], true);
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    let (token, attributes) = cookie.split_once("; ").unwrap();
    assert!(token.starts_with("tracewarden="), "{cookie}");
    assert_eq!(attributes, "HttpOnly; SameSite=Lax; Path=/; Max-Age=34560000");
}

#[tokio::test]
async fn over_https_the_cookie_is_bound_to_the_host() {
    let service = Service::start_with(&[("TRACEWARDEN_PUBLIC_URL", "https://traces.example.com")]);
    let body = json!({"username": "admin", "password": ADMIN_PASSWORD});
    let answer = service.anonymous().post("/login", body).await.expect(200);
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("__Host-tracewarden="), "{cookie}");
    assert!(cookie.contains("; Secure; HttpOnly; SameSite=Lax; Path=/"), "{cookie}");
    assert!(!cookie.contains("Domain"), "{cookie}");
    let token = cookie.split(';').next().unwrap();
    service.anonymous().with("cookie", token).get("/me").await.expect(200);
    let plain = token.replace("__Host-", "");
    service.anonymous().with("cookie", &plain).get("/me").await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn unknown_wrong_and_disabled_get_the_same_answer() {
    let service = Service::start();
    let admin = service.admin().await;
    service.user(&admin, "ada", &[]).await;
    admin.patch("/users/ada", json!({"disabled": true})).await.expect(200);
    let anonymous = service.anonymous();
    let mut answers = Vec::new();
    for (username, password) in
        [("unknown-user", USER_PASSWORD), ("admin", "not the password"), ("ada", USER_PASSWORD), ("", "")]
    {
        let body = json!({"username": username, "password": password});
        let mut answer = anonymous.post("/login", body).await.problem(401, "invalid_credentials");
        assert!(!answer.headers.contains_key("set-cookie"));
        answer.body["request_id"] = json!(null);
        answers.push(answer.body);
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
}

#[tokio::test]
async fn too_many_attempts_have_to_wait() {
    let service = Service::start();
    service.admin().await;
    let wrong = json!({"username": "admin", "password": "not the password"});
    let mut refused = None;
    for _ in 0..100 {
        let answer = service.anonymous().post("/login", wrong.clone()).await;
        if answer.status == 429 {
            refused = Some(answer.problem(429, "too_many_attempts"));
            break;
        }
        answer.problem(401, "invalid_credentials");
    }
    let refused = refused.expect("a hundred wrong passwords are too many");
    let seconds: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!(seconds >= 1);
}

#[tokio::test]
async fn a_logout_ends_the_session_and_no_other() {
    let service = Service::start();
    let (first, second) = (service.admin().await, service.admin().await);
    let answer = first.send(reqwest::Method::POST, "/logout", None).await.expect(204);
    assert!(answer.bytes.is_empty());
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    assert_eq!(cookie, "tracewarden=; HttpOnly; SameSite=Lax; Path=/; Max-Age=0");
    first.get("/me").await.problem(401, "unauthenticated");
    second.get("/me").await.expect(200);
}

#[tokio::test]
async fn each_login_has_a_token_of_its_own() {
    let service = Service::start();
    let (first, second) = (service.admin().await, service.admin().await);
    assert_ne!(first.cookie(), second.cookie());
    // The session token in the sign-in request, which an attacker may have planted, is not reused.
    let planted = service.anonymous().with("cookie", first.cookie());
    let body = json!({"username": "admin", "password": ADMIN_PASSWORD});
    let answer = planted.post("/login", body).await.expect(200);
    assert!(!answer.headers["set-cookie"].to_str().unwrap().starts_with(first.cookie()));
}

#[tokio::test]
async fn nothing_secret_is_logged() {
    let service = Service::start_with(&[("TRACEWARDEN_LOG", "trace")]);
    let admin = service.admin().await;
    let created = admin.post("/users", json!({"username": "ada"})).await.expect(201);
    let key = admin.post("/me/api-keys", json!({"name": "canary"})).await.expect(201);
    let wrong = json!({"username": "hunter2-as-name", "password": "hunter2-as-password"});
    service.anonymous().post("/login", wrong).await.problem(401, "invalid_credentials");
    admin.get("/users?cursor=hunter2-in-query").await;
    let log = service.log();
    let secrets = [
        ADMIN_PASSWORD,
        admin.cookie().strip_prefix("tracewarden=").unwrap(),
        created.body["initial_password"].as_str().unwrap(),
        key.body["token"].as_str().unwrap(),
        "hunter2",
        "$argon2id$",
    ];
    for secret in secrets {
        assert!(!log.contains(secret), "the log contains {secret}");
    }
}

/// A cookie belongs to the browser: after a sign-in in another window, requests of a page are for another user than it shows.
#[tokio::test]
async fn every_operation_is_refused_if_the_client_expects_another_user() {
    let service = Service::start();
    let admin = service.admin().await;
    let ada = service.user(&admin, "ada", &[]).await;
    let id = |answer: Answer| answer.body["id"].as_str().unwrap().to_owned();
    let (of_admin, of_ada) = (id(admin.get("/me").await.expect(200)), id(ada.get("/me").await.expect(200)));
    for (expected, client) in [(&of_ada, &admin), (&of_admin, &ada)] {
        let client = client.with("tracewarden-user", expected);
        for operation in operations(&service).await {
            if operation.access == "public" {
                continue;
            }
            let path = operation.path_of_missing_object();
            client.send(operation.method, &path, None).await.problem(412, "user_mismatch");
        }
    }
    // None was performed.
    admin.with("tracewarden-user", &of_admin).get("/me").await.expect(200);
    ada.with("tracewarden-user", &of_ada).get("/me").await.expect(200);
    for odd in ["", "*", "ada"] {
        ada.with("tracewarden-user", odd).get("/me").await.problem(412, "user_mismatch");
    }
}
