//! `/schema`, `/filter/schema`, and policies over marked fields.

use serde_json::{Value, json};

use crate::support::store::{Store, binding, bound_service};

#[tokio::test]
async fn a_table_is_found_bound_and_marked() {
    let store = Store::start();
    store.insert_two_traces().await;
    let service = store.service();
    let admin = service.admin().await;
    let empty = admin.get("/schema").await.expect(200);
    assert_eq!(empty.body["binding"], Value::Null);
    assert_eq!(empty.body["fields"], json!([]));

    let tables = admin.get("/schema/tables").await.expect(200).body;
    let table =
        tables["tables"].as_array().unwrap().iter().find(|table| table["name"] == "otel_traces").unwrap();
    assert_eq!(table["proposal"]["trace_id"], "TraceId", "{table}");
    assert_eq!(table["rows"], 6);

    let detail = admin.get("/schema/tables/otel/otel_traces").await.expect(200).body;
    let column =
        detail["columns"].as_array().unwrap().iter().find(|column| column["name"] == "ServiceName").unwrap();
    assert_eq!(column["logical_types"], json!(["string"]));
    let map = detail["maps"].as_array().unwrap().iter().find(|map| map["map"] == "SpanAttributes").unwrap();
    assert!(
        map["keys"].as_array().unwrap().iter().any(|key| key["name"] == "team" && key["rows"] == 6),
        "{map}"
    );
    admin.get("/schema/tables/otel/nothing").await.problem(404, "not_found");

    // The proposal can be sent back unchanged.
    let bound = admin.put("/schema/binding", table["proposal"].clone()).await.expect(200);
    assert_eq!(bound.body["binding"]["table"], "otel_traces");
    assert!(bound.body["warnings"].is_array());
    let version = bound.headers["etag"].to_str().unwrap();
    assert_eq!(admin.get("/schema").await.expect(200).headers["etag"], version);
}

#[tokio::test]
async fn the_version_guards_against_lost_updates() {
    let store = Store::start();
    let (_service, admin) = bound_service(&store, &[]).await;
    let model = admin.get("/schema").await.expect(200);
    let version = model.headers["etag"].to_str().unwrap();
    let fields = json!({"fields": []});
    admin.put("/schema/fields", fields.clone()).await.problem(428, "precondition_required");
    admin.put("/schema/binding", binding()).await.problem(428, "precondition_required");
    admin
        .with("if-match", "\"0\"")
        .put("/schema/fields", fields.clone())
        .await
        .problem(412, "precondition_failed");
    admin
        .with("if-match", "\"0\"")
        .put("/schema/binding", binding())
        .await
        .problem(412, "precondition_failed");
    let changed = admin.with("if-match", version).put("/schema/fields", fields).await.expect(200);
    assert_ne!(changed.headers["etag"], version);
    assert!(changed.body["version"].as_u64().unwrap() > model.body["version"].as_u64().unwrap());
}

#[tokio::test]
async fn fields_without_a_policy_name_are_not_usable_in_policies() {
    let store = Store::start();
    let columns = "Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, \
        `user` Map(String, String), `in` String, `http-status` String, `Events.Name` String, Fine Map(String, String)";
    store.run(&format!("CREATE TABLE otel.odd ({columns}) ENGINE = MergeTree ORDER BY Timestamp")).await;
    let service = store.service();
    let admin = service.admin().await;
    let mut odd = binding();
    odd["table"] = json!("odd");
    admin.put("/schema/binding", odd).await.expect(200);
    let admin = admin.with("if-match", "*");
    for mut field in [
        json!({"map": "user", "name": "team", "filterable": true}),
        json!({"name": "in", "filterable": true}),
        json!({"name": "http-status", "filterable": true}),
    ] {
        field["policy"] = json!(true);
        let fields = json!({"fields": [{"name": "TraceId", "filterable": true, "policy": true}, field]});
        let answer = admin.put("/schema/fields", fields).await.problem(422, "invalid_value");
        assert_eq!(answer.first_error()["pointer"], "/fields/1/policy", "{}", answer.body);
        let detail = answer.first_error()["detail"].as_str().unwrap();
        assert!(detail.starts_with("policies cannot reference `"), "{detail}");
        // Filters can still use the field.
        field["policy"] = json!(false);
        admin.put("/schema/fields", json!({"fields": [field]})).await.expect(200);
    }
    let fields = json!({"fields": [
        {"name": "Events.Name", "filterable": true, "policy": true},
        {"map": "Fine", "name": "in", "filterable": true, "policy": true},
    ]});
    admin.put("/schema/fields", fields).await.expect(200);
    let policies =
        json!({"policies": [{"title": "t", "expression": "Events.Name == 'a' || Fine['in'] == 'b'"}]});
    admin.put("/roles/odd", policies.clone()).await.problem(412, "precondition_failed");
    admin.without("if-match").put("/roles/odd", policies).await.expect(201);
}

#[tokio::test]
async fn if_match_any_requires_a_bound_table() {
    let store = Store::start();
    let service = store.service();
    let admin = service.admin().await;
    let any = admin.with("if-match", "*");
    let fields = json!({"fields": [{"name": "ServiceName", "filterable": true, "policy": true}]});
    any.put("/schema/binding", binding()).await.problem(412, "precondition_failed");
    any.put("/schema/fields", fields.clone()).await.problem(412, "precondition_failed");
    admin.put("/schema/binding", binding()).await.expect(200);
    any.put("/schema/binding", binding()).await.expect(200);
    any.put("/schema/fields", fields).await.expect(200);
}

