//! `/schema/export`, `/schema/plan`, `/schema/import`, `/schema/history`: the whole access model as one file.

mod digits;
mod history;
mod large;
mod random;
mod refusals;
mod rows;

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::Connection as _;

use crate::support::store::{Store, binding, blue_policies, bound_service, two_teams};
use crate::support::{Answer, Client, Service};

/// Returns the file in this format, and its version.
async fn export_as(admin: &Client, kind: &str) -> (String, String) {
    let answer = admin.with("accept", kind).get("/schema/export").await.expect(200);
    assert_eq!(answer.headers["content-type"], kind);
    let change = answer.headers["etag"].to_str().unwrap().to_owned();
    (String::from_utf8(answer.bytes).unwrap(), change)
}

/// Returns the file as JSON, and its version.
async fn export(admin: &Client) -> (Value, String) {
    let (text, change) = export_as(admin, "application/json").await;
    (serde_json::from_str(&text).unwrap(), change)
}

/// Sends a file as the given text.
async fn send(admin: &Client, method: Method, path: &str, kind: &str, text: &str) -> Answer {
    let request = admin.request(method.clone(), path).header("content-type", kind).body(text.to_owned());
    Answer::read(format!("{method} {path}"), request).await
}

/// Imports a file, whatever the current version.
async fn import(admin: &Client, file: &Value) -> Answer {
    admin.with("if-match", "*").put("/schema/import", file.clone()).await
}

fn numbers(admin: &Value) -> Vec<u64> {
    admin["changes"].as_array().unwrap().iter().map(|entry| entry["version"].as_u64().unwrap()).collect()
}

async fn last_record(admin: &Client) -> Value {
    admin.get("/audit?limit=1").await.expect(200).body["records"][0].clone()
}

/// A file with a role and tests of it.
fn model_with_tests() -> Value {
    let field = json!({"map": "SpanAttributes", "name": "team", "type": "string", "column_type": "String",
        "source": "map_key", "filterable": true, "policy": true});
    json!({
        "binding": binding(),
        "fields": [field],
        "roles": [{"name": "blue", "policies": [
            {"title": "Blue", "expression": "SpanAttributes[\"team\"] == \"blue\""},
            {"title": "Own", "description": "by\nattribute", "expression": "SpanAttributes[\"team\"] ==\n  user.attributes.team\n"},
        ]}],
        "users": [{"username": "ada", "roles": ["blue"], "attributes": {"team": "red"}}],
        "traces": [{"name": "red", "spans": [{"SpanAttributes": {"team": "red", "n": "1"}}]}],
        "tests": [
            {"name": "Ada sees red", "user": "ada", "trace": "red", "visible": true, "policies": {"Blue": false, "Own": [true]}},
        ],
    })
}

#[tokio::test]
async fn a_fresh_service_has_a_file_and_a_history() {
    let service = Service::start();
    let admin = service.admin().await;
    let (file, change) = export(&admin).await;
    assert_eq!(file, json!({"binding": null, "fields": [], "roles": [{"name": "admin", "policies": []}]}));
    let (text, _) = export_as(&admin, "application/yaml").await;
    assert_eq!(text, "binding: null\nfields: []\nroles:\n  - name: admin\n    policies: []\n");
    let plan = admin.post("/schema/plan", file.clone()).await.expect(200).body;
    assert_eq!((&plan["empty"], &plan["changes"]), (&json!(true), &json!([])), "{plan}");
    assert_eq!(format!("\"{}\"", plan["version"]), change);
    let history = admin.get("/schema/history").await.expect(200).body;
    assert_eq!(history["changes"][0]["action"], "upgrade", "{history}");
    // Importing the current model changes nothing, with or without the built-in role.
    for same in [file, json!({"binding": null, "fields": [], "roles": []})] {
        let imported = admin.with("if-match", &change).put("/schema/import", same).await.expect(200);
        assert_eq!(imported.headers["etag"], change.as_str());
        assert_eq!(imported.body["changes"], json!([]));
    }
    assert_eq!(admin.get("/schema/history").await.expect(200).body, history);
}

