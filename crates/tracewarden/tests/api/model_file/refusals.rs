//! Rejected files: every error that the resources for the parts reject is reported with a pointer into the file, and no
//! part of the file is applied.

use super::*;

/// Returns a bound service with a role, and its model file.
async fn bound(store: &Store) -> (Service, Client, Value) {
    let (service, admin) = bound_service(store, &[]).await;
    admin.put("/roles/blue", blue_policies()).await.expect(201);
    let (file, _) = export(&admin).await;
    (service, admin, file)
}

#[tokio::test]
async fn each_invalid_part_makes_the_file_invalid() {
    let store = Store::start();
    let (_service, admin, file) = bound(&store).await;
    let policy = |title: &str, expression: &str| json!({"title": title, "expression": expression});
    let role = |name: &str, policies: Value| json!({"name": name, "policies": policies});
    let valid = json!([policy("t", "true")]);
    let many: Vec<Value> = (0..101).map(|_| policy("t", "true")).collect();
    let field = |field: Value| json!([field]);
    let fields: Vec<Value> =
        (0..1_001).map(|number| json!({"map": "SpanAttributes", "name": format!("k{number}")})).collect();
    for (member, value, code, pointer) in [
        ("/binding/database", json!("system"), "invalid_value", "/binding/database"),
        ("/binding/trace_id", json!("TraceID"), "invalid_value", "/binding/trace_id"),
        ("/binding/timestamp", json!("SpanName"), "invalid_value", "/binding/timestamp"),
        ("/binding/display", json!({"name": "Nothing"}), "invalid_value", "/binding/display/name"),
        ("/binding/table", json!("nothing"), "invalid_value", "/binding/table"),
        ("/binding", Value::Null, "invalid_value", "/binding"),
        ("/fields", json!(fields), "invalid_value", "/fields"),
        ("/fields", field(json!({"name": ""})), "invalid_value", "/fields/0/name"),
        ("/fields", field(json!({"name": "Servicename"})), "unknown_field", "/fields/0/name"),
        ("/fields", field(json!({"map": "Attributes", "name": "a"})), "unknown_field", "/fields/0/map"),
        (
            "/fields",
            field(json!({"name": "ServiceName", "type": "number"})),
            "invalid_value",
            "/fields/0/type",
        ),
        ("/fields", field(json!({"name": "Duration", "policy": true})), "invalid_value", "/fields/0/policy"),
        (
            "/fields",
            field(json!({"name": "Duration", "filterable": false})),
            "invalid_value",
            "/fields/0/filterable",
        ),
        (
            "/fields",
            field(json!({"name": "ServiceName", "filterable": false, "policy": false})),
            "invalid_value",
            "/fields/0/filterable",
        ),
        (
            "/fields",
            field(json!({"name": "ServiceName", "ref": "SpanName"})),
            "invalid_value",
            "/fields/0/ref",
        ),
        (
            "/fields",
            field(json!({"name": "ServiceName", "column": "SpanName"})),
            "invalid_value",
            "/fields/0/column",
        ),
        (
            "/fields",
            json!([{"name": "ServiceName"}, {"name": "ServiceName"}]),
            "invalid_value",
            "/fields/1/name",
        ),
        // The field is used by a policy that stays.
        ("/fields", json!([]), "policy_invalid", "/roles/1/policies/0/expression"),
        ("/roles", json!([role("-Blue", valid.clone())]), "invalid_value", "/roles/0/name"),
        (
            "/roles",
            json!([role("a", valid.clone()), role("a", valid.clone())]),
            "invalid_value",
            "/roles/1/name",
        ),
        ("/roles", json!([role("a", json!([]))]), "invalid_value", "/roles/0/policies"),
        ("/roles", json!([role("a", json!(many))]), "invalid_value", "/roles/0/policies"),
        (
            "/roles",
            json!([role("a", json!([policy(" ", "true")]))]),
            "invalid_value",
            "/roles/0/policies/0/title",
        ),
        (
            "/roles",
            json!([role("a", json!([policy("a\u{202e}b", "true")]))]),
            "invalid_value",
            "/roles/0/policies/0/title",
        ),
        (
            "/roles",
            json!([role("a", json!([policy(&"t".repeat(201), "true")]))]),
            "invalid_value",
            "/roles/0/policies/0/title",
        ),
        (
            "/roles",
            json!([role("a", json!([policy("t", "\u{0}")]))]),
            "invalid_value",
            "/roles/0/policies/0/expression",
        ),
        (
            "/roles",
            json!([role("a", valid.clone()), role("b", json!([policy("t", "true"), policy("t", "1 +")]))]),
            "policy_invalid",
            "/roles/1/policies/1/expression",
        ),
        (
            "/roles",
            json!([role("a", json!([policy("t", "SpanAttributes[\"other\"] == \"a\"")]))]),
            "policy_invalid",
            "/roles/0/policies/0/expression",
        ),
        (
            "/roles",
            json!([role("a", json!([policy("t", "Duration > 1")]))]),
            "policy_invalid",
            "/roles/0/policies/0/expression",
        ),
    ] {
        let mut wrong = file.clone();
        *wrong.pointer_mut(member).unwrap() = value;
        let planned = admin.post("/schema/plan", wrong.clone()).await.problem(422, code);
        assert_eq!(planned.first_error()["pointer"], pointer, "{}", planned.body);
        let refused = import(&admin, &wrong).await.problem(422, code);
        assert_eq!(refused.body["errors"], planned.body["errors"]);
        let record = last_record(&admin).await;
        // Errors that the parser of the file finds do not reach the use case.
        let by_reader = ["/fields/0/ref", "/roles/1/name"].contains(&pointer);
        let action = if by_reader { "administration" } else { "model.import" };
        assert_eq!(record["action"], action, "{pointer}: {record}");
        assert_eq!((&record["target"], &record["outcome"]), (&target(action), &json!("failed")), "{record}");
        assert_eq!(export(&admin).await.0, file, "{pointer}");
    }
}

