//! Mappings: what administrators write, read and try, and mappings as part of the access model.

use serde_json::{Value, json};

use super::{Company, TestDatabase, browser_of, groups_mapping, on_both, roles};
use crate::support::identity::PROVIDER;

on_both!(mappings_are_checked_and_tried, mappings_are_part_of_the_model);

fn path(rest: &str) -> String {
    format!("/identity/providers/{PROVIDER}{rest}")
}

async fn mappings_are_checked_and_tried(database: TestDatabase) {
    let company = Company::start(database).await;
    let admin = &company.admin;
    let listed = admin.get("/identity/providers").await.expect(200).body;
    let base = &company.service.base;
    assert_eq!(
        listed["providers"],
        json!([{
            "name": PROVIDER, "label": "Company account", "issuer": company.provider.issuer,
            "mapping": {"roles": [], "attributes": {}},
            "redirect_uri": format!("{base}/login/{PROVIDER}/callback"),
            "backchannel_logout_uri": format!("{base}/logout/backchannel/{PROVIDER}"),
        }])
    );
    let rule = |role: &str, when: &str| json!({"roles": [{"role": role, "when": when}], "attributes": {}});
    let put = async |mapping: Value| admin.put(&path("/mapping"), mapping).await;
    for (mapping, status, code, pointer) in [
        (rule("payments", "groups == \"a\""), 422, "policy_invalid", "/roles/0/when"),
        (rule("payment", "true"), 422, "unknown_role", "/roles/0/role"),
        (rule("Payments", "true"), 422, "unknown_role", "/roles/0/role"),
        (json!({"attributes": {"a": "size(claims.groups)"}}), 422, "policy_invalid", "/attributes/a"),
        (json!({"attributes": {"": "claims.a"}}), 422, "invalid_value", "/attributes/"),
        (rule("payments", &"a".repeat(5_000)), 422, "invalid_value", "/roles/0/when"),
        (json!({"roles": [{"role": "payments"}]}), 400, "invalid_request", "/roles/0"),
        (json!({"rules": []}), 400, "invalid_request", "/rules"),
    ] {
        let refused = put(mapping.clone()).await.problem(status, code);
        assert_eq!(refused.first_error()["pointer"], pointer, "{mapping}");
    }
    let refused = put(rule("payments", "groups == \"a\"")).await;
    let error = refused.first_error();
    assert_eq!((&error["line"], &error["column"], &error["length"]), (&json!(1), &json!(1), &json!(6)));
    assert!(error["hint"].as_str().unwrap().contains("claims.groups"), "{error}");
    admin
        .put("/identity/providers/unknown/mapping", rule("payments", "true"))
        .await
        .problem(404, "not_found");

    // Warnings.
    let warned = put(json!({
        "roles": [
            {"role": "admin", "when": "\"admins\" in claims.groups"},
            {"role": "payments", "when": "claims.email.endsWith(\"@example.com\")"},
            {"role": "oncall", "when": "claims.email_verified && claims.email == \"a@example.com\""},
        ],
        "attributes": {"name": "claims.name"},
    }));
    let warned = warned.await.expect(200);
    let pointers: Vec<&str> = warned.body["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|warning| warning["pointer"].as_str().unwrap())
        .collect();
    assert_eq!(pointers, ["/roles/0/role", "/attributes/name", "/roles/1/when"]);

    // A key must not create administrators.
    put(json!({})).await.expect(200);
    let created = admin.post("/me/api-keys", json!({"name": "k"})).await.expect(201).body;
    let key = admin.with_key(created["token"].as_str().unwrap());
    key.put(&path("/mapping"), rule("admin", "true")).await.problem(403, "session_required");
    key.put(&path("/mapping"), rule("payments", "true")).await.expect(200);

    // Lost updates.
    let first = admin.get(&path("/mapping")).await.expect(200);
    let tag = first.headers["etag"].to_str().unwrap().to_owned();
    admin.with("if-match", &tag).put(&path("/mapping"), groups_mapping()).await.expect(200);
    let late = admin.with("if-match", &tag).put(&path("/mapping"), rule("oncall", "true")).await;
    late.problem(412, "precondition_failed");

    // Trying.
    let evaluate = async |body: Value| admin.post(&path("/evaluate"), body).await.expect(200).body;
    let tried = evaluate(json!({"claims": {"groups": ["/payments"], "department": 7}})).await;
    let expected = json!({
        "roles": ["payments"], "attributes": {},
        "unmapped": [{"pointer": "/attributes/team", "absent_claims": ["claims.department"]}],
    });
    assert_eq!(tried, expected);
    let long = "x".repeat(2_000);
    let tried = evaluate(
        json!({"claims": {"department": long}, "mapping": {"attributes": {"team": "claims.department"}}}),
    )
    .await;
    let expected = json!({"roles": [], "attributes": {}, "unmapped": [{"pointer": "/attributes/team", "absent_claims": []}]});
    assert_eq!(tried, expected, "the attribute would be too long");
    let invalid = json!({"claims": {}, "mapping": rule("payments", "x")});
    admin.post(&path("/evaluate"), invalid).await.problem(422, "policy_invalid");
    company.service.anonymous().get("/identity/providers").await.problem(401, "unauthenticated");
}

async fn mappings_are_part_of_the_model(database: TestDatabase) {
    let company = Company::start(database).await;
    let Company { provider, admin, .. } = &company;
    provider.put_user("paula", json!({"groups": ["/payments"], "department": "blue"})).await;
    company.map_groups().await;
    let (_, paula) = browser_of(&company, "paula").await;

    let exported = admin.get("/schema/export").await.expect(200);
    assert_eq!(exported.body["identity"], json!({PROVIDER: groups_mapping()}));
    let version = exported.headers["etag"].to_str().unwrap().to_owned();
    let with_mapping = exported.body.clone();
    let plan = async |file: &Value| admin.post("/schema/plan?seconds=0", file.clone()).await;
    assert_eq!(plan(&with_mapping).await.expect(200).body["empty"], true);

    // A file from before there were mappings does not remove them unnoticed.
    let mut without = with_mapping.clone();
    without.as_object_mut().unwrap().remove("identity");
    let refused = plan(&without).await.problem(422, "invalid_value");
    assert_eq!(refused.first_error()["pointer"], "/identity");

    // Errors point into the file.
    let mut broken = with_mapping.clone();
    broken["identity"][PROVIDER]["roles"][1]["when"] = json!("oops");
    let refused = plan(&broken).await.problem(422, "policy_invalid");
    assert_eq!(refused.first_error()["pointer"], format!("/identity/{PROVIDER}/roles/1/when"));
    broken["identity"][PROVIDER]["roles"][1] = json!({"role": "nothing", "when": "true"});
    plan(&broken).await.problem(422, "unknown_role");

    // A change, planned and imported.
    let mut changed = with_mapping.clone();
    changed["identity"][PROVIDER]["roles"] =
        json!([{"role": "oncall", "when": "\"/payments\" in claims.groups"}]);
    let planned = plan(&changed).await.expect(200).body;
    assert_eq!(planned["changes"][0]["kind"], "mapping");
    assert_eq!(planned["changes"][0]["name"], PROVIDER);
    assert_eq!(
        planned["people"],
        json!([{"username": "paula", "provider": PROVIDER, "roles_gained": ["oncall"], "roles_lost": ["payments"], "attributes_changed": []}])
    );
    assert_eq!(roles(&paula).await, json!(["payments"]), "a plan changes nothing");
    let imported = admin.with("if-match", &version).put("/schema/import", changed).await.expect(200);
    assert_eq!(roles(&paula).await, json!(["oncall"]));
    let detail = &company.records("model.import").await[0]["detail"];
    assert_eq!(detail["people_changed"], 1, "{detail}");

    // The history has both, and restores the first.
    let history = admin.get("/schema/history").await.expect(200).body;
    let summaries: Vec<&Value> =
        history["changes"].as_array().unwrap().iter().map(|change| &change["summary"]).collect();
    assert_eq!(summaries[0], &json!([format!("mapping of `{PROVIDER}` changed")]));
    assert_eq!(summaries[1], &json!([format!("mapping of `{PROVIDER}` added")]));
    let tag = imported.headers["etag"].to_str().unwrap().to_owned();
    let earlier = history["changes"][1]["version"].as_u64().unwrap();
    admin
        .with("if-match", &tag)
        .post(&format!("/schema/history/{earlier}/restore"), json!({}))
        .await
        .expect(200);
    assert_eq!(roles(&paula).await, json!(["payments"]));
    let me = paula.get("/me").await.expect(200).body;
    assert_eq!(me["attributes"], json!({"team": "blue"}));
}