#[tokio::test]
async fn an_applied_file_is_exported_unchanged() {
    let store = Store::start();
    let service = store.service();
    let admin = service.admin().await;
    let plan = admin.post("/schema/plan", model_with_tests()).await.expect(200).body;
    assert_eq!(plan["tests"], json!({"passed": 1, "failed": []}), "{plan}");
    let kinds: Vec<(&str, &str)> = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| (change["kind"].as_str().unwrap(), change["change"].as_str().unwrap()))
        .collect();
    assert_eq!(kinds, [("binding", "added"), ("field", "added"), ("role", "added"), ("tests", "added")]);
    // A plan changes nothing.
    assert_eq!(admin.get("/schema").await.expect(200).body["binding"], Value::Null);

    let if_match = format!("\"{}\"", plan["version"]);
    let imported =
        admin.with("if-match", &if_match).put("/schema/import", model_with_tests()).await.expect(200);
    assert_eq!(imported.body["changes"], plan["changes"]);
    assert_eq!(imported.body["version"], plan["version"].as_u64().unwrap() + 1);
    let tag = imported.headers["etag"].to_str().unwrap().to_owned();

    for kind in ["application/json", "application/yaml"] {
        let (text, change) = export_as(&admin, kind).await;
        assert_eq!(change, tag);
        let same =
            send(&admin.with("if-match", &tag), Method::PUT, "/schema/import", kind, &text).await.expect(200);
        assert_eq!(
            (&same.body["changes"], &same.headers["etag"].to_str().unwrap()),
            (&json!([]), &tag.as_str())
        );
        assert_eq!(export_as(&admin, kind).await.0, text);
    }
    let (text, _) = export_as(&admin, "application/yaml").await;
    assert!(
        text.contains(
            "        expression: |\n          SpanAttributes[\"team\"] ==\n            user.attributes.team\n"
        ),
        "{text}"
    );
    assert!(text.contains("        expression: 'SpanAttributes[\"team\"] == \"blue\"'\n"), "{text}");
    // The file agrees with the resources for its parts.
    let role = admin.get("/roles/blue").await.expect(200).body;
    assert_eq!(
        role["policies"],
        json!([
            {"title": "Blue", "expression": "SpanAttributes[\"team\"] == \"blue\""},
            {"title": "Own", "expression": "SpanAttributes[\"team\"] ==\n  user.attributes.team\n", "description": "by\nattribute"},
        ])
    );
    let record = last_record(&admin).await;
    assert_eq!(
        (&record["action"], &record["outcome"]),
        (&json!("model.import"), &json!("success")),
        "{record}"
    );
}

#[tokio::test]
async fn the_same_file_on_another_service_makes_the_same_model() {
    let store = Store::start();
    let (_service, admin, _ada) = two_teams(&store).await;
    let (text, _) = export_as(&admin, "application/yaml").await;
    let other = store.service();
    let other = other.admin().await;
    send(&other.with("if-match", "*"), Method::PUT, "/schema/import", "application/yaml", &text)
        .await
        .expect(200);
    assert_eq!(export_as(&other, "application/yaml").await.0, text);
    assert_eq!(
        other.get("/schema").await.expect(200).body["fields"],
        admin.get("/schema").await.expect(200).body["fields"]
    );
}

#[tokio::test]
async fn an_import_removes_missing_and_keeps_unchanged_objects() {
    let store = Store::start();
    let (service, admin, ada) = two_teams(&store).await;
    admin
        .put(
            "/roles/red",
            json!({"policies": [{"title": "Red", "expression": "SpanAttributes[\"team\"] == \"red\""}]}),
        )
        .await
        .expect(201);
    service.user(&admin, "bob", &["blue", "red"]).await;
    ada.get(&format!("/traces/{}", crate::support::store::BLUE)).await.expect(200);
    let kept = admin.get("/roles/red").await.expect(200);
    let version = admin.get("/schema").await.expect(200).headers["etag"].clone();

    let (mut file, change) = export(&admin).await;
    file["roles"].as_array_mut().unwrap().retain(|role| role["name"] != "blue");
    let plan = admin.post("/schema/plan", file.clone()).await.expect(200).body;
    assert_eq!(plan["members"], json!([{"role": "blue", "users": 2, "usernames": ["ada", "bob"]}]), "{plan}");
    assert_eq!(plan["changes"][0]["before"]["policies"], blue_policies()["policies"]);
    assert_eq!(plan["changes"][0]["after"], Value::Null);
    admin.with("if-match", &change).put("/schema/import", file).await.expect(200);
    let record = last_record(&admin).await;
    assert_eq!(record["detail"]["members"], json!({"blue": ["ada", "bob"]}), "{record}");
    assert!(record["detail"]["roles"]["removed"]["blue"].is_array(), "{record}");
    admin.get("/roles/blue").await.problem(404, "not_found");
    ada.get(&format!("/traces/{}", crate::support::store::BLUE)).await.problem(404, "trace_not_found");
    assert_eq!(admin.get("/users/bob").await.expect(200).body["roles"], json!(["red"]));
    let now = admin.get("/roles/red").await.expect(200);
    assert_eq!((&now.headers["etag"], &now.body), (&kept.headers["etag"], &kept.body));
    assert_eq!(admin.get("/schema").await.expect(200).headers["etag"], version);
}

