//! `/roles` and `/policies`. Tests that need marked fields are with the trace source.

use serde_json::json;

use crate::support::Service;

#[tokio::test]
async fn a_role_is_created_and_replaced() {
    let service = Service::start();
    let admin = service.admin().await;
    let policies = json!({"policies": [{"title": "All", "expression": "true", "description": "for now"}]});
    let created = admin.put("/roles/readers", policies).await.expect(201);
    assert_eq!(created.body["name"], "readers");
    assert_eq!(created.body["policies"][0]["description"], "for now");
    assert!(created.body["policies"][0]["warnings"].is_array(), "{}", created.body);
    let tag = created.headers["etag"].to_str().unwrap().to_owned();

    let policies = json!({"policies": [{"title": "None", "expression": "false"}]});
    let replaced = admin.put("/roles/readers", policies.clone()).await.expect(200);
    assert_ne!(replaced.headers["etag"], tag.as_str());
    let stale = admin.with("if-match", &tag);
    stale.put("/roles/readers", policies.clone()).await.problem(412, "precondition_failed");
    stale.delete("/roles/readers").await.problem(412, "precondition_failed");
    admin
        .with("if-match", "nonsense")
        .put("/roles/readers", policies.clone())
        .await
        .problem(412, "precondition_failed");
    let current = admin.get("/roles/readers").await.expect(200);
    assert_eq!(current.headers["etag"], replaced.headers["etag"]);
    admin
        .with("if-match", current.headers["etag"].to_str().unwrap())
        .put("/roles/readers", policies)
        .await
        .expect(200);
}

#[tokio::test]
async fn etags_are_never_reused() {
    let service = Service::start();
    let admin = service.admin().await;
    let policies = json!({"policies": [{"title": "All", "expression": "true"}]});
    let mut tags = std::collections::BTreeSet::new();
    for _ in 0..3 {
        for title in ["All", "Everything"] {
            let policies = json!({"policies": [{"title": title, "expression": "true"}]});
            let put = admin.put("/roles/readers", policies).await;
            assert!(tags.insert(put.headers["etag"].to_str().unwrap().to_owned()), "{tags:?}");
        }
        admin.delete("/roles/readers").await.expect(204);
    }
    admin.put("/roles/readers", policies.clone()).await.expect(201);
    for tag in &tags {
        let stale = admin.with("if-match", tag);
        stale.put("/roles/readers", policies.clone()).await.problem(412, "precondition_failed");
        stale.delete("/roles/readers").await.problem(412, "precondition_failed");
    }
}

#[tokio::test]
async fn if_match_any_requires_an_existing_role() {
    let service = Service::start();
    let admin = service.admin().await;
    let any = admin.with("if-match", "*");
    let policies = json!({"policies": [{"title": "All", "expression": "true"}]});
    any.put("/roles/readers", policies.clone()).await.problem(412, "precondition_failed");
    admin.get("/roles/readers").await.problem(404, "not_found");
    admin.put("/roles/readers", policies.clone()).await.expect(201);
    any.put("/roles/readers", policies).await.expect(200);
    any.delete("/roles/readers").await.expect(204);
    any.delete("/roles/readers").await.problem(404, "not_found");
}

#[tokio::test]
async fn a_role_lists_its_members_and_is_removed_from_them() {
    let service = Service::start();
    let admin = service.admin().await;
    let policies = json!({"policies": [{"title": "All", "expression": "true"}]});
    admin.put("/roles/readers", policies).await.expect(201);
    admin.post("/users", json!({"username": "ada", "roles": ["readers"]})).await.expect(201);
    assert_eq!(admin.get("/roles/readers").await.expect(200).body["members"], json!(["ada"]));
    admin.delete("/roles/readers").await.expect(204);
    assert_eq!(admin.get("/users/ada").await.expect(200).body["roles"], json!([]));
    admin.get("/roles/readers").await.problem(404, "not_found");
    admin.delete("/roles/readers").await.problem(404, "not_found");
}

