//! `/me/preview`.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::store::{BLUE, RED, Store, two_teams};
use crate::support::{ADMIN_PASSWORD, Client, Service};

/// Returns the ids of all traces that the caller may see.
async fn visible(client: &Client) -> Value {
    let query = json!({"view": "ids"});
    client.post("/traces/query", query).await.expect(200).body["trace_ids"].clone()
}

#[tokio::test]
async fn only_access_to_traces_follows_the_preview() {
    let store = Store::start();
    let (service, admin, ada) = two_teams(&store).await;
    let own = json!({"policies": [{"title": "Own", "expression": "SpanAttributes[\"team\"] == user.attributes.team"}]});
    admin.put("/roles/own", own).await.expect(201);
    assert_eq!(visible(&admin).await, json!([]));

    let began = admin.put("/me/preview", json!({"roles": ["blue"]})).await.expect(200).body;
    let preview = json!({"roles": ["blue"], "attributes": {}});
    assert_eq!(began["preview"], preview);
    assert_eq!(visible(&admin).await, json!([BLUE]));
    admin.get(&format!("/traces/{BLUE}")).await.expect(200);
    admin.get(&format!("/traces/{RED}")).await.problem(404, "trace_not_found");

    // The caller's identity and permissions do not change.
    let me = admin.get("/me").await.expect(200).body;
    assert_eq!(me, began);
    assert_eq!(
        (&me["is_admin"], &me["username"], &me["roles"]),
        (&json!(true), &json!("admin"), &json!(["admin"]))
    );
    admin.get("/users/ada").await.expect(200);
    let schema = admin.get("/filter/schema").await.expect(200).body;
    assert!(schema["fields"][0]["policy"].is_boolean(), "{schema}");

    // A preview belongs to one session: another session, an API key and the previewed user are not affected.
    let other = service.sign_in("admin", ADMIN_PASSWORD).await;
    assert_eq!(other.get("/me").await.expect(200).body["preview"], Value::Null);
    assert_eq!(visible(&other).await, json!([]));
    let created = admin.post("/me/api-keys", json!({"name": "x"})).await.expect(201).body;
    let key = admin.with_key(created["token"].as_str().unwrap());
    assert_eq!(visible(&key).await, json!([]));
    assert_eq!(ada.get("/me").await.expect(200).body["preview"], Value::Null);

    // A new preview replaces the current one.
    let red = json!({"roles": ["own"], "attributes": {"team": "red"}});
    assert_eq!(admin.put("/me/preview", red.clone()).await.expect(200).body["preview"], red);
    assert_eq!(visible(&admin).await, json!([RED]));
    admin.put("/me/preview", json!({"roles": []})).await.expect(200);
    assert_eq!(visible(&admin).await, json!([]));
    // Without attributes, it has none: those of the administrator do not count.
    admin.patch("/users/admin", json!({"attributes": {"team": "red"}})).await.expect(200);
    admin.put("/me/preview", json!({"roles": ["own"]})).await.expect(200);
    assert_eq!(visible(&admin).await, json!([]));
    let as_ada = admin.put("/me/preview", json!({"username": "ADA"})).await.expect(200).body;
    assert_eq!(as_ada["preview"], json!({"roles": ["blue"], "attributes": {}, "username": "ada"}));
    assert_eq!(visible(&admin).await, json!([BLUE]));
    let record = admin.get("/audit?action=traces.query&limit=1").await.expect(200).body["records"][0].clone();
    let id = admin.get("/users/ada").await.expect(200).body["id"].clone();
    assert_eq!(record["actor"]["username"], "admin", "{record}");
    assert_eq!(
        record["detail"]["preview"],
        json!({"roles": ["blue"], "attributes": {}, "username": "ada", "user_id": id}),
        "{record}"
    );

    for _ in 0..2 {
        admin.delete("/me/preview").await.expect(204);
        assert_eq!(admin.get("/me").await.expect(200).body["preview"], Value::Null);
        assert_eq!(visible(&admin).await, json!([]));
    }
    let audit = admin.get("/audit?limit=10").await.expect(200).body;
    let ended =
        audit["records"].as_array().unwrap().iter().filter(|record| record["action"] == "preview.end");
    assert_eq!(ended.count(), 1, "{audit}");
}

#[tokio::test]
async fn only_an_administrators_session_previews() {
    let service = Service::start();
    let admin = service.admin().await;
    let ada = service.user(&admin, "ada", &[]).await;
    let none = json!({"roles": []});
    ada.put("/me/preview", none.clone()).await.problem(403, "forbidden");
    ada.delete("/me/preview").await.problem(403, "forbidden");
    let created = admin.post("/me/api-keys", json!({"name": "x"})).await.expect(201).body;
    let key = admin.with_key(created["token"].as_str().unwrap());
    key.put("/me/preview", none).await.problem(403, "session_required");
    key.delete("/me/preview").await.problem(403, "session_required");
    let record = admin.get("/audit?limit=1").await.expect(200).body["records"][0].clone();
    assert_eq!(
        (&record["action"], &record["outcome"]),
        (&json!("preview.end"), &json!("denied")),
        "{record}"
    );
    assert_eq!(admin.get("/me").await.expect(200).body["preview"], Value::Null);
}

#[tokio::test]
async fn preview_requests_are_validated() {
    let service = Service::start();
    let admin = service.admin().await;
    for (body, pointer) in [
        (json!({}), ""),
        (json!({"attributes": {}}), ""),
        (json!({"username": "admin", "roles": []}), "/roles"),
        (json!({"username": "admin", "attributes": {"team": "a"}}), "/attributes"),
        (json!({"roles": ["admin"], "policies": []}), "/policies"),
        (json!({"roles": [], "attributes": {"team": 1}}), "/attributes/team"),
    ] {
        let answer = admin.put("/me/preview", body).await.problem(400, "invalid_request");
        assert_eq!(answer.first_error()["pointer"], pointer, "{}", answer.body);
    }
    let answer =
        admin.put("/me/preview", json!({"roles": ["admin", "ghost"]})).await.problem(422, "unknown_role");
    assert!(answer.first_error()["pointer"].as_str().unwrap().starts_with("/roles"), "{}", answer.body);
    admin.put("/me/preview", json!({"username": "ghost"})).await.problem(404, "not_found");
    assert_eq!(admin.get("/me").await.expect(200).body["preview"], Value::Null);
}

#[tokio::test]
async fn a_preview_ends_with_the_role_and_does_not_come_back() {
    let service = Service::start();
    let admin = service.admin().await;
    let eve = service.user(&admin, "eve", &["admin"]).await;
    eve.put("/me/preview", json!({"username": "admin"})).await.expect(200);
    // A change that keeps the administrator role keeps the preview.
    admin.patch("/users/eve", json!({"roles": ["admin"], "attributes": {"a": "b"}})).await.expect(200);
    assert_eq!(eve.get("/me").await.expect(200).body["preview"]["username"], "admin");
    admin.patch("/users/eve", json!({"roles": []})).await.expect(200);
    assert_eq!(eve.get("/me").await.expect(200).body["preview"], Value::Null);
    admin.patch("/users/eve", json!({"roles": ["admin"]})).await.expect(200);
    assert_eq!(eve.get("/me").await.expect(200).body["preview"], Value::Null);
    // A preview of an earlier session does not come back either.
    eve.put("/me/preview", json!({"username": "admin"})).await.expect(200);
    eve.send(Method::POST, "/logout", None).await.expect(204);
    let eve = service.sign_in("eve", crate::support::USER_PASSWORD).await;
    assert_eq!(eve.get("/me").await.expect(200).body["preview"], Value::Null);
}
