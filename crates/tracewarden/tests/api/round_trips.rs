//! The answer of a read can be sent back unchanged and then changes nothing. The operations are found in the OpenAPI document:
//! every PUT and PATCH, and every POST to a path that lists what it adds.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::every_operation::{Fixture, Operation, operations};
use crate::support::store::{Store, blue_policies, bound_service};
use crate::support::{Client, Service};

/// An operation, and the read whose answer it accepts.
struct RoundTrip {
    operation: Operation,
    /// The path of the read, with parameters in braces.
    read: String,
    /// The position in that answer.
    json_pointer: String,
}

/// Operations that accept the answer of a read with another path.
const OTHER_READS: [(&str, &str); 1] = [("PUT /schema/import", "/schema/export")];

impl RoundTrip {
    /// Finds the read of an operation: at the same path, or a member of the object above.
    fn find(document: &Value, operation: Operation) -> Option<Self> {
        let path = operation.path.as_str();
        let get = |path: &str| answer_schema(document, path).map(|schema| properties(document, schema));
        let (above, member) = path.rsplit_once('/').unwrap();
        let (read, json_pointer) = match (operation.method.as_str(), get(path)) {
            ("POST", Some(members)) => {
                let is_list = |(_, member): &&(String, Value)| member["type"] == "array";
                let (list, _) =
                    members.iter().find(is_list).unwrap_or_else(|| panic!("{path} lists nothing"));
                (path, format!("/{list}/0"))
            }
            ("PUT" | "PATCH", Some(_)) => (path, String::new()),
            ("PUT" | "PATCH", None) => {
                let name = operation.name();
                match OTHER_READS.iter().find(|(known, _)| *known == name) {
                    Some((_, read)) => (*read, String::new()),
                    None => {
                        let has_member =
                            |members: &[(String, Value)]| members.iter().any(|(name, _)| name == member);
                        let members = get(above).unwrap_or_default();
                        assert!(has_member(&members), "{name}: which read returns its document?");
                        let sent = properties(document, request_schema(document, &operation));
                        (above, if has_member(&sent) { String::new() } else { format!("/{member}") })
                    }
                }
            }
            _ => return None,
        };
        Some(Self { read: read.to_owned(), json_pointer, operation })
    }

    /// Returns the paths of the operation and of the read.
    fn paths(&self, fixture: &Fixture) -> (String, String) {
        let read = Operation { path: self.read.clone(), ..self.operation.clone() };
        (fixture.request_info(&self.operation).0, fixture.request_info(&read).0)
    }
}

async fn round_trips(service: &Service) -> (Value, Vec<RoundTrip>) {
    let document = service.anonymous().get("/openapi.json").await.expect(200).body;
    let all = operations(service).await.into_iter();
    let found: Vec<RoundTrip> = all.filter_map(|operation| RoundTrip::find(&document, operation)).collect();
    assert!(found.len() >= 8, "{}", found.len());
    (document, found)
}

fn answer_schema<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    let answer = &document["paths"][path]["get"]["responses"]["200"];
    Some(&answer["content"]["application/json"]["schema"]).filter(|schema| !schema.is_null())
}

fn request_schema<'a>(document: &'a Value, operation: &Operation) -> &'a Value {
    let method = operation.method.as_str().to_lowercase();
    &document["paths"][&operation.path][method]["requestBody"]["content"]["application/json"]["schema"]
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

const ATTRIBUTES: &str = r#"{"team": "blue", "teams": ["a", "b"], "on": true}"#;

/// Returns every object with all of its members.
async fn fixture() -> Fixture {
    let fixture = Fixture::make(&[]).await;
    let admin = &fixture.admin;
    let attributes: Value = serde_json::from_str(ATTRIBUTES).unwrap();
    for name in ["ada", "bob"] {
        let user = json!({"roles": ["blue"], "attributes": attributes});
        admin.patch(&format!("/users/{name}"), user).await.expect(200);
    }
    for key in admin.get("/me/api-keys").await.expect(200).body["api_keys"].as_array().unwrap() {
        admin.delete(&format!("/me/api-keys/{}", key["id"].as_str().unwrap())).await.expect(204);
    }
    let key = json!({"name": "x", "policy": "ServiceName == \"a\"", "tools": ["svc_get_trace"]});
    admin.post("/me/api-keys", key).await.expect(201);
    admin.put("/me/preview", json!({"username": "ada"})).await.expect(200);
    fixture
}

