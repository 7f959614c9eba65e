//! The answer of a read can be sent back unchanged and then changes nothing. A new operation that creates or replaces
//! something fails here until this file names the read for it.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::every_operation::operations;
use crate::support::store::{Store, blue_policies, bound_service};
use crate::support::{Client, Service};

/// An operation, the read whose answer it accepts, and the position in that answer.
const ROUND_TRIPS: [(&str, &str, &str); 8] = [
    ("PUT /roles/{name}", "GET /roles/{name}", ""),
    ("PATCH /users/{username}", "GET /users/{username}", ""),
    ("PUT /schema/binding", "GET /schema", "/binding"),
    ("PUT /schema/fields", "GET /schema", ""),
    ("PUT /schema/import", "GET /schema/export", ""),
    ("PUT /me/preview", "GET /me", "/preview"),
    ("POST /me/api-keys", "GET /me/api-keys", "/api_keys/0"),
    ("POST /users", "GET /users", "/users/0"),
];

/// Operations that accept no document from a read.
const WITHOUT_ROUND_TRIP: [&str; 11] = [
    "POST /login",
    "POST /logout",
    "POST /me/password",
    "POST /policies/check",
    "POST /policies/evaluate",
    "POST /policies/collateral-access",
    "POST /policies/preview",
    "POST /schema/history/{version}/restore",
    "POST /schema/plan",
    "POST /traces/query",
    "POST /users/{username}/password",
];

fn path(operation: &str) -> String {
    let (_, path) = operation.split_once(' ').unwrap();
    path.replace("{name}", "Blue").replace("{username}", "ada")
}

fn method(operation: &str) -> Method {
    operation.split_once(' ').unwrap().0.parse().unwrap()
}

/// Removes members that change on every write.
fn without_versions(mut answer: Value) -> Value {
    for member in ["revision", "version", "updated_at"] {
        if let Some(members) = answer.as_object_mut() {
            members.remove(member);
        }
    }
    answer
}

async fn fixture(store: &Store) -> (Service, Client) {
    let (service, admin) = bound_service(store, &[]).await;
    admin.put("/roles/Blue", blue_policies()).await.expect(201);
    let ada = json!({"username": "ada", "roles": ["Blue"], "attributes": {"team": "blue", "teams": ["a", "b"], "on": true}});
    admin.post("/users", ada).await.expect(201);
    let key = json!({"name": "x", "policy": "ServiceName == \"a\"", "tools": ["svc_get_trace"]});
    admin.post("/me/api-keys", key).await.expect(201);
    admin.put("/me/preview", json!({"username": "ada"})).await.expect(200);
    (service, admin)
}

#[tokio::test]
async fn every_operation_that_takes_a_document_is_known() {
    let service = Service::start();
    let known: BTreeSet<&str> =
        ROUND_TRIPS.iter().map(|(operation, ..)| *operation).chain(WITHOUT_ROUND_TRIP).collect();
    let changing = operations(&service)
        .await
        .into_iter()
        .filter(|operation| matches!(operation.method.as_str(), "PUT" | "PATCH" | "POST"));
    let found: BTreeSet<String> = changing.map(|operation| operation.name()).collect();
    assert!(found.iter().map(String::as_str).eq(known.iter().copied()), "{found:?} {known:?}");
}