#[tokio::test]
async fn a_plan_says_what_users_gain_and_lose() {
    let store = Store::start();
    let (service, admin, _ada) = two_teams(&store).await;
    service.user(&admin, "bob", &["admin"]).await;
    let (mut file, _) = export(&admin).await;
    let role = file["roles"].as_array_mut().unwrap().iter_mut().find(|role| role["name"] == "blue").unwrap();
    role["policies"][0]["expression"] = json!("SpanAttributes[\"team\"] == \"red\"");
    let plan = admin.post("/schema/plan?seconds=20", file.clone()).await.expect(200).body;
    let impact = &plan["impact"];
    assert_eq!((&impact["sampled"], &impact["counted_traces"]), (&json!(false), &json!("all")), "{plan}");
    let users = impact["users"].as_array().unwrap();
    let reported = (&users[0]["username"], &users[0]["gained"], &users[0]["lost"], &users[0]["unchanged"]);
    assert_eq!((users.len(), reported), (1, (&json!("ada"), &json!(1), &json!(1), &json!(0))), "{plan}");
    // The administrator may see neither trace.
    assert_eq!((&users[0]["gained_ids"], &users[0]["lost_ids"]), (&json!([]), &json!([])), "{plan}");
    let record = last_record(&admin).await;
    assert_eq!(
        (&record["action"], &record["outcome"]),
        (&json!("model.plan"), &json!("success")),
        "{record}"
    );
    let plan = admin.post("/schema/plan?seconds=0", file.clone()).await.expect(200).body;
    assert_eq!(plan["impact"], Value::Null);
    for seconds in ["-1", "61"] {
        admin
            .post(&format!("/schema/plan?seconds={seconds}"), file.clone())
            .await
            .problem(422, "invalid_value");
    }
    // Without ClickHouse, the rest of the plan is still returned.
    let mut store = store;
    store.kill();
    let plan = admin.post("/schema/plan", file).await.expect(200).body;
    assert_eq!((&plan["impact"], plan["changes"].as_array().unwrap().len()), (&Value::Null, 1), "{plan}");
    assert!(
        plan["notes"][0]
            .as_str()
            .unwrap()
            .starts_with("the access that users gain and lose could not be counted"),
        "{plan}"
    );
}

#[tokio::test]
async fn policies_compile_under_the_model_that_comes_with_them() {
    let store = Store::start();
    let (_service, admin) = bound_service(&store, &[]).await;
    let (mut file, _) = export(&admin).await;
    // A policy uses a field that the same file adds, and the file removes another field.
    file["fields"] = json!([{"name": "SpanName"}]);
    file["roles"] =
        json!([{"name": "names", "policies": [{"title": "Get", "expression": "SpanName == \"GET /\""}]}]);
    import(&admin, &file).await.expect(200);
    let (after, _) = export(&admin).await;
    assert_eq!(
        after["fields"],
        json!([{"name": "SpanName", "type": "string", "column_type": "LowCardinality(String)",
        "source": "column", "filterable": true, "policy": true}])
    );
    // The reverse: the file removes the field and keeps the policy.
    file["fields"] = json!([]);
    let refused = import(&admin, &file).await.problem(422, "policy_invalid");
    assert_eq!(refused.first_error()["pointer"], "/roles/0/policies/0/expression");
    assert_eq!((&refused.first_error()["line"], &refused.first_error()["column"]), (&json!(1), &json!(1)));
    assert_eq!(export(&admin).await.0, after);
}

