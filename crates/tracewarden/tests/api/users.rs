//! `/users`.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{ADMIN_PASSWORD, Answer, Service, USER_PASSWORD};

#[tokio::test]
async fn a_user_is_made_with_a_password_that_must_be_changed() {
    let service = Service::start();
    let admin = service.admin().await;
    let user = json!({"username": "Ada", "attributes": {"team": "blue"}});
    let created = admin.post("/users", user).await.expect(201).body;
    assert_eq!(created["must_change_password"], true);
    assert_eq!(created["attributes"], json!({"team": "blue"}));
    assert_eq!(created["last_login_at"], Value::Null);
    let initial = created["initial_password"].as_str().unwrap();
    service.sign_in("ada", initial).await;
    let stored = admin.get("/users/ada").await.expect(200).body;
    assert_eq!(stored["username"], "Ada");
    assert!(stored["last_login_at"].is_string());
    assert!(stored.get("initial_password").is_none());
}

#[tokio::test]
async fn names_are_unique_without_regard_to_case() {
    let service = Service::start();
    let admin = service.admin().await;
    admin.post("/users", json!({"username": "ada"})).await.expect(201);
    admin.post("/users", json!({"username": "ADA"})).await.problem(409, "conflict");
    let mut wrong: Vec<String> = ["", " ", "a b/c\u{0}", "a\u{202e}b"].map(str::to_owned).to_vec();
    wrong.push("x".repeat(10_000));
    for name in wrong {
        let answer = admin.post("/users", json!({"username": name})).await.expect(422);
        assert_eq!(answer.first_error()["pointer"], "/username", "{name:?}");
    }
}

/// Two names that differ only in invisible characters would be two users that look the same.
#[tokio::test]
async fn names_that_look_the_same_are_refused() {
    let service = Service::start();
    let admin = service.admin().await;
    admin.post("/users", json!({"username": "zo\u{EB}"})).await.expect(201);
    admin.post("/users", json!({"username": "ZO\u{CB}"})).await.problem(409, "conflict");
    for (name, expected) in [
        ("zoe\u{308}", "normal form C"),
        ("zo\u{AD}e", "U+00AD"),
        ("\u{3164}", "U+3164"),
        ("zoe\u{115F}", "U+115F"),
        ("zoe\u{2800}", "U+2800"),
        ("zoe\u{FE0F}", "U+FE0F"),
        ("zoe\u{E0041}", "U+E0041"),
        ("zoe\u{A0}x", "U+00A0"),
        ("\u{301}", "U+0301"),
    ] {
        let answer = admin.post("/users", json!({"username": name})).await.problem(422, "invalid_value");
        let error = answer.first_error();
        assert_eq!(error["pointer"], "/username", "{name:?}");
        assert!(error["detail"].as_str().unwrap().contains(expected), "{name:?}: {error}");
    }
    let users = admin.get("/users").await.expect(200).body["users"].as_array().unwrap().len();
    assert_eq!(users, 2);
}

#[tokio::test]
async fn an_unknown_role_is_refused() {
    let service = Service::start();
    let admin = service.admin().await;
    let user = json!({"username": "ada", "roles": ["adminn"]});
    let answer = admin.post("/users", user).await.problem(422, "unknown_role");
    assert!(answer.first_error()["pointer"].as_str().unwrap().starts_with("/roles"), "{}", answer.body);
    admin.get("/users/ada").await.problem(404, "not_found");
    admin.post("/users", json!({"username": "ada"})).await.expect(201);
    admin.patch("/users/ada", json!({"roles": ["nope"]})).await.problem(422, "unknown_role");
}