#[tokio::test]
async fn the_built_in_role_stays() {
    let service = Service::start();
    let admin = service.admin().await;
    let names: Vec<_> = admin.get("/roles").await.expect(200).body["roles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|role| role["name"].clone())
        .collect();
    assert_eq!(names, ["admin"]);
    admin.delete("/roles/admin").await.problem(409, "conflict");
    admin.put("/roles/admin", json!({"policies": []})).await.expect(200);
}

#[tokio::test]
async fn invalid_policies_are_refused_before_storage() {
    let service = Service::start();
    let admin = service.admin().await;
    let policies = json!({"policies": [
        {"title": "Fine", "expression": "true"},
        {"title": "Not CEL", "expression": "true &&\n  &&"},
    ]});
    let answer = admin.put("/roles/readers", policies).await.problem(422, "policy_invalid");
    let error = answer.first_error();
    assert_eq!(error["pointer"], "/policies/1/expression");
    assert_eq!(error["line"], 2, "{error}");
    assert!(error["column"].is_u64() && error["length"].is_u64(), "{error}");
    admin.get("/roles/readers").await.problem(404, "not_found");

    let unmarked = json!({"policies": [{"title": "Unmarked", "expression": "ServiceName == 'shop'"}]});
    admin.put("/roles/readers", unmarked).await.expect(422);
    admin.get("/roles/readers").await.problem(404, "not_found");
}

#[tokio::test]
async fn names_and_counts_are_checked() {
    let service = Service::start();
    let admin = service.admin().await;
    let policies = json!({"policies": [{"title": "All", "expression": "true"}]});
    for name in ["-Readers", "-readers", "a%20b", "%C3%A4", &"a".repeat(65), "a%2Fb"] {
        admin.put(&format!("/roles/{name}"), policies.clone()).await.expect(422);
    }
    admin.put("/roles/readers", json!({"policies": []})).await.expect(422);
    for name in ["a", "0", "a.b_c-d", &"a".repeat(64)] {
        admin.put(&format!("/roles/{name}"), policies.clone()).await.expect(201);
    }
}

#[tokio::test]
async fn an_expression_is_checked_without_being_stored() {
    let service = Service::start();
    let admin = service.admin().await;
    let valid =
        admin.post("/policies/check", json!({"expression": "'a' in user.roles"})).await.expect(200).body;
    assert_eq!(valid["valid"], true);
    assert_eq!(valid["errors"], json!([]));
    let invalid = admin.post("/policies/check", json!({"expression": "1 +"})).await.expect(200).body;
    assert_eq!(invalid["valid"], false);
    let error = &invalid["errors"][0];
    assert!(error["line"] == 1 && error["message"].is_string() && error["code"].is_string(), "{error}");
    let huge = "a.".repeat(100_000);
    let answer = admin.post("/policies/check", json!({"expression": huge})).await.expect(200).body;
    assert_eq!(answer["valid"], false);
}

#[tokio::test]
async fn names_of_roles_differ_by_more_than_case() {
    let service = Service::start();
    let admin = service.admin().await;
    let policies = json!({"policies": [{"title": "All", "expression": "true"}]});
    admin.put("/roles/Team.Payments", policies.clone()).await.expect(201);
    admin.put("/roles/Team.Payments", policies.clone()).await.expect(200);
    for other in ["team.payments", "TEAM.PAYMENTS"] {
        let refused = admin.put(&format!("/roles/{other}"), policies.clone()).await.problem(409, "conflict");
        assert_eq!(refused.first_error()["pointer"], "/name");
        assert!(refused.body["detail"].as_str().unwrap().contains("`Team.Payments`"), "{}", refused.body);
        admin.get(&format!("/roles/{other}")).await.problem(404, "not_found");
        let proposal = json!({"role": other, "policies": policies["policies"]});
        let previewed = admin.post("/policies/preview", proposal).await;
        assert_ne!(previewed.status, 200, "{}", previewed.body);
    }
    admin.put("/roles/Admin", json!({"policies": []})).await.problem(422, "invalid_value");
    admin.put("/roles/Admin", policies.clone()).await.problem(409, "conflict");

    // Users get the role with its stored spelling.
    let ada = json!({"username": "ada", "roles": ["TEAM.payments"]});
    let roles = admin.post("/users", ada).await.expect(201).body["roles"].clone();
    assert_eq!(roles, json!(["Team.Payments"]));
    let both = json!({"roles": ["team.payments", "Team.Payments"]});
    assert_eq!(admin.patch("/users/ada", both).await.expect(200).body["roles"], json!(["Team.Payments"]));
    assert_eq!(admin.get("/roles/Team.Payments").await.expect(200).body["members"], json!(["ada"]));
    let preview = json!({"roles": ["team.PAYMENTS"]});
    let preview = admin.put("/me/preview", preview).await.expect(200).body["preview"].clone();
    assert_eq!(preview["roles"], json!(["Team.Payments"]));
    admin.patch("/users/ada", json!({"roles": ["Team-Payments"]})).await.problem(422, "unknown_role");

    // An API key cannot appoint administrators, whatever the case of the role's name.
    let key = admin.post("/me/api-keys", json!({"name": "x"})).await.expect(201).body;
    let key = service.anonymous().with_key(key["token"].as_str().unwrap());
    for name in ["admin", "Admin", "ADMIN"] {
        let eve = json!({"username": "eve", "roles": [name]});
        key.post("/users", eve).await.problem(403, "session_required");
        key.patch("/users/ada", json!({"roles": [name]})).await.problem(403, "session_required");
    }
    let roles = json!({"roles": ["ADMIN"]});
    assert_eq!(admin.patch("/users/ada", roles).await.expect(200).body["roles"], json!(["admin"]));

    // No two roles of a file may differ only by case.
    let exported = admin.get("/schema/export").await.expect(200);
    let tag = exported.headers["etag"].to_str().unwrap();
    let importer = admin.with("if-match", tag);
    for name in ["team.payments", "aDMIN"] {
        let mut file = exported.body.clone();
        file["roles"].as_array_mut().unwrap().push(json!({"name": name, "policies": policies["policies"]}));
        for answer in
            [importer.put("/schema/import", file.clone()).await, admin.post("/schema/plan", file).await]
        {
            let refused = answer.problem(409, "conflict");
            let pointer = refused.first_error()["pointer"].as_str().unwrap();
            assert!(pointer.starts_with("/roles/") && pointer.ends_with("/name"), "{pointer}");
            assert!(refused.body["detail"].as_str().unwrap().contains("only by case"), "{}", refused.body);
        }
    }
    // Tests look up roles like assignments do, ignoring case.
    let mut file = exported.body.clone();
    file["users"] = json!([{"username": "u", "roles": ["TEAM.PAYMENTS"]}]);
    file["tests"] = json!([{"name": "sees", "user": "u", "spans": [{}], "visible": true}]);
    let plan = admin.post("/schema/plan", file).await.expect(200).body;
    assert_eq!(plan["tests"], json!({"passed": 1, "failed": []}), "{plan}");
    // A name with another case is a new role, without members.
    let mut file = exported.body.clone();
    let list = file["roles"].as_array_mut().unwrap();
    list.iter_mut().find(|role| role["name"] == "Team.Payments").unwrap()["name"] = json!("team.payments");
    importer.put("/schema/import", file).await.expect(200);
    assert_eq!(admin.get("/roles/team.payments").await.expect(200).body["members"], json!([]));
}