#[tokio::test]
async fn changes_require_the_current_version() {
    let service = Service::start();
    let admin = service.admin().await;
    let (mut file, change) = export(&admin).await;
    file["roles"] = json!([{"name": "all", "policies": [{"title": "All", "expression": "true"}]}]);
    admin.put("/schema/import", file.clone()).await.problem(428, "precondition_required");
    admin
        .put("/roles/other", json!({"policies": [{"title": "None", "expression": "false"}]}))
        .await
        .expect(201);
    let stale = admin.with("if-match", &change);
    stale.put("/schema/import", file.clone()).await.problem(412, "precondition_failed");
    // An outdated version is reported before invalid content.
    stale
        .put(
            "/schema/import",
            json!({"binding": null, "fields": [], "roles": [{"name": "X", "policies": []}]}),
        )
        .await
        .problem(412, "precondition_failed");
    stale.send(Method::POST, "/schema/history/1/restore", None).await.problem(412, "precondition_failed");
    admin.send(Method::POST, "/schema/history/1/restore", None).await.problem(428, "precondition_required");
    admin.get("/roles/other").await.expect(200);
    let (_, change) = export(&admin).await;
    admin.with("if-match", &change).put("/schema/import", file).await.expect(200);
    admin.get("/roles/other").await.problem(404, "not_found");
}