#[tokio::test]
async fn a_late_error_rolls_back_everything() {
    let store = Store::start();
    let (service, admin, file) = bound(&store).await;
    let history = admin.get("/schema/history").await.expect(200).body;
    let mut wrong = file.clone();
    wrong["fields"].as_array_mut().unwrap().push(json!({"name": "SpanName"}));
    let mut roles: Vec<Value> = (0..50)
        .map(|number| json!({"name": format!("r{number}"), "policies": [{"title": "t", "expression": "SpanName == \"a\""}]}))
        .collect();
    roles.push(
        json!({"name": "z", "policies": [{"title": "t", "expression": "SpanName == user.unknown-user"}]}),
    );
    wrong["roles"] = json!(roles);
    import(&admin, &wrong).await.problem(422, "policy_invalid");
    assert_eq!(export(&admin).await.0, file);
    assert_eq!(admin.get("/schema/history").await.expect(200).body, history);
    drop(service);
}

#[tokio::test]
async fn a_file_must_contain_the_whole_model() {
    let service = Service::start();
    let admin = service.admin().await;
    for missing in ["binding", "fields", "roles"] {
        let mut part = json!({"binding": null, "fields": [], "roles": []});
        part.as_object_mut().unwrap().remove(missing);
        let refused = import(&admin, &part).await.problem(400, "invalid_request");
        assert!(
            refused.body["detail"].as_str().unwrap().starts_with(&format!("`{missing}` is missing")),
            "{}",
            refused.body
        );
    }
    for (name, value) in
        [("model", json!("model.yaml")), ("policies", json!([{"title": "t", "expression": "true"}]))]
    {
        let mut file = json!({"binding": null, "fields": [], "roles": []});
        file[name] = value;
        let refused = import(&admin, &file).await.problem(422, "invalid_value");
        assert_eq!(refused.first_error()["pointer"], format!("/{name}"));
    }
    let misspelt = json!({"binding": null, "fields": [], "roles": [{"name": "a", "polices": []}]});
    let refused = import(&admin, &misspelt).await.problem(400, "invalid_request");
    assert_eq!(refused.first_error()["pointer"], "/roles/0/polices", "{}", refused.body);
    assert!(
        refused.body["detail"].as_str().unwrap().ends_with("did you mean `policies`?"),
        "{}",
        refused.body
    );
    // The built-in role cannot be removed; without policies it has its initial state.
    admin.put("/roles/admin", json!({"policies": [{"title": "t", "expression": "true"}]})).await.expect(200);
    let imported = import(&admin, &json!({"binding": null, "fields": [], "roles": []})).await.expect(200);
    assert_eq!(imported.body["changes"][0]["name"], "admin / t", "{}", imported.body);
    assert_eq!(admin.get("/roles/admin").await.expect(200).body["policies"], json!([]));
}

#[tokio::test]
async fn ambiguous_yaml_is_rejected_with_its_position() {
    let service = Service::start();
    let admin = service.admin().await.with("if-match", "*");
    let head = "binding: null\nfields: []\n";
    for (text, position) in [
        ("roles: &all []\n", "line 3, column 8"),
        ("roles: *all\n", "line 3, column 8"),
        ("roles: !!seq []\n", "line 3, column 8"),
        ("roles: []\nroles: []\n", "line 4, column 1"),
        ("roles:\n  - name: yes\n    policies: []\n", "line 4, column 11"),
        ("roles:\n  - {name: a, polices: []}\n", "line 4, column 15"),
        ("roles: [\n", "line "),
        ("roles: []\n--- 1\n", "line 4, column 1"),
    ] {
        for (method, path) in [(Method::PUT, "/schema/import"), (Method::POST, "/schema/plan")] {
            let answer = send(&admin, method, path, "application/yaml", &format!("{head}{text}")).await;
            let refused = answer.problem(400, "invalid_request");
            assert!(
                refused.body["detail"].as_str().unwrap().starts_with(position),
                "{text}: {}",
                refused.body
            );
        }
    }
    // Folding joins the lines, so the comment would swallow the condition after it.
    let joined = "roles:\n  - name: a\n    policies:\n      - title: t\n        expression: >\n          true // all\n          && false\n";
    let refused =
        send(&admin, Method::PUT, "/schema/import", "application/yaml", &format!("{head}{joined}")).await;
    let refused = refused.problem(422, "invalid_value");
    assert_eq!(refused.first_error()["pointer"], "/roles/0/policies/0/expression");
    // A body declared as JSON must be JSON.
    let yaml = format!("{head}roles: []\n");
    send(&admin, Method::PUT, "/schema/import", "application/json", &yaml)
        .await
        .problem(400, "invalid_request");
    send(&admin, Method::PUT, "/schema/import", "application/yaml", &yaml).await.expect(200);
    send(&admin, Method::PUT, "/schema/import", "application/yaml; charset=utf-8", &yaml).await.expect(200);
}

