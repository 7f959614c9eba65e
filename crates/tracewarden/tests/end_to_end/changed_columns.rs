//! Columns that change after their fields were marked: a read is correct, or rejected with advice, and never a guess.

use serde_json::{Value, json};

use crate::support::Client;
use crate::support::store::Store;

async fn visible_traces(client: &Client) -> String {
    let found = client.post("/traces/query", json!({"view": "ids"})).await.expect(200).body;
    let mut ids: Vec<&str> =
        found["trace_ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.concat()
}

/// Marks the same fields again.
async fn mark_again(admin: &Client) -> String {
    let schema = admin.get("/schema").await.expect(200);
    let fields: Vec<Value> = schema.body["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| {
            let member = |name: &str| field[name].clone();
            json!({"map": member("map"), "name": member("name"), "type": member("type"), "filterable": member("filterable"), "policy": member("policy")})
        })
        .collect();
    let tag = schema.headers["etag"].to_str().unwrap();
    let marked =
        admin.with("if-match", tag).put("/schema/fields", json!({ "fields": fields })).await.expect(200);
    marked.body["fields"][0]["column_type"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_column_with_a_changed_type_is_read_correctly_or_denies_access() {
    let store = Store::start();
    store
        .run(
            "CREATE TABLE otel.changing (Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, \
             Label String, Other String, Labels Map(String, String)) ENGINE = MergeTree ORDER BY Timestamp",
        )
        .await;
    store
        .run(
            "INSERT INTO otel.changing SELECT now64(9) - 60, substring('abc', number + 1, 1), toString(number), '', \
             ['open', 'secret', ''][number + 1], 'x', map('k', ['open', 'secret', ''][number + 1]) FROM numbers(3)",
        )
        .await;
    let service = store.service();
    let admin = service.admin().await;
    let binding = json!({"database": "otel", "table": "changing", "trace_id": "TraceId", "span_id": "SpanId",
        "timestamp": "Timestamp", "parent_span_id": "ParentSpanId"});
    let bound = admin.put("/schema/binding", binding).await.expect(200);
    let fields = json!({"fields": [
        {"name": "Label", "filterable": false, "policy": true},
        {"map": "Labels", "name": "k", "filterable": true, "policy": true},
        {"name": "Other", "filterable": true, "policy": true},
    ]});
    admin
        .with("if-match", bound.headers["etag"].to_str().unwrap())
        .put("/schema/fields", fields)
        .await
        .expect(200);
    // Negations: if a column were misinterpreted, these policies would grant access.
    let role = |expression: &str| json!({"policies": [{"title": "Not secret", "expression": expression}]});
    admin.put("/roles/label", role("!(Label == 'secret')")).await.expect(201);
    // For this user, the compiled policy does not depend on any column.
    admin.put("/roles/folded", role("!(Label in user.attributes.none)")).await.expect(201);
    admin.put("/roles/key", role("Labels.k != 'secret'")).await.expect(201);
    admin.put("/roles/other", role("Other == 'x'")).await.expect(201);
    admin.put("/roles/admin", role("!(Label == 'secret')")).await.expect(200);
    let label = service.user(&admin, "label", &["label"]).await;
    let folded = service.user(&admin, "folded", &["folded"]).await;
    admin.patch("/users/folded", json!({"attributes": {"none": []}})).await.expect(200);
    assert_eq!(visible_traces(&folded).await, "abc");
    let key = service.user(&admin, "key", &["key"]).await;
    let other = service.user(&admin, "other", &["other"]).await;
    let alter = async |change: &str| {
        store.run(&format!("ALTER TABLE otel.changing {change} SETTINGS mutations_sync = 2")).await
    };

    for now in [
        "LowCardinality(String)",
        "String",
        "FixedString(8)",
        "String",
        "Enum8('open' = 1, 'secret' = 2, '' = 3)",
        "Enum16('open' = 1, 'secret' = 2, '' = 3, 'new' = 400)",
    ] {
        alter(&format!("MODIFY COLUMN Label {now}")).await;
        assert_eq!(visible_traces(&label).await, "ac", "{now}");
        label.get("/traces/a").await.expect(200);
        label.get("/traces/b").await.problem(404, "trace_not_found");
    }
    // A name that was not part of the enumeration when the field was marked.
    assert_eq!(mark_again(&admin).await, "Enum('open', 'secret', '', 'new')");
    alter("MODIFY COLUMN Label Enum16('open' = 1, 'secret' = 2, '' = 3, 'new' = 400, 'secret too' = 5)")
        .await;
    admin.put("/roles/label", role("!(Label in ['secret', 'secret too'])")).await.expect(200);
    store.run("INSERT INTO otel.changing (Timestamp, TraceId, SpanId, Label) VALUES (now64(9) - 60, 'd', '4', 'secret too')").await;
    assert_eq!(visible_traces(&label).await, "ac");
    store.run("ALTER TABLE otel.changing DELETE WHERE TraceId = 'd' SETTINGS mutations_sync = 2").await;
    alter("MODIFY COLUMN Label String").await;
    mark_again(&admin).await;

    for (change, now, after) in [
        ("MODIFY COLUMN Label Nullable(String)", "Nullable(String) instead of String", Some("ac")),
        ("MODIFY COLUMN Label String DEFAULT ''", "", Some("ac")),
        (
            "MODIFY COLUMN Label LowCardinality(Nullable(String))",
            "LowCardinality(Nullable(String)) instead of String",
            Some("ac"),
        ),
        ("DROP COLUMN Label", "missing", None),
        ("ADD COLUMN Label Array(String)", "Array(String) instead of LowCardinality(Nullable(String))", None),
    ] {
        alter(change).await;
        if now.is_empty() {
            // A column that is never NULL is compatible with a nullable field.
            assert_eq!(visible_traces(&label).await, after.unwrap(), "{change}");
            mark_again(&admin).await;
            continue;
        }
        for path in ["/traces/a", "/traces/b", "/traces/none"] {
            label.get(path).await.problem(409, "schema_changed");
        }
        folded.post("/traces/query", json!({})).await.problem(409, "schema_changed");
        let denied = label.post("/traces/query", json!({})).await.problem(409, "schema_changed");
        // The field is only usable in policies, so only administrators see its name.
        assert!(!denied.body.to_string().contains("Label"), "{}", denied.body);
        let problem = admin.post("/traces/query", json!({})).await.problem(409, "schema_changed");
        assert_eq!(
            problem.first_error()["detail"],
            format!("mark `Label` again: it is now {now}"),
            "{change}"
        );
        // Users without the field in their policies are not affected.
        assert_eq!(visible_traces(&other).await, "abc", "{change}");
        if let Some(after) = after {
            mark_again(&admin).await;
            assert_eq!(visible_traces(&label).await, after, "{change}");
        }
    }

    assert_eq!(visible_traces(&key).await, "ac");
    alter("MODIFY COLUMN Labels Map(LowCardinality(String), Nullable(String))").await;
    store.run("INSERT INTO otel.changing (Timestamp, TraceId, SpanId, Labels) VALUES (now64(9) - 60, 'e', '5', {'k': NULL})").await;
    assert_eq!(visible_traces(&key).await, "ac", "a NULL is absent, and absent is an error");
    store.run("ALTER TABLE otel.changing DELETE WHERE TraceId = 'e' SETTINGS mutations_sync = 2").await;
    alter("DROP COLUMN Labels").await;
    alter("ADD COLUMN Labels Map(String, Bool)").await;
    let problem = key.post("/traces/query", json!({})).await.problem(409, "schema_changed");
    assert!(
        problem.first_error()["detail"]
            .as_str()
            .unwrap()
            .starts_with("mark `Labels[\"k\"]` again: it is now Bool"),
        "{}",
        problem.body
    );
    let filter = json!({"filter": {"conditions": [{"map": "Labels", "name": "k", "op": "not_exists"}]}});
    for view in ["ids", "summary", "spans"] {
        let mut query = filter.clone();
        query["view"] = view.into();
        other.post("/traces/query", query).await.problem(409, "schema_changed");
    }
    let records = admin.get("/audit?action=traces.query&limit=1").await.expect(200).body;
    assert_eq!(records["records"][0]["outcome"], "failed", "{records}");
}
