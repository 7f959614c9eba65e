//! `/audit`.

use serde_json::{Value, json};

use crate::support::{ADMIN_PASSWORD, Answer, Client, Service};

fn actions(answer: &Value) -> Vec<&str> {
    answer["records"].as_array().unwrap().iter().map(|record| record["action"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn changes_and_sign_ins_are_recorded_newest_first() {
    let service = Service::start();
    let admin = service.admin().await;
    let created =
        admin.with("user-agent", "tests/1").post("/users", json!({"username": "ada"})).await.expect(201);
    let answer = admin.get("/audit").await.expect(200).body;
    let records = answer["records"].as_array().unwrap();
    let record = &records[0];
    assert_eq!(record["actor"]["username"], "admin", "{record}");
    assert_eq!(record["actor"]["via"], "session", "{record}");
    assert_eq!(record["outcome"], "success", "{record}");
    assert_eq!(record["request_id"], created.headers["x-request-id"].to_str().unwrap());
    assert_eq!(record["client_ip"], "127.0.0.1");
    assert_eq!(record["user_agent"], "tests/1");
    assert!(record["at"].is_string() && record["id"].is_string());
    assert!(actions(&answer).iter().any(|action| action.contains("login")), "{:?}", actions(&answer));
    let secret = created.body["initial_password"].as_str().unwrap();
    assert!(!answer.to_string().contains(secret));
}

#[tokio::test]
async fn a_refused_sign_in_does_not_record_the_entered_name() {
    let service = Service::start();
    let wrong = json!({"username": "my-secret-password", "password": "x"});
    service.anonymous().post("/login", wrong).await.problem(401, "invalid_credentials");
    let wrong = json!({"username": "admin", "password": "my-secret-password"});
    service.anonymous().post("/login", wrong).await.problem(401, "invalid_credentials");
    let answer = service.admin().await.get("/audit").await.expect(200).body;
    assert!(!answer.to_string().contains("my-secret-password"), "{answer}");
    let refused =
        answer["records"].as_array().unwrap().iter().filter(|record| record["outcome"] != "success").count();
    assert!(refused >= 2, "{answer}");
}

#[tokio::test]
async fn records_are_filtered_and_paged() {
    let service = Service::start();
    let admin = service.admin().await;
    for name in ["a1", "b2", "c3"] {
        admin.post("/users", json!({"username": name})).await.expect(201);
    }
    let all = admin.get("/audit").await.expect(200).body;
    let created = actions(&all)[0].to_owned();
    let only =
        admin.get(&format!("/audit?action={created}&actor=admin&outcome=success")).await.expect(200).body;
    assert_eq!(actions(&only), [created.as_str(); 3]);
    let unknown = admin.get("/audit?actor=unknown-user").await.expect(200).body;
    assert_eq!(unknown["records"], json!([]));
    let later = admin.get("/audit?from=2200-01-01T00:00:00Z").await.expect(200).body;
    assert_eq!(later["records"], json!([]));

    let first = admin.get(&format!("/audit?action={created}&limit=2")).await.expect(200).body;
    assert_eq!(first["records"].as_array().unwrap().len(), 2);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second =
        admin.get(&format!("/audit?action={created}&limit=2&cursor={cursor}")).await.expect(200).body;
    assert_eq!(second["records"].as_array().unwrap().len(), 1);
    assert!(second.get("next_cursor").is_none());
    assert!(second["records"][0]["target"].to_string().contains("a1"), "{second}");
}

#[tokio::test]
async fn parameters_are_checked() {
    let service = Service::start();
    let admin = service.admin().await;
    for (query, pointer) in [("from=yesterday", "/from"), ("limit=x", "/limit"), ("actr=admin", "/actr")] {
        let answer = admin.get(&format!("/audit?{query}")).await.problem(400, "invalid_request");
        assert_eq!(answer.first_error()["pointer"], pointer, "{}", answer.body);
    }
    for wrong in ["0", "-1", "1.5", "-99999999999999999999"] {
        let answer = admin.get(&format!("/audit?limit={wrong}")).await.problem(400, "invalid_request");
        assert_eq!(answer.first_error()["pointer"], "/limit", "{wrong}");
    }
    admin.get("/audit?limit=99999999999999999999").await.expect(200);
    admin.get("/audit?limit=1&limit=2").await.problem(400, "invalid_request");
    admin.get("/audit?cursor=nonsense").await.problem(400, "invalid_cursor");
}

#[tokio::test]
async fn key_use_is_recorded_as_such() {
    let service = Service::start();
    let admin = service.admin().await;
    let created = admin.post("/me/api-keys", json!({"name": "x"})).await.expect(201).body;
    let key = service.anonymous().with_key(created["token"].as_str().unwrap());
    key.post("/users", json!({"username": "ada"})).await.expect(201);
    let answer = admin.get("/audit?limit=1").await.expect(200).body;
    assert_eq!(answer["records"][0]["actor"]["via"], "api_key");
    assert_eq!(answer["records"][0]["actor"]["credential_id"], created["id"]);
    assert!(!answer.to_string().contains(ADMIN_PASSWORD));
}

#[tokio::test]
async fn refused_administration_is_recorded() {
    let service = Service::start();
    let admin = service.admin().await;
    let ada = service.user(&admin, "ada", &[]).await;
    let rejected =
        ada.with("user-agent", "tests/2").get("/users/admin/access").await.problem(403, "forbidden");
    let record = admin.get("/audit?limit=1").await.expect(200).body["records"][0].clone();
    assert_eq!(record["action"], "administration", "{record}");
    assert_eq!(record["outcome"], "denied", "{record}");
    assert_eq!(record["actor"]["username"], "ada", "{record}");
    assert_eq!(record["actor"]["via"], "session", "{record}");
    assert_eq!(record["target"], "/users/admin/access", "{record}");
    assert_eq!(
        record["detail"],
        json!({"code": "forbidden", "method": "GET", "route": "/users/{username}/access"})
    );
    assert_eq!(record["request_id"], rejected.headers["x-request-id"].to_str().unwrap());
    assert_eq!(record["user_agent"], "tests/2", "{record}");
    // Requests of anonymous clients leave no record.
    service.anonymous().with_key("twk_nonsense").get("/users").await.problem(401, "unauthenticated");
    service.anonymous().get("/users").await.problem(401, "unauthenticated");
    assert_eq!(admin.get("/audit?limit=1").await.expect(200).body["records"][0], record);
}

#[tokio::test]
async fn refused_changes_of_credentials_are_recorded() {
    let service = Service::start();
    let admin = service.admin().await;
    service.user(&admin, "ada", &[]).await;
    for (path, action, target) in [
        ("/me/api-keys/key_x", "api_key.revoke", "key_x"),
        ("/me/sessions/ses_x", "session.end", "ses_x"),
        ("/users/unknown-user/sessions", "user.end_sessions", "unknown-user"),
        ("/users/ada/sessions/ses_x", "user.end_sessions", "ada"),
        ("/users/unknown-user/api-keys", "user.revoke_api_keys", "unknown-user"),
        ("/users/ada/api-keys/key_x", "user.revoke_api_keys", "ada"),
    ] {
        let rejected = admin.delete(path).await.problem(404, "not_found");
        let record = admin.get("/audit?limit=1").await.expect(200).body["records"][0].clone();
        assert_eq!(record["action"], action, "{path}: {record}");
        assert_eq!(record["outcome"], "failed", "{path}: {record}");
        assert_eq!(record["target"], target, "{path}: {record}");
        assert_eq!(record["detail"]["code"], "not_found", "{path}: {record}");
        assert_eq!(record["request_id"], rejected.headers["x-request-id"].to_str().unwrap());
    }
    let created = admin.post("/me/api-keys", json!({"name": "x"})).await.expect(201).body;
    let key = service.anonymous().with_key(created["token"].as_str().unwrap());
    key.send(reqwest::Method::POST, "/logout", None).await.problem(403, "session_required");
    let record = admin.get("/audit?limit=1").await.expect(200).body["records"][0].clone();
    assert_eq!((&record["action"], &record["outcome"]), (&json!("logout"), &json!("denied")), "{record}");
}

#[tokio::test]
async fn requests_for_traces_or_changes_that_cannot_be_read_are_recorded() {
    let service = Service::start();
    let admin = service.admin().await;
    let sending_json = |client: &Client| client.with("content-type", "application/json");
    let large = "x".repeat(2 * 1024 * 1024);
    let (query, role) = ("/traces/query", "/roles/x");
    let picky = sending_json(&admin).with("accept", "text/html");
    for (client, method, path, body, status, action, route) in [
        (&sending_json(&admin), "POST", query, "{\"lmit\": 1}", 400, "traces.query", query),
        (&sending_json(&admin), "POST", query, "{\"filter\": 1}", 400, "traces.query", query),
        (&sending_json(&admin), "POST", query, &*large, 413, "traces.query", query),
        (&admin, "POST", query, "{}", 415, "traces.query", query),
        (&picky, "POST", query, "{}", 406, "traces.query", query),
        (&admin, "GET", "/traces/abc?form=2026", "", 400, "traces.get", "/traces/{id}"),
        (&picky, "GET", "/traces/abc", "", 406, "traces.get", "/traces/{id}"),
        (&sending_json(&admin), "PUT", role, "{", 400, "administration", "/roles/{name}"),
        (
            &sending_json(&admin).with("if-match", "W/\"1\""),
            "PUT",
            role,
            "{}",
            412,
            "administration",
            "/roles/{name}",
        ),
        (&sending_json(&admin), "PUT", "/me/preview", "{}", 400, "preview.begin", "/me/preview"),
    ] {
        let request = client.request(method.parse().unwrap(), path).body(body.to_owned());
        let rejected = Answer::read(format!("{method} {path}"), request).await.expect(status);
        let record = admin.get("/audit?limit=1").await.expect(200).body["records"][0].clone();
        let request_id = rejected.headers["x-request-id"].to_str().unwrap();
        assert_eq!(record["request_id"], request_id, "{method} {path} {status}: {record}");
        assert_eq!((&record["action"], &record["outcome"]), (&json!(action), &json!("failed")), "{record}");
        assert_eq!(record["target"], path.split('?').next().unwrap());
        let code = &rejected.body["code"];
        assert_eq!(record["detail"], json!({"code": code, "method": method, "route": route}));
        assert_eq!(record["actor"]["username"], "admin");
    }
    // An operation that a use case rejects has one record, that of the use case.
    let policies = json!({"policies": [{"title": "t", "expression": "true"}]});
    let rejected =
        admin.with("if-match", "\"7\"").put(role, policies).await.problem(412, "precondition_failed");
    let records = admin.get("/audit?limit=2").await.expect(200).body["records"].clone();
    assert_eq!((&records[0]["action"], &records[0]["outcome"]), (&json!("role.put"), &json!("failed")));
    let request_id = rejected.headers["x-request-id"].to_str().unwrap();
    assert!(records[0]["request_id"] == request_id && records[1]["request_id"] != request_id, "{records}");
    // No record for invalid requests that read the configuration, concern the caller's own account or come from anonymous
    // clients.
    admin.get("/users?limit=x").await.problem(400, "invalid_request");
    admin.post("/me/api-keys", json!({"nam": "x"})).await.problem(400, "invalid_request");
    service.anonymous().post(query, json!({"lmit": 1})).await.problem(401, "unauthenticated");
    service.anonymous().post("/login", json!({"user": "x"})).await.problem(400, "invalid_request");
    assert_eq!(admin.get("/audit?limit=2").await.expect(200).body["records"], records);
}

#[tokio::test]
async fn actors_are_found_by_name_or_id() {
    let service = Service::start();
    let admin = service.admin().await;
    service.user(&admin, "Ada", &[]).await;
    let all = admin.get("/audit?actor=Ada").await.expect(200).body;
    assert!(all["records"].as_array().unwrap().len() >= 2, "{all}");
    let id = all["records"][0]["actor"]["id"].as_str().unwrap();
    for actor in ["ada", "ADA", id] {
        assert_eq!(admin.get(&format!("/audit?actor={actor}")).await.expect(200).body, all, "{actor}");
    }
}

#[tokio::test]
async fn a_filter_that_nothing_can_match_is_a_mistake() {
    let service = Service::start();
    let admin = service.admin().await;
    for outcome in ["zzz", "Success", ""] {
        let path = format!("/audit?outcome={outcome}");
        let answer = admin.get(&path).await.problem(400, "invalid_request");
        let error = answer.first_error();
        assert_eq!(error["pointer"], "/outcome", "{error}");
        for word in ["success", "denied", "failed", "not_found", "aborted", "unknown"] {
            assert!(error["detail"].as_str().unwrap().contains(&format!("`{word}`")), "{error}");
        }
    }
    let window = |from: &str, to: &str| format!("/audit?from={from}&to={to}");
    let (early, late) = ("2026-11-21T00:00:00Z", "2026-11-21T00:00:00.000001Z");
    for (from, to) in [(late, early), (early, early)] {
        let answer = admin.get(&window(from, to)).await.problem(422, "invalid_window");
        assert_eq!(answer.first_error()["pointer"], "/from", "{}", answer.body);
    }
    for path in [&window(early, late), "/audit?outcome=aborted"] {
        assert_eq!(admin.get(path).await.expect(200).body["records"], json!([]));
    }
    assert_eq!(admin.get("/audit?outcome=success").await.expect(200).body["records"][0]["action"], "login");
}