#[tokio::test]
async fn one_of_several_concurrent_imports_succeeds() {
    let service = Service::start();
    let admin = service.admin().await;
    let (_, change) = export(&admin).await;
    let imports = (0..8).map(|number| {
        let admin = admin.with("if-match", &change);
        let policies = json!([{"title": format!("{number}"), "expression": "true"}]);
        let file = json!({"binding": null, "fields": [], "roles": [{"name": format!("r{number}"), "policies": policies}]});
        tokio::spawn(async move { admin.put("/schema/import", file).await.status })
    });
    let mut statuses = Vec::new();
    for import in imports.collect::<Vec<_>>() {
        statuses.push(import.await.unwrap());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [&[200][..], &[412; 7]].concat());
    assert_eq!(export(&admin).await.0["roles"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_file_with_failing_tests_is_rejected() {
    let store = Store::start();
    let service = store.service();
    let admin = service.admin().await;
    let mut file = model_with_tests();
    file["roles"][0]["policies"][1]["expression"] = json!("SpanAttributes[\"team\"] != user.attributes.team");
    let plan = admin.post("/schema/plan", file.clone()).await.expect(200).body;
    let failed = &plan["tests"]["failed"][0];
    assert_eq!((&plan["tests"]["passed"], &failed["name"]), (&json!(0), &json!("Ada sees red")), "{plan}");
    let message = failed["message"].as_str().unwrap();
    assert!(message.contains("the trace, for `ada`: expected visible, got hidden"), "{message}");
    assert!(message.contains("policy `blue/Own` on span 1: expected true, got false"), "{message}");
    let refused = import(&admin, &file).await.problem(422, "tests_failed");
    assert_eq!(refused.first_error()["pointer"], "/tests/0", "{}", refused.body);
    assert!(
        refused.first_error()["detail"].as_str().unwrap().starts_with("Ada sees red: "),
        "{}",
        refused.body
    );
    assert_eq!(export(&admin).await.0["roles"].as_array().unwrap().len(), 1);
    let record = last_record(&admin).await;
    assert_eq!(
        (&record["action"], &record["outcome"]),
        (&json!("model.import"), &json!("failed")),
        "{record}"
    );
    // Tests that cannot be run are reported with their position.
    for (member, value, pointer) in [
        ("/tests/0/user", json!("eve"), "/tests/0/user"),
        ("/tests/0/trace", json!("green"), "/tests/0/trace"),
        ("/users/0/roles", json!(["bleu"]), "/users/0/roles"),
        ("/traces/0/spans", json!([]), "/traces/0/spans"),
        (
            "/traces/0/spans/0",
            json!({"SpanAttributes": {"team": 1}}),
            "/traces/0/spans/0/SpanAttributes/team",
        ),
        ("/tests", json!([]), ""),
    ] {
        let mut file = model_with_tests();
        *file.pointer_mut(member).unwrap() = value;
        let refused = import(&admin, &file).await.problem(422, "invalid_value");
        assert_eq!(refused.first_error()["pointer"], pointer, "{}", refused.body);
        // A plan reports this, together with the changes.
        let plan = admin.post("/schema/plan", file).await.expect(200).body;
        let failed = &plan["tests"]["failed"][0];
        assert_eq!(failed["name"], format!("cannot be run: {pointer}"), "{plan}");
        assert_eq!(failed["message"], refused.first_error()["detail"]);
        assert_eq!(plan["changes"].as_array().unwrap().len(), 4, "{plan}");
    }
}

/// The test writes an invalid policy directly to the database, as another program might. The API would reject it.
#[tokio::test]
async fn an_already_broken_policy_does_not_block_other_changes() {
    let store = Store::start();
    let service = store.service();
    let admin = service.admin().await;
    let mut file = model_with_tests();
    let policy = |title: &str, expression: &str| json!({"title": title, "expression": expression});
    let red = policy("Red", "SpanAttributes[\"team\"] == \"red\"");
    file["roles"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "red", "policies": [red.clone(), policy("Also", "true")]}));
    file["users"].as_array_mut().unwrap().push(json!({"username": "bob", "roles": ["red"]}));
    file["tests"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "Bob sees red", "user": "bob", "trace": "red", "visible": true, "policies": {"Red": true}}));
    import(&admin, &file).await.expect(200);
    let mut database = sqlx::SqliteConnection::connect(&service.database_url()).await.unwrap();
    let gone = "SpanAttributes[\"gone\"] == \"x\"";
    let changed = sqlx::query("UPDATE role_policies SET expression = $1 WHERE title = 'Red'")
        .bind(gone)
        .execute(&mut database);
    assert_eq!(changed.await.unwrap().rows_affected(), 1);
    let (broken, _) = export(&admin).await;

    // Tests that depend on the broken policy fail; the others are run.
    let plan = admin.post("/schema/plan?seconds=0", broken.clone()).await.expect(200).body;
    let note = plan["notes"][0].as_str().unwrap();
    assert!(note.starts_with("the policy `Red` of the unchanged role `red` is broken"), "{note}");
    assert!(note.contains("gone"), "{note}");
    let tests = &plan["tests"];
    assert_eq!(
        (&tests["passed"], &tests["failed"][0]["name"]),
        (&json!(1), &json!("Bob sees red")),
        "{tests}"
    );
    assert_eq!(tests["failed"].as_array().unwrap().len(), 1, "{tests}");
    assert!(
        tests["failed"][0]["message"].as_str().unwrap().contains("policy `red/Red` is broken"),
        "{tests}"
    );
    let refused = import(&admin, &broken).await.problem(422, "tests_failed");
    assert_eq!(refused.first_error()["pointer"], "/tests/1");

    // Another role can be changed while the broken one stays.
    let mut file = broken.clone();
    file["tests"].as_array_mut().unwrap().pop();
    let at = |file: &Value, name: &str| {
        file["roles"].as_array().unwrap().iter().position(|role| role["name"] == name).unwrap()
    };
    let (blue, red_at) = (at(&file, "blue"), at(&file, "red"));
    file["roles"][blue]["policies"][0]["description"] = json!("what it is for");
    let imported = import(&admin, &file).await.expect(200).body;
    assert_eq!(imported["changes"][0]["name"], "blue / Blue", "{imported}");
    assert_eq!(imported["notes"].as_array().unwrap().len(), 1, "{imported}");
    assert_eq!(export(&admin).await.0, file);
    // Fields can be changed, too.
    file["fields"].as_array_mut().unwrap().push(json!({"name": "SpanName"}));
    import(&admin, &file).await.expect(200);

    // A file that changes the broken role must correct it, and a file that breaks policies itself is rejected.
    let mut wrong = file.clone();
    wrong["roles"][red_at]["policies"].as_array_mut().unwrap().pop();
    let refused = import(&admin, &wrong).await.problem(422, "policy_invalid");
    assert_eq!(refused.first_error()["pointer"], format!("/roles/{red_at}/policies/0/expression"));
    let mut wrong = file.clone();
    wrong["fields"] = json!([{"name": "SpanName"}]);
    let refused = import(&admin, &wrong).await.problem(422, "policy_invalid");
    let pointers: Vec<&str> = refused.body["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["pointer"].as_str().unwrap())
        .collect();
    let reported = [0, 1].map(|number| format!("/roles/{blue}/policies/{number}/expression"));
    assert_eq!(pointers, reported, "not of the policy that was broken before");
    // Once the policy is corrected, there is no note left.
    let (mut file, _) = export(&admin).await;
    file["roles"][red_at]["policies"][0] = red;
    assert_eq!(import(&admin, &file).await.expect(200).body["notes"], json!([]));
}

#[tokio::test]
async fn roles_are_imported_while_clickhouse_is_unavailable() {
    let mut store = Store::start();
    let (_service, admin) = bound_service(&store, &[]).await;
    store.kill();
    let (mut file, _) = export(&admin).await;
    file["roles"] = json!([{"name": "blue", "policies": blue_policies()["policies"]}]);
    import(&admin, &file).await.expect(200);
    // A change that requires reading the table needs ClickHouse.
    file["fields"][0]["filterable"] = json!(false);
    import(&admin, &file).await.problem(503, "unavailable");
}