#[tokio::test]
async fn only_these_two_routes_take_yaml_and_large_bodies() {
    let service = Service::start();
    let admin = service.admin().await.with("if-match", "*");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "text/yaml", "application/x-yaml"] {
        for (method, path) in [(Method::PUT, "/schema/import"), (Method::POST, "/schema/plan")] {
            send(&admin, method, path, kind, "binding: null\n").await.problem(415, "unsupported_media_type");
        }
    }
    for (method, path) in [
        (Method::PUT, "/schema/fields"),
        (Method::PUT, "/roles/a"),
        (Method::POST, "/users"),
        (Method::POST, "/schema/history/1/restore"),
    ] {
        send(&admin, method, path, "application/yaml", "fields: []\n")
            .await
            .problem(415, "unsupported_media_type");
    }
    let comment = |bytes: usize| format!("#{}\nbinding: null\nfields: []\nroles: []\n", "x".repeat(bytes));
    send(&admin, Method::PUT, "/schema/import", "application/yaml", &comment(7 << 20)).await.expect(200);
    send(&admin, Method::PUT, "/schema/import", "application/yaml", &comment(8 << 20))
        .await
        .problem(413, "payload_too_large");
    // A file that would exceed the size limit when exported and imported again.
    let with_names = |names: Vec<&str>| {
        json!({"binding": null, "fields": [], "roles": [], "users": [{"username": "a"}],
            "tests": [{"name": "n", "user": "a", "spans": [{"names": names}], "visible": false}]})
        .to_string()
    };
    let text = with_names(vec!["ten bytes."; 450_000]);
    assert!(text.len() < 8 << 20);
    send(&admin, Method::PUT, "/schema/import", "application/json", &text)
        .await
        .problem(413, "payload_too_large");
    // A file whose parsed form would need far more memory than its size.
    let text = with_names(vec!["a"; 500_000]);
    assert!(text.len() < 3 << 20);
    for kind in ["application/json", "application/yaml"] {
        let refused = send(&admin, Method::PUT, "/schema/import", kind, &text).await;
        let refused = refused.problem(400, "invalid_request");
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.ends_with("documents have at most 500000 values, this has more"), "{detail}");
    }
}

#[tokio::test]
async fn the_model_is_for_administrators() {
    let service = Service::start();
    let admin = service.admin().await;
    let ada = service.user(&admin, "ada", &[]).await;
    let created =
        admin.post("/me/api-keys", json!({"name": "narrowed", "policy": "true"})).await.expect(201).body;
    let scoped = admin.with_key(created["token"].as_str().unwrap());
    let created = admin.post("/me/api-keys", json!({"name": "whole"})).await.expect(201).body;
    let key = admin.with_key(created["token"].as_str().unwrap());
    let file = json!({"binding": null, "fields": [], "roles": []});
    for client in [&ada, &scoped] {
        let client = client.with("if-match", "*");
        for path in ["/schema/export", "/schema/history", "/schema/history/1"] {
            client.get(path).await.problem(403, "forbidden");
        }
        client.post("/schema/plan", file.clone()).await.problem(403, "forbidden");
        client.put("/schema/import", file.clone()).await.problem(403, "forbidden");
        client.send(Method::POST, "/schema/history/1/restore", None).await.problem(403, "forbidden");
        let record = last_record(&admin).await;
        assert_eq!(
            (&record["action"], &record["outcome"]),
            (&json!("administration"), &json!("denied")),
            "{record}"
        );
    }
    let key = key.with("if-match", "*");
    key.get("/schema/export").await.expect(200);
    key.post("/schema/plan", file.clone()).await.expect(200);
    key.put("/schema/import", file).await.expect(200);
    let record = last_record(&admin).await;
    assert_eq!(
        (&record["action"], &record["actor"]["via"]),
        (&json!("model.import"), &json!("api_key")),
        "{record}"
    );
}

fn target(action: &str) -> Value {
    if action == "administration" { json!("/schema/import") } else { Value::Null }
}
