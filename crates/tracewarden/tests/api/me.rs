//! `/me`, `/me/password`, `/me/sessions`.

use serde_json::{Value, json};

use crate::support::{ADMIN_PASSWORD, Service, USER_PASSWORD};

#[tokio::test]
async fn the_caller_is_described() {
    let service = Service::start();
    let admin = service.admin().await;
    let user =
        json!({"username": "ada", "attributes": {"team": "blue", "on_call": true, "tenants": ["a", "b"]}});
    let created = admin.post("/users", user).await.expect(201);
    let ada = service.sign_in("ada", created.body["initial_password"].as_str().unwrap()).await;
    let mut me = ada.get("/me").await.expect(200).body;
    assert!(me["id"].as_str().is_some_and(|id| !id.is_empty()));
    me["id"] = Value::Null;
    let expected = json!({"id": null, "username": "ada", "roles": [], "is_admin": false, "must_change_password": true,
        "attributes": {"on_call": true, "team": "blue", "tenants": ["a", "b"]}, "preview": null, "auth": "session"});
    assert_eq!(me, expected);
}

#[tokio::test]
async fn a_password_change_ends_the_other_sessions() {
    let service = Service::start();
    let admin = service.admin().await;
    let first = service.user(&admin, "ada", &[]).await;
    let second = service.sign_in("ada", USER_PASSWORD).await;
    assert_eq!(first.get("/me").await.expect(200).body["must_change_password"], false);

    let wrong = json!({"current_password": "not the password", "new_password": "another long sentence"});
    let refused = first.post("/me/password", wrong).await;
    assert!([401, 403, 422].contains(&refused.status), "{}", refused.body);
    second.get("/me").await.expect(200);

    let change = json!({"current_password": USER_PASSWORD, "new_password": "another long sentence"});
    first.post("/me/password", change).await.expect(204);
    first.get("/me").await.expect(200);
    second.get("/me").await.problem(401, "unauthenticated");
    let old = json!({"username": "ada", "password": USER_PASSWORD});
    service.anonymous().post("/login", old).await.problem(401, "invalid_credentials");
    service.sign_in("ada", "another long sentence").await;
}

#[tokio::test]
async fn weak_passwords_are_refused() {
    let service = Service::start();
    let admin = service.admin().await;
    let long = "x".repeat(257);
    for new in ["short", "passwordpassword", "admin admin admin", "tracewarden 2026", &long] {
        let change = json!({"current_password": ADMIN_PASSWORD, "new_password": new});
        let answer = admin.post("/me/password", change).await.problem(422, "password_rejected");
        assert_eq!(answer.first_error()["pointer"], "/new_password", "{new}");
    }
}

#[tokio::test]
async fn rejected_new_passwords_do_not_count_as_failed_sign_ins() {
    let service = Service::start();
    let admin = service.admin().await;
    let change = |current: &str, new: &str| json!({"current_password": current, "new_password": new});
    for _ in 0..8 {
        admin.post("/me/password", change(ADMIN_PASSWORD, "short")).await.problem(422, "password_rejected");
        let same = change(ADMIN_PASSWORD, ADMIN_PASSWORD);
        admin.post("/me/password", same).await.problem(422, "password_rejected");
    }
    service.sign_in("admin", ADMIN_PASSWORD).await;
    admin.post("/me/password", change(ADMIN_PASSWORD, "eight calm lighthouses")).await.expect(204);
    // Guesses are still rate-limited.
    for _ in 0..6 {
        let guess = change("not the password", "nine calm lighthouses");
        admin.post("/me/password", guess).await.problem(401, "invalid_credentials");
    }
    let guess = change("eight calm lighthouses", "nine calm lighthouses");
    admin.post("/me/password", guess).await.problem(429, "too_many_attempts");
}

#[tokio::test]
async fn sessions_are_listed_and_ended() {
    let service = Service::start();
    let first = service.admin().await;
    let second = service.sign_in("admin", ADMIN_PASSWORD).await;
    let list = first.get("/me/sessions").await.expect(200).body["sessions"].as_array().unwrap().clone();
    assert_eq!(list.len(), 2);
    assert!(
        !list.iter().any(|session| session.to_string().contains(first.cookie().split_once('=').unwrap().1))
    );
    let other = list.iter().find(|session| session["current"] == false).unwrap();
    assert_eq!(other["client_ip"], "127.0.0.1");
    let path = format!("/me/sessions/{}", other["id"].as_str().unwrap());
    first.delete(&path).await.expect(204);
    second.get("/me").await.problem(401, "unauthenticated");
    first.delete(&path).await.problem(404, "not_found");
}

#[tokio::test]
async fn sessions_of_other_users_are_not_accessible() {
    let service = Service::start();
    let admin = service.admin().await;
    let ada = service.user(&admin, "ada", &[]).await;
    let list = admin.get("/me/sessions").await.expect(200).body;
    let path = format!("/me/sessions/{}", list["sessions"][0]["id"].as_str().unwrap());
    ada.delete(&path).await.problem(404, "not_found");
    admin.get("/me").await.expect(200);
}