#[tokio::test]
async fn responses_can_be_sent_back() {
    let store = Store::start();
    let (_service, admin) = fixture(&store).await;
    for (operation, read, json_pointer) in ROUND_TRIPS {
        let answer = admin.get(&path(read)).await.expect(200);
        let document = answer.body.pointer(json_pointer).unwrap().clone();
        assert!(document.is_object(), "{read}: {document}");
        let made = method(operation) == Method::POST;
        if operation == "POST /users" {
            admin.delete("/users/ada").await.expect(204);
        }
        // If the document contains `revision` or `version`, they take the place of `If-Match`.
        let named = ["revision", "version"].iter().any(|member| document.get(member).is_some());
        let client = match answer.headers.get("etag") {
            Some(tag) if !named => admin.with("if-match", tag.to_str().unwrap()),
            _ => admin.clone(),
        };
        let stored = client.send(method(operation), &path(operation), Some(document.clone())).await;
        assert!((200..300).contains(&stored.status), "{operation}: {}", stored.body);
        if made {
            for (member, value) in document.as_object().unwrap() {
                let own = [
                    "id",
                    "token_hint",
                    "created_at",
                    "last_used_at",
                    "must_change_password",
                    "last_login_at",
                ];
                assert!(
                    own.contains(&member.as_str()) || stored.body[member] == *value,
                    "{operation}: {member}"
                );
            }
        } else {
            let after = admin.get(&path(read)).await.expect(200).body;
            let after = after.pointer(json_pointer).unwrap().clone();
            assert_eq!(without_versions(after), without_versions(document.clone()), "{operation}");
        }
        // Unknown members are still rejected.
        let mut unknown = document;
        unknown["polices"] = json!([]);
        let refused = client.send(method(operation), &path(operation), Some(unknown)).await;
        let refused = refused.problem(400, "invalid_request");
        assert!(refused.bytes.windows(9).any(|text| text == b"`polices`"), "{operation}: {}", refused.body);
    }
    for role in admin.get("/roles").await.expect(200).body["roles"].as_array().unwrap() {
        let name = role["name"].as_str().unwrap();
        admin.put(&format!("/roles/{name}"), role.clone()).await.expect(200);
    }
}

