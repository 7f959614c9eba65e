//! Key columns, which hold the values of a map's key: they are adopted after a comparison with the data, are then used by
//! policies, and are replaced by the map as soon as they are no longer suitable.

use serde_json::{Value, json};

use crate::support::Client;
use crate::support::store::Store;

const COLUMNS_SQL: &str =
    "if(mapContains(Labels, 'team'), mapValues(Labels)[indexOf(mapKeys(Labels), 'team')], NULL)";

async fn ids_of_matches(client: &Client, conditions: Value) -> String {
    let query = json!({"view": "ids", "filter": {"conditions": conditions}});
    let found = client.post("/traces/query", query).await.expect(200).body;
    let mut ids: Vec<&str> =
        found["trace_ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.concat()
}

/// Marks the key with this column.
fn mark(column: Option<&str>) -> Value {
    let mut field = json!({"map": "Labels", "name": "team", "filterable": true, "policy": true});
    if let Some(column) = column {
        field["column"] = json!(column);
    }
    json!({ "fields": [field, {"map": "Labels", "name": "other", "filterable": true, "policy": false}] })
}

/// Returns the SQL predicate of a policy on the key.
async fn predicate(admin: &Client) -> String {
    let checked = admin.post("/policies/check", json!({"expression": "Labels.team == 'a'"})).await;
    checked.expect(200).body["predicate"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn key_columns_equal_to_the_map_are_adopted() {
    let store = Store::start();
    let table = |name: &str, column: &str| {
        format!(
            "CREATE TABLE otel.{name} (Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, \
             Labels Map(LowCardinality(String), String), Team LowCardinality(Nullable(String)) MATERIALIZED {column}, \
             Plain String DEFAULT 'a') ENGINE = MergeTree ORDER BY Timestamp"
        )
    };
    let insert = async |name: &str| {
        let rows = "SELECT now64(9) - 60, substring('abcd', number + 1, 1), toString(number), '', \
            [map('team', 'a'), map('team', 'b'), map('none', ''), map('team', '')][number + 1] FROM numbers(4)";
        let columns = "(Timestamp, TraceId, SpanId, ParentSpanId, Labels)";
        store.run(&format!("INSERT INTO otel.{name} {columns} {rows}")).await;
    };
    let alter = async |change: &str| {
        store.run(&format!("ALTER TABLE otel.held {change} SETTINGS mutations_sync = 2")).await
    };
    // The column contains `a` in every row, from before it was computed from the map.
    store.run(&table("held", "'a'")).await;
    insert("held").await;
    store.run(&table("another", COLUMNS_SQL)).await;
    insert("another").await;

    let service = store.service();
    let admin = service.admin().await;
    let binding = |name: &str| {
        json!({"database": "otel", "table": name, "trace_id": "TraceId", "span_id": "SpanId",
        "timestamp": "Timestamp", "parent_span_id": "ParentSpanId"})
    };
    admin.put("/schema/binding", binding("held")).await.expect(200);
    let any = admin.with("if-match", "*");
    any.put("/schema/fields", mark(None)).await.expect(200);
    let role = json!({"policies": [{"title": "Team a", "expression": "Labels.team == 'a'"}]});
    admin.put("/roles/team", role).await.expect(201);
    let not_b = json!({"policies": [{"title": "Not b", "expression": "Labels.team != 'b'"}]});
    admin.put("/roles/not-b", not_b).await.expect(201);
    let user = service.user(&admin, "user", &["team"]).await;
    let other = service.user(&admin, "other", &["not-b"]).await;
    let both = async || (ids_of_matches(&user, json!([])).await, ids_of_matches(&other, json!([])).await);
    let by_map = ("a".to_owned(), "ad".to_owned());
    assert_eq!(both().await, by_map);

    // An expression of another form; no column; no key.
    for (column, reason) in [
        ("Team", "not the one that a column of `Labels[\"team\"]` must have"),
        ("Plain", "MATERIALIZED if(mapContains("),
        ("Teem", "did you mean `Team`?"),
    ] {
        let refused = any.put("/schema/fields", mark(Some(column))).await.expect(422).body;
        assert_eq!(refused["errors"][0]["pointer"], "/fields/0/column", "{refused}");
        assert!(refused["errors"][0]["detail"].as_str().unwrap().contains(reason), "{refused}");
    }
    let plain = json!({"fields": [{"name": "Plain", "filterable": true, "policy": true, "column": "Team"}]});
    any.put("/schema/fields", plain).await.expect(422);

    // The expression is right, but old parts contain other values: filters use the column, policies do not.
    alter(&format!("MODIFY COLUMN Team LowCardinality(Nullable(String)) MATERIALIZED {COLUMNS_SQL}")).await;
    let refused = any.put("/schema/fields", mark(Some("Team"))).await.expect(422).body;
    assert_eq!(refused["code"], "column_differs", "{refused}");
    let detail = refused["errors"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("in 3 of 4 rows") && detail.contains("MATERIALIZE COLUMN Team"), "{detail}");
    assert_eq!(both().await, by_map);
    let is_a = json!([{"map": "Labels", "name": "team", "op": "eq", "value": "a"}]);
    assert_eq!(
        ids_of_matches(&other, is_a.clone()).await,
        "ad",
        "a filter reads the column at once, old values and all"
    );
    alter("MATERIALIZE COLUMN Team").await;
    assert_eq!(ids_of_matches(&other, is_a.clone()).await, "a");

    // Adopting the column makes a new version of the model, which is returned and recorded.
    assert!(!predicate(&admin).await.contains("Team"));
    let version = admin.get("/schema").await.expect(200).body["version"].as_u64().unwrap();
    let adopted = any.put("/schema/fields", mark(Some("Team"))).await.expect(200).body;
    assert_eq!(adopted["version"], version + 1);
    assert_eq!(adopted["fields"][0]["column"], "Team");
    assert_eq!(adopted["fields"][1].get("column"), None);
    let shown = admin.get("/schema").await.expect(200).body;
    assert_eq!(shown["fields"][0]["column"], "Team");
    let recorded = admin.get("/audit?action=schema.put_fields&limit=1").await.expect(200).body;
    let recorded = recorded["records"][0]["detail"].to_string();
    assert!(recorded.contains("\"column\":\"Team\""), "{recorded}");
    let sql = predicate(&admin).await;
    assert!(sql.contains("`Team` = 'a'") && !sql.contains("`Labels`"), "{sql}");
    assert_eq!(both().await, by_map);
    // Policies use the column now: a value written to it by hand decides.
    store
        .run(
            "INSERT INTO otel.held (Timestamp, TraceId, SpanId, ParentSpanId, Labels, Team) SETTINGS \
             insert_allow_materialized_columns = 1 SELECT now64(9) - 60, 'e', '5', '', map('team', 'b'), 'a'",
        )
        .await;
    assert_eq!(both().await, ("ae".to_owned(), "ade".to_owned()));
    // An adopted column stays adopted without another comparison.
    any.put("/schema/fields", mark(Some("Team"))).await.expect(200);

    // When the expression changes or the column is dropped, policies use the map: without errors, and without granting more
    // access.
    alter("MODIFY COLUMN Team LowCardinality(Nullable(String)) MATERIALIZED 'a'").await;
    insert("held").await;
    assert_eq!(both().await, by_map);
    alter("DROP COLUMN Team").await;
    assert_eq!(both().await, by_map);
    assert_eq!(ids_of_matches(&other, is_a).await, "a");
    any.put("/schema/fields", mark(Some("Team"))).await.expect(422);
    // A field without `column` is no longer adopted.
    let left = any.put("/schema/fields", mark(None)).await.expect(200).body;
    assert_eq!(left["fields"][0].get("column"), None);

    // The column of another table has not been compared.
    any.put("/schema/binding", binding("another")).await.expect(200);
    any.put("/schema/fields", mark(Some("Team"))).await.expect(200);
    let bound = any.put("/schema/binding", binding("another")).await.expect(200).body;
    assert_eq!(
        (&bound["fields"][0]["column"], &bound["warnings"].as_array().unwrap().len()),
        (&json!("Team"), &1)
    );
    let bound = any.put("/schema/binding", binding("held")).await.expect(200).body;
    assert_eq!(bound["fields"][0].get("column"), None);
    let warnings = bound["warnings"].to_string();
    assert!(warnings.contains("column `Team` of `Labels[\\\"team\\\"]` is no longer adopted"), "{warnings}");
}
