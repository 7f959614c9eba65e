//! The history of the access model, and restoring earlier versions.

use super::*;

#[tokio::test]
async fn the_history_says_who_changed_what_and_each_change_can_be_restored() {
    let store = Store::start();
    let (service, admin) = bound_service(&store, &[]).await;
    let eve = service.user(&admin, "eve", &["admin"]).await;
    let mut files = vec![export_as(&admin, "application/yaml").await];
    let role = |expression: &str| json!({"policies": [{"title": "Blue", "expression": expression}]});
    eve.put("/roles/blue", role("SpanAttributes[\"team\"] == \"blue\"")).await.expect(201);
    files.push(export_as(&admin, "application/yaml").await);
    eve.put("/roles/blue", role("ServiceName == \"shop\"")).await.expect(200);
    files.push(export_as(&admin, "application/yaml").await);
    import(&admin, &model_with_tests()).await.expect(200);
    files.push(export_as(&admin, "application/yaml").await);
    admin.delete("/roles/blue").await.expect(204);
    files.push(export_as(&admin, "application/yaml").await);
    // The first version, in which no table was bound.
    files.push((
        String::from_utf8(
            admin.with("accept", "application/yaml").get("/schema/history/1").await.expect(200).bytes,
        )
        .unwrap(),
        "\"1\"".to_owned(),
    ));

    let history = admin.get("/schema/history").await.expect(200).body;
    let listed: Vec<(&str, &str, String)> = history["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            (
                entry["action"].as_str().unwrap(),
                entry["by"]["username"].as_str().unwrap(),
                entry["summary"].to_string(),
            )
        })
        .collect();
    let expected = [
        ("role.delete", "admin", "[\"role `blue` with 2 policies removed\"]"),
        ("model.import", "admin", ""),
        ("role.put", "eve", "[\"role `blue`: policy `Blue` changed\"]"),
        ("role.put", "eve", "[\"role `blue` with 1 policy added\"]"),
        ("schema.put_fields", "admin", ""),
        ("schema.put_binding", "admin", "[\"table `otel.otel_traces` bound\"]"),
        ("upgrade", "", "[]"),
    ];
    assert_eq!(listed.len(), expected.len(), "{listed:?}");
    for (listed, expected) in listed.iter().zip(expected) {
        assert_eq!((listed.0, listed.1), (expected.0, expected.1));
        assert!(expected.2.is_empty() || listed.2 == expected.2, "{listed:?}");
    }
    assert_eq!(history["changes"][2]["target"], "blue");

    // Paging returns the same changes.
    let mut cursor = String::new();
    let mut paged = Vec::new();
    loop {
        let page = admin.get(&format!("/schema/history?limit=2{cursor}")).await.expect(200).body;
        paged.extend(page["changes"].as_array().unwrap().clone());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(json!(paged), history["changes"]);
    admin.get("/schema/history?cursor=x").await.problem(400, "invalid_cursor");

    for (text, tag) in files.iter().rev().chain(&files) {
        let change = tag.trim_matches('"');
        // The history returns exactly the file of this version.
        let at = admin
            .with("accept", "application/yaml")
            .get(&format!("/schema/history/{change}"))
            .await
            .expect(200);
        assert_eq!(String::from_utf8(at.bytes).unwrap(), *text);
        let detail = admin.get(&format!("/schema/history/{change}")).await.expect(200).body;
        // The `file` in the answer can be sent back unchanged.
        admin.post("/schema/plan", detail["file"].clone()).await.expect(200);
        let (_, now) = export_as(&admin, "application/yaml").await;
        let restored = admin
            .with("if-match", &now)
            .send(Method::POST, &format!("/schema/history/{change}/restore"), None)
            .await
            .expect(200);
        assert_eq!(export_as(&admin, "application/yaml").await.0, *text, "{}", restored.body);
        let record = last_record(&admin).await;
        assert_eq!(
            (&record["action"], &record["target"]),
            (&json!("model.restore"), &json!(change)),
            "{record}"
        );
    }
    admin
        .with("if-match", "*")
        .send(Method::POST, "/schema/history/999/restore", None)
        .await
        .problem(404, "not_found");
    admin.get("/schema/history/999").await.problem(404, "not_found");
    admin.get("/schema/history/0").await.problem(404, "not_found");
    admin.get("/schema/history/18446744073709551615").await.problem(404, "not_found");
    admin.get("/schema/history/x").await.problem(400, "invalid_request");
    let numbers = numbers(&admin.get("/schema/history?limit=100").await.expect(200).body);
    assert!(numbers.is_sorted_by(|later, earlier| *later == earlier + 1), "{numbers:?}");
}

#[tokio::test]
async fn a_restored_role_reports_its_former_members() {
    let service = Service::start();
    let admin = service.admin().await;
    let policies = json!({"policies": [{"title": "All", "expression": "true"}]});
    admin.put("/roles/all", policies).await.expect(201);
    admin.post("/users", json!({"username": "ada", "roles": ["all"]})).await.expect(201);
    let (_, change) = export(&admin).await;
    admin.delete("/roles/all").await.expect(204);
    let path = format!("/schema/history/{}/restore", change.trim_matches('"'));
    let restored = admin.with("if-match", "*").send(Method::POST, &path, None).await.expect(200).body;
    let note = restored["notes"][0].as_str().unwrap();
    assert!(note.starts_with("no user has `all`"), "{note}");
    assert_eq!(admin.get("/users/ada").await.expect(200).body["roles"], json!([]));
}