#[tokio::test]
async fn bindings_and_fields_that_cannot_work_are_refused() {
    let store = Store::start();
    let (_service, admin) = bound_service(&store, &[]).await;
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    let admin = admin.with("if-match", &version);
    let mut wrong = binding();
    wrong["trace_id"] = json!("TraceID");
    let answer = admin.put("/schema/binding", wrong).await.expect(422);
    assert_eq!(answer.first_error()["pointer"], "/trace_id", "{}", answer.body);
    let mut wrong = binding();
    wrong["timestamp"] = json!("SpanName");
    let answer = admin.put("/schema/binding", wrong).await.expect(422);
    assert_eq!(answer.first_error()["pointer"], "/timestamp", "{}", answer.body);

    let field = |field: Value| json!({"fields": [field]});
    let number = field(json!({"name": "Duration", "filterable": true, "policy": true}));
    admin.put("/schema/fields", number).await.expect(422);
    let unknown = field(json!({"name": "Servicename", "filterable": true, "policy": false}));
    let answer = admin.put("/schema/fields", unknown).await.problem(422, "unknown_field");
    assert!(answer.body.to_string().contains("ServiceName"), "{}", answer.body);
    let wrong_type =
        field(json!({"name": "ServiceName", "type": "number", "filterable": true, "policy": false}));
    admin.put("/schema/fields", wrong_type).await.expect(422);
    let misspelt = field(json!({"name": "ServiceName", "type": "text", "filterable": true, "policy": false}));
    let answer = admin.put("/schema/fields", misspelt).await.problem(400, "invalid_request");
    assert_eq!(answer.first_error()["pointer"], "/fields/0/type");
    assert_eq!(admin.get("/schema").await.expect(200).headers["etag"], version.as_str());
}

#[tokio::test]
async fn fields_used_by_a_policy_cannot_be_removed() {
    let store = Store::start();
    let (_service, admin) = bound_service(&store, &[]).await;
    let policies =
        json!({"policies": [{"title": "Blue", "expression": "SpanAttributes[\"team\"] == \"blue\""}]});
    admin.put("/roles/blue", policies).await.expect(201);
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    let answer = admin.with("if-match", &version).put("/schema/fields", json!({"fields": []})).await;
    let answer = answer.problem(409, "conflict");
    assert!(answer.body.to_string().contains("blue"), "{}", answer.body);
}

#[tokio::test]
async fn policies_name_marked_fields_only_and_no_numbers() {
    let store = Store::start();
    let (_service, admin) = bound_service(&store, &[]).await;
    for expression in [
        "SpanName == \"x\"",
        "Duration > 1",
        "SpanAttributes[\"size\"] == \"1\"",
        "SpanAttributes[\"other\"] == \"1\"",
    ] {
        let policies = json!({"policies": [{"title": "x", "expression": expression}]});
        let answer = admin.put("/roles/x", policies).await.expect(422);
        assert_eq!(answer.first_error()["pointer"], "/policies/0/expression", "{expression}");
        let check = admin.post("/policies/check", json!({"expression": expression})).await.expect(200).body;
        assert_eq!(check["valid"], false, "{expression}");
    }
    let check = admin
        .post("/policies/check", json!({"expression": "ServiceName == \"shop\""}))
        .await
        .expect(200)
        .body;
    assert_eq!(check["fields"], json!(["ServiceName"]));
    assert!(check["predicate"].as_str().unwrap().contains("ServiceName"), "{check}");
}

#[tokio::test]
async fn the_filter_schema_depends_on_the_caller() {
    let store = Store::start();
    let (service, admin) = bound_service(&store, &[("TRACEWARDEN_MAX_VALUES", "7")]).await;
    let full = admin.get("/filter/schema").await.expect(200).body;
    assert_eq!(full["limits"], json!({"max_conditions": 20, "max_values": 7, "max_limit": 200}));
    assert!(full["description"].as_str().is_some_and(|text| !text.is_empty()));
    let team = &full["fields"][0];
    let expected = json!({"map": "SpanAttributes", "name": "team", "ref": "SpanAttributes[\"team\"]", "type": "string",
        "operators": ["eq", "ne", "in", "not_in", "prefix", "exists", "not_exists"], "filterable": true, "policy": true});
    assert_eq!(team, &expected);
    assert_eq!(full["fields"].as_array().unwrap().len(), 5);

    let ada = service.user(&admin, "ada", &[]).await;
    let theirs = ada.get("/filter/schema").await.expect(200).body;
    assert_eq!(theirs["version"], full["version"]);
    assert_eq!(theirs["fields"].as_array().unwrap().len(), 4);
    assert!(!theirs.to_string().contains("secret.label"));
    assert!(theirs["fields"][0].get("filterable").is_none() && theirs["fields"][0].get("policy").is_none());
    let column =
        theirs["fields"].as_array().unwrap().iter().find(|field| field["name"] == "ServiceName").unwrap();
    assert_eq!((&column["map"], &column["ref"]), (&json!(""), &json!("ServiceName")));
}

#[tokio::test]
async fn samples_can_be_turned_off() {
    let store = Store::start();
    store.insert_two_traces().await;
    let service = store.service_with(&[("TRACEWARDEN_DISCOVERY_SAMPLES", "false")]);
    let detail = service.admin().await.get("/schema/tables/otel/otel_traces").await.expect(200);
    assert_eq!(detail.body["sampled"], false);
    assert!(!String::from_utf8_lossy(&detail.bytes).contains("blue"));
}
