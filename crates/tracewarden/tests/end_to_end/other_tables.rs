//! Tables other than the OpenTelemetry exporter's: other names, types and timestamp precision.

use serde_json::{Value, json};

use crate::support::Client;
use crate::support::store::Store;

/// Returns all trace ids of a query, in pages of two traces, and the summaries.
async fn ids_and_summaries(client: &Client) -> (Vec<String>, Vec<Value>) {
    let (mut ids, mut summaries, mut cursor) = (Vec::new(), Vec::new(), Value::Null);
    loop {
        let mut query = json!({"limit": 2, "view": "summary"});
        if cursor.is_string() {
            query["cursor"] = cursor.clone();
        }
        let page = client.post("/traces/query", query).await.expect(200).body;
        for summary in page["traces"].as_array().unwrap() {
            ids.push(summary["trace_id"].as_str().unwrap().to_owned());
            summaries.push(summary.clone());
        }
        cursor = page["next_cursor"].clone();
        if !cursor.is_string() {
            return (ids, summaries);
        }
    }
}

#[tokio::test]
async fn every_supported_type_of_structural_column_works() {
    let store = Store::start();
    let service = store.service();
    let admin = service.admin().await;
    store.run("CREATE DATABASE IF NOT EXISTS shop").await;
    let shapes = [
        (
            "seconds",
            "DateTime",
            "LowCardinality(String)",
            "Nullable(String)",
            "UInt32",
            "LowCardinality(Nullable(String))",
        ),
        (
            "zoned",
            "DateTime('America/New_York')",
            "Nullable(String)",
            "String",
            "Float64",
            "Nullable(Enum8('Ok' = 1, 'Error' = 2))",
        ),
        (
            "milliseconds",
            "DateTime64(3, 'Asia/Tokyo')",
            "LowCardinality(Nullable(String))",
            "LowCardinality(String)",
            "Int64",
            "Nullable(FixedString(5))",
        ),
        ("microseconds", "DateTime64(6)", "String", "String", "UInt64", "Nullable(String)"),
        ("odd", "DateTime64(7)", "String", "Nullable(String)", "Float32", "Nullable(Enum16('Error' = 1000))"),
    ];
    for (table, time, trace, span, duration, status) in shapes {
        store
            .run(&format!(
                "CREATE TABLE shop.{table} (`start time` {time}, trace_id {trace}, span_id {span}, parent_id {span}, \
                 `group` LowCardinality(Nullable(String)), labels Map(String, Nullable(String)), duration {duration}, \
                 status {status}) ENGINE = MergeTree ORDER BY tuple() SETTINGS allow_nullable_key = 1"
            ))
            .await;
        // Five traces of two spans, a second apart; the even ones belong to the team blue because of their second span.
        store
            .run(&format!(
                "INSERT INTO shop.{table} SELECT now() - 100 + intDiv(number, 2), concat('trace ', toString(intDiv(number, 2))), \
                 toString(number), if(number % 2 = 0, '', toString(number - 1)), if(number % 4 = 1, 'blue', NULL), \
                 mapFilter((k, v) -> isNotNull(v), map('team', if(number % 4 = 1, 'blue', NULL))), 5, if(number % 2 = 0, 'Error', NULL) FROM numbers(10)"
            ))
            .await;
        store.run(&format!("INSERT INTO shop.{table} (`start time`, trace_id, span_id, `group`) SELECT now() - 50, '', '1', 'blue'")).await;
        let binding = json!({"database": "shop", "table": table, "trace_id": "trace_id", "span_id": "span_id",
            "timestamp": "start time", "parent_span_id": "parent_id", "display": {"duration": "duration", "status": "status"}});
        let tag = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
        admin.delete("/roles/blue").await;
        let tag = if tag == "\"0\"" {
            tag
        } else {
            let cleared =
                admin.with("if-match", &tag).put("/schema/fields", json!({"fields": []})).await.expect(200);
            cleared.headers["etag"].to_str().unwrap().to_owned()
        };
        let bound = admin.with("if-match", &tag).put("/schema/binding", binding).await.expect(200);
        let fields = json!({"fields": [
            {"name": "group", "filterable": true, "policy": true},
            {"map": "labels", "name": "team", "filterable": true, "policy": true},
            {"name": "start time", "filterable": true, "policy": false},
            {"name": "duration", "filterable": true, "policy": false},
        ]});
        let version = bound.headers["etag"].to_str().unwrap();
        admin.with("if-match", version).put("/schema/fields", fields).await.expect(200);
        for expression in ["group == \"blue\"", "labels[\"team\"] == \"blue\"", "\"team\" in labels"] {
            let policies = json!({"policies": [{"title": "Blue", "expression": expression}]});
            admin.put("/roles/admin", policies).await.expect(200);
            let (ids, summaries) = ids_and_summaries(&admin).await;
            assert_eq!(ids, ["trace 4", "trace 2", "trace 0"], "{table}, {expression}");
            for summary in &summaries {
                assert_eq!(summary["span_count"], 2, "{table}: {summary}");
                assert_eq!(summary["error_count"], 1, "{table}: {summary}");
                assert_eq!(summary["duration_nanos"], 5, "{table}: {summary}");
            }
        }
        let whole = admin.get("/traces/trace%202").await.expect(200).body;
        assert_eq!(whole["spans"].as_array().unwrap().len(), 2, "{table}");
        // The answer names the columns that pages display, since they have other names here.
        let display = &whole["schema"]["display"];
        assert_eq!((&display["duration"], &display["status"]), (&json!("duration"), &json!("status")));
        let at = whole["spans"][0]["start time"].as_str().unwrap();
        assert!(at.ends_with('Z'), "{table}: {at}");
        admin.get("/traces/trace%201").await.problem(404, "trace_not_found");
        let seconds = json!({"view": "ids", "filter": {"conditions": [
            {"name": "start time", "op": "gt", "value": 1_700_000_000},
            {"name": "duration", "op": "between", "values": [4.5, 5]},
            {"map": "labels", "name": "team", "op": "not_exists"},
        ]}});
        let found = admin.post("/traces/query", seconds).await.expect(200).body;
        assert_eq!(found["trace_ids"].as_array().unwrap().len(), 3, "{table}: {found}");
        admin.put("/roles/admin", json!({"policies": []})).await.expect(200);
    }
}