/// Returns the properties of a schema by name, including those of its parts.
fn properties(document: &Value, schema: &Value) -> Vec<(String, Value)> {
    if let Some(reference) = schema["$ref"].as_str() {
        return properties(document, document.pointer(&reference[1..]).unwrap());
    }
    let mut found = Vec::new();
    for list in ["allOf", "oneOf", "anyOf"] {
        for part in schema[list].as_array().into_iter().flatten() {
            found.extend(properties(document, part));
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        found.push((name.clone(), property.clone()));
        let items = &property["items"];
        if items.is_object() {
            found.extend(
                properties(document, items).into_iter().map(|(inner, it)| (format!("{name}/{inner}"), it)),
            );
        }
    }
    found
}

fn read_only(document: &Value, schema: &Value) -> BTreeSet<String> {
    let is_marked = |(_, property): &(String, Value)| property["readOnly"] == true;
    properties(document, schema).into_iter().filter(is_marked).map(|(name, _)| name).collect()
}

#[tokio::test]
async fn read_only_members_are_ignored() {
    let store = Store::start();
    let (service, admin) = fixture(&store).await;
    let document = service.anonymous().get("/openapi.json").await.expect(200).body;
    let mut marked = 0;
    for (operation, read, json_pointer) in ROUND_TRIPS {
        let (verb, at) = operation.split_once(' ').unwrap();
        let (_, source) = read.split_once(' ').unwrap();
        let request = &document["paths"][at][verb.to_lowercase()]["requestBody"]["content"]["application/json"]
            ["schema"];
        let ignored = read_only(&document, request);
        let response_schema =
            &document["paths"][source]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        let list = json_pointer
            .split('/')
            .nth(1)
            .filter(|_| json_pointer.ends_with(|last: char| last.is_ascii_digit()));
        let mut expected = read_only(&document, response_schema);
        if let Some(list) = list {
            expected = expected
                .iter()
                .filter_map(|name| name.strip_prefix(&format!("{list}/")))
                .map(str::to_owned)
                .collect();
        }
        // A user's id identifies the user in a change; for a new user it is ignored.
        if operation == "POST /users" {
            expected.insert("id".to_owned());
        }
        if json_pointer != "/binding" {
            assert_eq!(ignored, expected, "{operation}");
        }
        marked += ignored.len();
        // Read-only members are ignored whatever their value.
        let document = admin.get(&path(read)).await.expect(200).body.pointer(json_pointer).unwrap().clone();
        for name in &ignored {
            for nonsense in [json!({"a": [1, null]}), json!(null), json!("x")] {
                let mut sent = document.clone();
                match name.split_once('/') {
                    None => sent[name] = nonsense,
                    Some((list, inner)) => sent[list][0][inner] = nonsense,
                }
                if operation == "POST /users" {
                    sent["username"] = json!("ada");
                    admin.delete("/users/ada").await.expect(204);
                }
                if operation == "PUT /roles/{name}" {
                    sent["revision"] = admin.get("/roles/Blue").await.expect(200).body["revision"].clone();
                }
                if operation == "PUT /schema/fields" {
                    sent["version"] = admin.get("/schema").await.expect(200).body["version"].clone();
                }
                let stored = admin.send(method(operation), &path(operation), Some(sent)).await;
                assert!((200..300).contains(&stored.status), "{operation} {name}: {}", stored.body);
            }
        }
    }
    assert!(marked >= 14, "{marked}");
}

#[tokio::test]
async fn a_document_must_name_the_object_that_it_replaces() {
    let store = Store::start();
    let (_service, admin) = fixture(&store).await;
    let pointer =
        |answer: crate::support::Answer| answer.first_error()["pointer"].as_str().unwrap().to_owned();

    let role = admin.get("/roles/Blue").await.expect(200);
    let mut other = role.body.clone();
    other["name"] = json!("blue");
    assert_eq!(pointer(admin.put("/roles/Blue", other).await.problem(422, "invalid_value")), "/name");
    let mut changed = role.body.clone();
    changed["policies"][0]["title"] = json!("Blue team");
    admin.put("/roles/Blue", changed).await.expect(200);
    admin.put("/roles/Blue", role.body.clone()).await.problem(412, "precondition_failed");
    // The header and the member must both match.
    let tag = role.headers["etag"].to_str().unwrap();
    let current = admin.get("/roles/Blue").await.expect(200);
    let now = current.headers["etag"].to_str().unwrap();
    for (tag, body) in [(tag, &current.body), (now, &role.body)] {
        let mixed = admin.with("if-match", tag).put("/roles/Blue", body.clone()).await;
        mixed.problem(412, "precondition_failed");
    }
    admin.with("if-match", now).put("/roles/Blue", current.body.clone()).await.expect(200);
    // A document of a deleted role does not create the role again.
    let read = admin.get("/roles/Blue").await.expect(200).body;
    admin.delete("/roles/Blue").await.expect(204);
    admin.put("/roles/Blue", read).await.problem(412, "precondition_failed");
    admin.put("/roles/Blue", blue_policies()).await.expect(201);

    let ada = admin.get("/users/ada").await.expect(200).body;
    admin.patch("/users/ADA", ada.clone()).await.expect(200);
    for (member, value) in [("username", "bob"), ("id", "usr_other")] {
        let mut other = ada.clone();
        other[member] = json!(value);
        let refused = admin.patch("/users/ada", other).await.problem(422, "invalid_value");
        assert_eq!(pointer(refused), format!("/{member}"));
    }
    assert_eq!(admin.get("/users/ada").await.expect(200).body, ada);

    let schema = admin.get("/schema").await.expect(200).body;
    let stale = schema["version"].as_u64().unwrap() - 1;
    for (path, document) in [("/schema/fields", &schema), ("/schema/binding", &schema["binding"])] {
        let mut document = document.clone();
        document["version"] = json!(stale);
        admin.put(path, document.clone()).await.problem(412, "precondition_failed");
        admin.with("if-match", "*").put(path, document).await.problem(412, "precondition_failed");
    }
    let mut elsewhere = schema.clone();
    elsewhere["binding"]["table"] = json!("other");
    assert_eq!(
        pointer(admin.put("/schema/fields", elsewhere).await.problem(422, "invalid_value")),
        "/binding"
    );

    let preview = admin.get("/me").await.expect(200).body["preview"].clone();
    for (member, value) in [("roles", json!(["admin"])), ("attributes", json!({"team": "red"}))] {
        let mut other = preview.clone();
        other[member] = value;
        let refused = admin.put("/me/preview", other).await.problem(400, "invalid_request");
        assert_eq!(pointer(refused), format!("/{member}"));
    }
    assert_eq!(admin.get("/me").await.expect(200).body["preview"], preview);
    let excluded = json!({"username": "eve", "disabled": true});
    assert_eq!(admin.post("/users", excluded).await.expect(201).body["disabled"], true);
}
