//! Creates a database by using every operation of the service that stores data.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};
use tracewarden_testkit::wait::until;

use crate::support::store::{BLUE, RED, Store, bind, blue_policies};
use crate::support::{ADMIN_PASSWORD, Client, USER_PASSWORD};
use crate::upgrade::database::{Copy, Kind};

/// Requests whose answers later versions compare, in the administrator's session.
const ANSWERS: &[&str] = &[
    "/me",
    "/me/api-keys",
    "/me/sessions",
    "/users",
    "/users/ada/access",
    "/users/ada/api-keys",
    "/users/ada/sessions",
    "/users/bob",
    "/roles",
    "/roles/blue",
    "/roles/red",
    "/schema",
    "/schema/export",
    "/schema/history",
    "/filter/schema",
    "/audit?limit=500",
];

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Creates the database and returns the facts about it: credentials, and answers by caller.
pub async fn database(kind: Kind, data: &Path) -> Value {
    let copy = Copy::empty(kind);
    let store = Store::start();
    store.insert_two_traces().await;
    let mut environment = store.settings().to_vec();
    prune(&copy, &environment).await;

    environment.push(("TRACEWARDEN_AUDIT_RETENTION", "unlimited"));
    environment.push(("TRACEWARDEN_ADMIN_PASSWORD_HASH", ""));
    let service = copy.serve(&environment);
    let admin = service.admin().await;
    bind(&admin).await;
    admin.put("/roles/blue", blue_policies()).await.expect(201);
    let red = json!({"policies": [
        {"title": "Red", "expression": "SpanAttributes[\"team\"] == \"red\""},
        {"title": "Own", "description": "by\nattribute", "expression": "SpanAttributes[\"team\"] ==\n  user.attributes.team"},
    ]});
    admin.put("/roles/red", blue_policies()).await.expect(201);
    admin.put("/roles/red", red).await.expect(200);
    admin.put("/roles/gone", blue_policies()).await.expect(201);
    admin.delete("/roles/gone").await.expect(204);

    let ada = service.user(&admin, "ada", &["blue"]).await;
    let attributes = json!({"team": "b\u{fc}'\"\\", "lead": true, "regions": ["eu", "us"]});
    admin.patch("/users/ada", json!({"attributes": attributes})).await.expect(200);
    service.user(&admin, "bob", &["red", "admin"]).await;
    admin.patch("/users/bob", json!({"disabled": true, "roles": ["red"]})).await.expect(200);
    let pending = admin.post("/users", json!({"username": "eve", "roles": ["red"]})).await.expect(201).body;
    admin.post("/users", json!({"username": "gone"})).await.expect(201);
    admin.delete("/users/gone").await.expect(204);

    let key = async |client: &Client, new: Value| client.post("/me/api-keys", new).await.expect(201).body;
    let whole = key(&ada, json!({"name": "whole", "expires_at": "2262-01-01T00:00:00Z"})).await;
    let scoped = json!({"name": "narrowed", "policy": "ServiceName == \"shop\"", "tools": ["svc_get_trace"]});
    let scoped = key(&ada, scoped).await;
    let revoked = key(&ada, json!({"name": "revoked"})).await;
    ada.delete(&format!("/me/api-keys/{}", text(&revoked["id"]))).await.expect(204);

    // A model file with tests, and a version to restore.
    let mut file = admin.get("/schema/export").await.expect(200).body;
    file["users"] = json!([{"username": "x", "roles": ["blue"], "attributes": {}}]);
    file["traces"] = json!([{"name": "t", "spans": [{"SpanAttributes": {"team": "blue"}}]}]);
    file["tests"] = json!([{"name": "x sees t", "user": "x", "trace": "t", "visible": true}]);
    let imported = admin.with("if-match", "*").put("/schema/import", file.clone()).await.expect(200).body;
    file["roles"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "later", "policies": blue_policies()["policies"]}));
    admin.with("if-match", "*").put("/schema/import", file).await.expect(200);

    // Reads, and rejected requests.
    ada.get(&format!("/traces/{BLUE}")).await.expect(200);
    ada.get(&format!("/traces/{RED}")).await.problem(404, "trace_not_found");
    ada.get("/users").await.problem(403, "forbidden");
    ada.post("/traces/query", json!({})).await.expect(200);
    let wrong = json!({"username": "ada", "password": "no"});
    service.anonymous().post("/login", wrong).await.problem(401, "invalid_credentials");
    let previewing = service.admin().await;
    previewing.put("/me/preview", json!({"roles": ["blue"]})).await.expect(200);
    service.admin().await.send(Method::POST, "/logout", None).await.expect(204);

    let mut answers = serde_json::Map::new();
    let change = &imported["version"];
    for path in ANSWERS.iter().map(|path| (*path).to_owned()).chain([format!("/schema/history/{change}")]) {
        answers.insert(path.clone(), admin.get(&path).await.expect(200).body);
    }
    let verified = service.command().args(["audit", "verify"]).output().unwrap();
    let printed = String::from_utf8(verified.stdout).unwrap();
    let head = printed.lines().find_map(|line| line.strip_prefix("head ")).unwrap();
    let facts = json!({
        "admin": {"username": "admin", "password": ADMIN_PASSWORD, "cookie": admin.cookie()},
        "previewing": {"cookie": previewing.cookie()},
        "ada": {"username": "ada", "password": USER_PASSWORD, "cookie": ada.cookie(), "key": whole["token"],
            "narrowed": scoped["token"], "revoked": revoked["token"]},
        "disabled": {"username": "bob", "password": USER_PASSWORD},
        "pending": {"username": "eve", "password": pending["initial_password"]},
        "head": head,
        "change": change,
        "answers": answers,
    });
    drop(service);
    copy.save(data).await;
    facts
}

/// Has audit records removed, so that the log does not begin with its first record.
async fn prune(copy: &Copy, environment: &[(&str, &str)]) {
    let service = copy.serve(&[environment, &[("TRACEWARDEN_AUDIT_RETENTION", "1s")]].concat());
    let admin = service.admin().await;
    let records = async || admin.get("/audit?action=audit.prune").await.expect(200).body["records"].clone();
    until(records, |records| *records != json!([])).await;
}