#[tokio::test]
async fn responses_can_be_sent_back() {
    let fixture = fixture().await;
    let admin = &fixture.admin;
    for round_trip in round_trips(&fixture.service).await.1 {
        let (path, read) = round_trip.paths(&fixture);
        let (operation, method) = (round_trip.operation.name(), round_trip.operation.method.clone());
        let json_pointer = &round_trip.json_pointer;
        let answer = admin.get(&read).await.expect(200);
        let document = answer.body.pointer(json_pointer).unwrap().clone();
        assert!(document.is_object(), "{read}: {document}");
        let made = method == Method::POST;
        if operation == "POST /users" {
            delete_user(admin, &document).await;
        }
        // If the document contains `revision` or `version`, they take the place of `If-Match`.
        let named = ["revision", "version"].iter().any(|member| document.get(member).is_some());
        let client = match answer.headers.get("etag") {
            Some(tag) if !named => admin.with("if-match", tag.to_str().unwrap()),
            _ => admin.clone(),
        };
        let stored = client.send(method.clone(), &path, Some(document.clone())).await;
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
            let after = admin.get(&read).await.expect(200).body;
            let after = after.pointer(json_pointer).unwrap().clone();
            assert_eq!(without_versions(after), without_versions(document.clone()), "{operation}");
        }
        // Unknown members are still rejected.
        let mut unknown = document;
        unknown["polices"] = json!([]);
        let refused = client.send(method, &path, Some(unknown)).await;
        let refused = refused.problem(400, "invalid_request");
        assert!(refused.bytes.windows(9).any(|text| text == b"`polices`"), "{operation}: {}", refused.body);
    }
    for role in admin.get("/roles").await.expect(200).body["roles"].as_array().unwrap() {
        let name = role["name"].as_str().unwrap();
        admin.put(&format!("/roles/{name}"), role.clone()).await.expect(200);
    }
}

async fn delete_user(admin: &Client, user: &Value) {
    admin.delete(&format!("/users/{}", user["username"].as_str().unwrap())).await.expect(204);
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
    let fixture = fixture().await;
    let admin = &fixture.admin;
    let mut marked = 0;
    let (document, round_trips) = round_trips(&fixture.service).await;
    for round_trip in round_trips {
        let (path, read) = round_trip.paths(&fixture);
        let RoundTrip { operation, read: source, json_pointer } = round_trip;
        let ignored = read_only(&document, request_schema(&document, &operation));
        let response_schema = answer_schema(&document, &source).unwrap();
        let (operation, method) = (operation.name(), operation.method);
        let list = json_pointer
            .split('/')
            .nth(1)
            .filter(|_| json_pointer.ends_with(|last: char| last.is_ascii_digit()));
        let mut expected = match json_pointer.strip_prefix('/').filter(|_| list.is_none()) {
            None => read_only(&document, response_schema),
            // Such as the binding of the schema.
            Some(member) => {
                let members = properties(&document, response_schema);
                let (_, schema) = members.iter().find(|(name, _)| name == member).unwrap();
                read_only(&document, schema)
            }
        };
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
        assert_eq!(ignored, expected, "{operation}");
        marked += ignored.len();
        // Read-only members are ignored whatever their value.
        let current =
            async || admin.get(&read).await.expect(200).body.pointer(&json_pointer).unwrap().clone();
        let document = current().await;
        for name in &ignored {
            for nonsense in [json!({"a": [1, null]}), json!(null), json!("x")] {
                let mut sent = document.clone();
                match name.split_once('/') {
                    None => sent[name] = nonsense,
                    Some((list, inner)) => sent[list][0][inner] = nonsense,
                }
                if operation == "POST /users" {
                    sent["username"] = document["username"].clone();
                    delete_user(admin, &document).await;
                } else {
                    let now = current().await;
                    for member in ["revision", "version"] {
                        if let (Some(sent), Some(now)) = (sent.get_mut(member), now.get(member)) {
                            *sent = now.clone();
                        }
                    }
                }
                let stored = admin.send(method.clone(), &path, Some(sent)).await;
                assert!((200..300).contains(&stored.status), "{operation} {name}: {}", stored.body);
            }
        }
    }
    assert!(marked >= 14, "{marked}");
}

#[tokio::test]
async fn a_document_must_name_the_object_that_it_replaces() {
    let store = Store::start();
    let (_service, admin) = bound_service(&store, &[]).await;
    admin.put("/roles/Blue", blue_policies()).await.expect(201);
    let attributes: Value = serde_json::from_str(ATTRIBUTES).unwrap();
    let ada = json!({"username": "ada", "roles": ["Blue"], "attributes": attributes});
    admin.post("/users", ada).await.expect(201);
    admin.put("/me/preview", json!({"username": "ada"})).await.expect(200);
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