#[tokio::test]
async fn changes_take_effect_at_the_next_request() {
    let service = Service::start();
    let admin = service.admin().await;
    let ada = service.user(&admin, "ada", &[]).await;
    ada.get("/users").await.problem(403, "forbidden");
    let changed =
        admin.patch("/users/ada", json!({"roles": ["admin"], "attributes": {"x": true}})).await.expect(200);
    assert_eq!(changed.body["roles"], json!(["admin"]));
    ada.get("/users").await.expect(200);
    // Members that are absent from the request keep their value.
    let changed = admin.patch("/users/ada", json!({"attributes": {}})).await.expect(200);
    assert_eq!(changed.body["roles"], json!(["admin"]));
    admin.patch("/users/ada", json!({"disabled": true})).await.expect(200);
    ada.get("/me").await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn the_last_administrator_stays() {
    let service = Service::start();
    let admin = service.admin().await;
    admin.patch("/users/admin", json!({"roles": []})).await.problem(409, "last_admin");
    admin.patch("/users/admin", json!({"disabled": true})).await.problem(409, "last_admin");
    admin.delete("/users/admin").await.problem(409, "last_admin");
    service.user(&admin, "ada", &["admin"]).await;
    admin.patch("/users/admin", json!({"roles": []})).await.expect(200);
    admin.get("/users").await.problem(403, "forbidden");
}

#[tokio::test]
async fn a_deleted_user_is_gone_with_sessions() {
    let service = Service::start();
    let admin = service.admin().await;
    let ada = service.user(&admin, "ada", &[]).await;
    admin.delete("/users/ada").await.expect(204);
    ada.get("/me").await.problem(401, "unauthenticated");
    admin.get("/users/ada").await.problem(404, "not_found");
    admin.delete("/users/ada").await.problem(404, "not_found");
    admin.patch("/users/ada", json!({})).await.problem(404, "not_found");
}

#[tokio::test]
async fn a_new_password_ends_all_sessions() {
    let service = Service::start();
    let admin = service.admin().await;
    let ada = service.user(&admin, "ada", &[]).await;
    let rotated = admin.send(Method::POST, "/users/ada/password", None).await.expect(200).body;
    ada.get("/me").await.problem(401, "unauthenticated");
    let old = json!({"username": "ada", "password": USER_PASSWORD});
    service.anonymous().post("/login", old).await.problem(401, "invalid_credentials");
    let ada = service.sign_in("ada", rotated["initial_password"].as_str().unwrap()).await;
    assert_eq!(ada.get("/me").await.expect(200).body["must_change_password"], true);
}

#[tokio::test]
async fn users_are_listed_in_pages() {
    let service = Service::start();
    let admin = service.admin().await;
    for name in ["ada", "bob", "cyd", "dan"] {
        admin.post("/users", json!({"username": name})).await.expect(201);
    }
    let mut seen = Vec::new();
    let mut path = "/users?limit=2".to_owned();
    loop {
        let page = admin.get(&path).await.expect(200).body;
        let users = page["users"].as_array().unwrap();
        assert!(users.len() <= 2);
        seen.extend(users.iter().map(|user| user["username"].as_str().unwrap().to_owned()));
        match page.get("next_cursor") {
            Some(cursor) => path = format!("/users?limit=2&cursor={}", cursor.as_str().unwrap()),
            None => break,
        }
    }
    assert_eq!(seen, ["ada", "admin", "bob", "cyd", "dan"]);
    for wrong in ["0", "-1", "1.5", "x", "", "-99999999999999999999"] {
        let answer = admin.get(&format!("/users?limit={wrong}")).await.problem(400, "invalid_request");
        assert_eq!(answer.first_error()["pointer"], "/limit", "{wrong}");
    }
    admin.get("/users?limit=99999999999999999999").await.expect(200);
    let whole = admin.get("/users").await.expect(200);
    assert!(!String::from_utf8_lossy(&whole.bytes).contains("argon2"));
}

#[tokio::test]
async fn sessions_and_keys_of_a_user_are_listed_and_ended() {
    let service = Service::start();
    let admin = service.admin().await;
    let ada = service.user(&admin, "ada", &[]).await;
    let other = service.sign_in("ada", USER_PASSWORD).await;
    let created = ada.post("/me/api-keys", json!({"name": "one"})).await.expect(201).body;
    ada.post("/me/api-keys", json!({"name": "two"})).await.expect(201);
    let key = service.anonymous().with_key(created["token"].as_str().unwrap());

    let keys = admin.get("/users/ada/api-keys").await.expect(200).body;
    assert_eq!(keys["api_keys"].as_array().unwrap().len(), 2);
    admin.delete(&format!("/users/ada/api-keys/{}", created["id"].as_str().unwrap())).await.expect(204);
    key.get("/me").await.problem(401, "unauthenticated");
    admin.delete("/users/ada/api-keys").await.expect(204);
    assert_eq!(admin.get("/users/ada/api-keys").await.expect(200).body["api_keys"], json!([]));

    let mine = ada.get("/me/sessions").await.expect(200).body["sessions"].as_array().unwrap().clone();
    let current =
        mine.iter().find(|session| session["current"] == true).unwrap()["id"].as_str().unwrap().to_owned();
    admin.delete(&format!("/users/ada/sessions/{current}")).await.expect(204);
    ada.get("/me").await.problem(401, "unauthenticated");
    other.get("/me").await.expect(200);
    admin.delete("/users/ada/sessions").await.expect(204);
    other.get("/me").await.problem(401, "unauthenticated");
    admin.get("/users/unknown-user/sessions").await.problem(404, "not_found");
}

#[tokio::test]
async fn access_lists_the_current_policies() {
    let service = Service::start();
    let admin = service.admin().await;
    let policies = json!({"policies": [{"title": "All", "expression": "true"}]});
    admin.put("/roles/readers", policies).await.expect(201);
    admin.post("/users", json!({"username": "ada", "roles": ["readers"]})).await.expect(201);
    let access = admin.get("/users/ada/access").await.expect(200).body;
    assert_eq!(access["user"]["username"], "ada");
    assert_eq!(access["roles"][0]["name"], "readers");
    assert_eq!(access["roles"][0]["policies"][0]["expression"], "true");
    assert_eq!(access["roles"][0]["policies"][0]["requirement"], "every span");
    assert_eq!(access["summary"], "`ada` can read every trace; nothing before the password is changed");
    service.user(&admin, "bob", &["readers"]).await;
    assert_eq!(
        admin.get("/users/bob/access").await.expect(200).body["summary"],
        "`bob` can read every trace"
    );
}

#[tokio::test]
async fn attributes_are_strings_booleans_or_lists_of_strings() {
    let service = Service::start();
    let admin = service.admin().await;
    for wrong in [json!(1), json!(null), json!([1]), json!({"a": "b"})] {
        let user = json!({"username": "ada", "attributes": {"team": wrong}});
        let answer = admin.post("/users", user).await.problem(400, "invalid_request");
        assert_eq!(answer.first_error()["pointer"], "/attributes/team");
    }
    // The administrator is unchanged.
    service.sign_in("admin", ADMIN_PASSWORD).await;
}

#[tokio::test]
async fn duplicate_attributes_are_rejected() {
    let service = Service::start();
    let admin = service.admin().await;
    admin.post("/users", json!({"username": "ada", "attributes": {"team": "red"}})).await.expect(201);
    let twice = r#""attributes": {"team": "blue", "te~/m": true, "te~/m": "x", "team": ["y"]}"#;
    for (method, path, body) in [
        (Method::POST, "/users", format!(r#"{{"username": "bob", {twice}}}"#)),
        (Method::PATCH, "/users/ada", format!("{{{twice}}}")),
        (Method::PUT, "/me/preview", format!(r#"{{"roles": [], {twice}}}"#)),
    ] {
        let request = admin.request(method, path).header("content-type", "application/json").body(body);
        let answer = Answer::read(path.to_owned(), request).await.problem(400, "invalid_request");
        let error = answer.first_error();
        assert_eq!(error["pointer"], "/attributes/te~0~1m", "{path}: {error}");
        assert!(error["detail"].as_str().unwrap().contains("duplicate field `te~/m`"), "{error}");
    }
    admin.get("/users/bob").await.problem(404, "not_found");
    assert_eq!(admin.get("/users/ada").await.expect(200).body["attributes"], json!({"team": "red"}));
    assert_eq!(admin.get("/me").await.expect(200).body["preview"], Value::Null);
}

#[tokio::test]
async fn concurrent_administrators_do_not_overwrite_each_other() {
    let service = Service::start();
    let admin = service.admin().await;
    admin.post("/users", json!({"username": "ada"})).await.expect(201);
    let tag = |answer: &crate::support::Answer| answer.headers["etag"].to_str().unwrap().to_owned();
    let read = tag(&admin.get("/users/ada").await.expect(200));
    let (first, second) = (admin.with("if-match", &read), admin.with("if-match", &read));
    let changed = first.patch("/users/ada", json!({"attributes": {"team": "blue"}})).await.expect(200);
    assert_ne!(tag(&changed), read);
    assert_eq!(tag(&admin.get("/users/ada").await.expect(200)), tag(&changed));
    second.patch("/users/ada", json!({"disabled": true})).await.problem(412, "precondition_failed");
    second.delete("/users/ada").await.problem(412, "precondition_failed");
    let stored = admin.get("/users/ada").await.expect(200).body;
    assert_eq!((&stored["disabled"], &stored["attributes"]), (&json!(false), &json!({"team": "blue"})));
    for wrong in ["nonsense", "W/\"1\"", "7", ""] {
        admin.with("if-match", wrong).delete("/users/ada").await.problem(412, "precondition_failed");
    }
    // One matching tag among several suffices, in one header or in two.
    let either = admin.with("if-match", &format!("{read}, {}", tag(&changed)));
    let changed = either.patch("/users/ada", json!({"attributes": {}})).await.expect(200);
    // The content is the same, so the tag is the same.
    assert_eq!(tag(&changed), read);
    let request = admin.request(Method::DELETE, "/users/ada").header("if-match", "\"1\"");
    let request = request.header("if-match", &read);
    crate::support::Answer::read("two headers".to_owned(), request).await.expect(204);
    admin.with("if-match", "*").delete("/users/ada").await.problem(404, "not_found");
    // Without the header, or with `*`, the last write wins.
    admin.post("/users", json!({"username": "bob"})).await.expect(201);
    admin.with("if-match", "*").patch("/users/bob", json!({"disabled": true})).await.expect(200);
    admin.patch("/users/bob", json!({"disabled": false})).await.expect(200);
}
