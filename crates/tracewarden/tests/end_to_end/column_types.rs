//! A table with columns of every supported type: the results of each policy and condition, and that all answers are valid
//! JSON.

mod cases;

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::Client;
use crate::support::store::Store;
use cases::cases;

const COLUMNS: &str = "
    `Timestamp` DateTime64(9), `TraceId` String, `SpanId` String, `ParentSpanId` String,
    `Fixed` FixedString(4), `Kind` Enum8('server' = 1, 'client' = 2, 'it\\'s' = -3, '' = 0),
    `NKind` Nullable(Enum16('a, b' = 1000, 'c' = 2)), `Id` UUID, `NId` Nullable(UUID),
    `Lc` LowCardinality(Nullable(String)), `LcFixed` LowCardinality(FixedString(4)),
    `Flag` Bool, `NFlag` Nullable(Bool), `Count` Nullable(Int64), `Ratio` Float32, `At` DateTime64(3, 'Asia/Tokyo'),
    `Tags` Array(LowCardinality(String)), `NTags` Array(Nullable(String)), `ETags` Array(Enum8('x' = 1, 'y' = 2)),
    `Ids` Array(UUID), `Events.Name` Array(LowCardinality(String)), `Events.Size` Array(UInt8),
    `Links` Array(Tuple(`Rel` Enum8('child' = 1, 'follows' = 2), `Trace` FixedString(4), `n` UInt8)),
    `Text` Map(LowCardinality(String), String), `NText` Map(String, Nullable(String)), `Flags` Map(String, Bool),
    `Numbers` Map(String, Float64), `Lists` Map(String, Array(String)), `Kinds` Map(String, Enum8('x' = 1, 'y' = 2)),
    `Uuids` Map(LowCardinality(String), UUID), `Fixeds` Map(String, FixedString(3)),
    `Doc` JSON, `Typed` JSON(`a.b` String, `flag` Bool, `n` Nullable(UInt64), `ids` Array(LowCardinality(String)))
";

const ID: &str = "61f0c404-5cb3-11e7-907b-a6006ad3dba0";

/// Returns a span for each of four traces: `a` and `b` have different values in every column, `c` as few values as
/// possible, `d` edge cases.
fn rows() -> [Value; 4] {
    let at = "2026-01-01 00:00:00.000000001";
    [
        json!({"Timestamp": at, "TraceId": "a", "SpanId": "1", "Fixed": "ab", "Kind": "server", "NKind": "a, b", "Id": ID, "NId": ID,
            "Lc": "x", "LcFixed": "ab", "Flag": true, "NFlag": true, "Count": 9007199254740993_i64, "Ratio": 0.1, "At": "2026-01-01 00:00:00.500",
            "Tags": ["x", ""], "NTags": ["x", "y"], "ETags": ["x"], "Ids": [ID], "Events.Name": ["start", "end"], "Events.Size": [1, 2],
            "Links": [{"Rel": "child", "Trace": "t", "n": 1}, {"Rel": "follows", "Trace": "u", "n": 2}],
            "Text": {"s": "x", "n": "12", "b": "true", "l": "[\"x\",\"y\"]"}, "NText": {"s": "x"}, "Flags": {"b": true}, "Numbers": {"n": 1.5},
            "Lists": {"l": ["x", "y"]}, "Kinds": {"k": "x"}, "Uuids": {"u": ID}, "Fixeds": {"f": "ab"},
            "Doc": {"team": "blue", "deep": {"flag": true, "n": 3, "tags": ["x", "y"]}, "a \"b\"": "quoted", "we`ird\\": "odd"},
            "Typed": {"a": {"b": "x"}, "flag": true, "n": 18446744073709551615_u64, "ids": ["x"]}}),
        json!({"Timestamp": at, "TraceId": "b", "SpanId": "2", "Fixed": "abcd", "Kind": "it's", "NKind": "c", "Id": "00000000-0000-0000-0000-000000000001",
            "NId": "00000000-0000-0000-0000-000000000001", "Lc": "y", "LcFixed": "abcd", "Flag": false, "NFlag": false, "Count": -5, "Ratio": 7.5,
            "At": "2025-01-01 00:00:00.000", "Tags": ["y"], "NTags": ["y"], "ETags": ["x", "y"], "Ids": ["00000000-0000-0000-0000-000000000001"],
            "Events.Name": ["other"], "Events.Size": [3], "Links": [{"Rel": "follows", "Trace": "tttt", "n": 1}],
            "Text": {"s": "y", "n": "-1.5", "b": "false", "l": "[]"}, "NText": {"s": "y"}, "Flags": {"b": false}, "Numbers": {"n": -2},
            "Lists": {"l": []}, "Kinds": {"k": "y"}, "Uuids": {"u": "00000000-0000-0000-0000-000000000001"}, "Fixeds": {"f": "abc"},
            "Doc": {"team": "red", "deep": {"flag": false, "n": 2.5, "tags": ["y"]}, "a \"b\"": "other", "we`ird\\": "other"},
            "Typed": {"a": {"b": "y"}, "flag": false, "n": 7, "ids": ["y", "z"]}}),
        json!({"Timestamp": at, "TraceId": "c", "SpanId": "3", "Kind": ""}),
        json!({"Timestamp": at, "TraceId": "d", "SpanId": "4", "Fixed": "a\u{0}b", "Kind": "client", "NKind": null, "Lc": null, "LcFixed": "\u{0}a",
            "Ratio": "nan", "Count": i64::MIN, "Tags": ["\u{0}"], "NTags": ["x", null], "ETags": ["y"],
            "Text": {"s": "line\nbreak", "n": "12 ", "b": "True", "l": "[\"x\", 1]"}, "NText": {"s": null}, "Numbers": {"n": "nan", "i": "inf"},
            "Lists": {"l": ["\u{1}"]}, "Fixeds": {"f": "\u{0}"},
            "Doc": {"team": 5, "deep": {"flag": "true", "n": "3", "tags": ["x", null]}, "a \"b\"": ["quoted"], "we`ird\\": {"x": 1}},
            "Typed": {"a": {"b": "\"\n"}}}),
    ]
}

async fn traces(client: &Client, conditions: Value) -> String {
    let query = json!({"view": "ids", "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "filter": {"conditions": conditions}});
    let found = client.post("/traces/query", query).await.expect(200).body;
    let mut ids: Vec<&str> =
        found["trace_ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.concat()
}

/// Creates and binds the table, and marks the fields `marks`.
async fn every_type(store: &Store, admin: &Client, marks: Vec<Value>) -> Value {
    store.run(&format!("CREATE TABLE otel.every ({COLUMNS}) ENGINE = MergeTree ORDER BY Timestamp")).await;
    let rows: Vec<String> = rows().iter().map(ToString::to_string).collect();
    store.run(&format!("INSERT INTO otel.every FORMAT JSONEachRow\n{}", rows.join("\n"))).await;
    let binding = json!({"database": "otel", "table": "every", "trace_id": "TraceId", "span_id": "SpanId",
        "timestamp": "Timestamp", "parent_span_id": "ParentSpanId"});
    let bound = admin.put("/schema/binding", binding).await.expect(200);
    let version = bound.headers["etag"].to_str().unwrap();
    admin.with("if-match", version).put("/schema/fields", json!({ "fields": marks })).await.expect(200).body
}

fn mark((map, name): (Option<&str>, &str), logical: Option<&str>, policy: bool) -> Value {
    let mut mark = json!({"name": name, "filterable": true, "policy": policy});
    if let Some(map) = map {
        mark["map"] = map.into();
    }
    if let Some(logical) = logical {
        mark["type"] = logical.into();
    }
    mark
}

/// Gives the user's role this policy only, and describes how the visible traces differ from the expected ones.
async fn access_mismatch(
    admin: &Client,
    (name, user): (&str, &Client),
    expression: &str,
    expected: &str,
) -> Option<String> {
    let policy = json!({"policies": [{"title": "One", "expression": expression}]});
    let put = admin.put(&format!("/roles/{name}"), policy).await;
    if put.status != 200 {
        return Some(format!("{expression}: {}", put.body));
    }
    let found = traces(user, json!([])).await;
    // A fetch by id must agree. Fetches of inaccessible traces are delayed on purpose.
    let (visible_id, hidden_id) =
        ("abcd".chars().find(|id| expected.contains(*id)), "abcd".chars().find(|id| !expected.contains(*id)));
    let fetch = async |id: Option<char>| match id {
        Some(id) => Some(user.get(&format!("/traces/{id}")).await.status),
        None => None,
    };
    let fetched = tokio::join!(fetch(visible_id), fetch(hidden_id));
    let is_expected = found == expected
        && fetched.0.is_none_or(|status| status == 200)
        && fetched.1.is_none_or(|status| status == 404);
    (!is_expected).then(|| format!("{expression}: {found:?} instead of {expected:?}, by id {fetched:?}"))
}

#[tokio::test]
async fn policies_and_filters_mean_the_same_on_columns_of_every_type() {
    let store = Store::start();
    let service = store.service();
    let admin = service.admin().await;
    let cases = cases();
    let marks = cases.iter().map(|case| mark(case.field, case.logical, case.resulting_type != "number"));
    let marks = marks.chain([mark((None, "TraceId"), None, true)]).collect();
    let model = every_type(&store, &admin, marks).await;
    for (case, marked) in cases.iter().zip(model["fields"].as_array().unwrap()) {
        assert_eq!(marked["type"], case.resulting_type, "{marked}");
    }

    let all = json!({"policies": [{"title": "All", "expression": "TraceId != ''"}]});
    admin.put("/roles/all", all).await.expect(201);
    let reader = service.user(&admin, "reader", &["all"]).await;
    assert_eq!(traces(&reader, json!([])).await, "abcd");
    let mut conditions = 0;
    let mut wrong = Vec::new();
    for case in &cases {
        for (condition, expected) in &case.conditions {
            let mut condition = condition.clone();
            condition["name"] = case.field.1.into();
            if let Some(map) = case.field.0 {
                condition["map"] = map.into();
            }
            let found = traces(&reader, json!([condition])).await;
            if found != *expected {
                wrong.push(format!("{condition}: {found:?} instead of {expected:?}"));
            }
            conditions += 1;
        }
    }
    // Requests for inaccessible traces are delayed on purpose, so several run concurrently.
    let all: Vec<_> = cases.iter().flat_map(|case| case.policies).collect();
    let found = ["ada", "bob", "cid", "dan"].into_iter().enumerate().map(async |(at, name)| {
        admin
            .put(&format!("/roles/{name}"), json!({"policies": [{"title": "None", "expression": "false"}]}))
            .await
            .expect(201);
        let user = service.user(&admin, name, &[name]).await;
        let mut wrong = Vec::new();
        for (expression, expected) in all.iter().skip(at).step_by(4) {
            wrong.extend(access_mismatch(&admin, (name, &user), expression, expected).await);
        }
        wrong
    });
    wrong.extend(join_all(found).await.into_iter().flatten());
    let policies = all.len();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(policies > 80 && conditions > 120, "{policies} policies, {conditions} conditions");
}

#[tokio::test]
async fn answers_are_json_whatever_the_columns_hold() {
    let store = Store::start();
    let service = store.service();
    let admin = service.admin().await;
    every_type(&store, &admin, vec![mark((None, "TraceId"), None, true)]).await;
    // Invalid UTF-8 in every kind of string; a map with a duplicate key.
    store
        .run(
            "INSERT INTO otel.every (Timestamp, TraceId, Fixed, LcFixed, Lc, Tags, Text, Numbers, Doc) SELECT \
             toDateTime64('2026-01-01', 9), 'e', unhex('FF00FE01'), unhex('FFFF'), unhex('C3'), [unhex('80')], \
             map('k', unhex('FF'), 'k', 'second'), map('x', nan, 'y', -inf), '{\"n\": 1e300, \"s\": \"\\\\u0000\"}'::JSON",
        )
        .await;
    admin
        .put("/roles/admin", json!({"policies": [{"title": "All", "expression": "TraceId != ''"}]}))
        .await
        .expect(200);
    let window = json!({"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"});
    let all = admin.post("/traces/query", window.clone()).await.expect(200);
    let spans: BTreeMap<&str, &Value> = all.body["spans"]
        .as_array()
        .unwrap()
        .iter()
        .map(|span| (span["TraceId"].as_str().unwrap(), span))
        .collect();
    assert_eq!(spans.len(), 5);
    let a = spans["a"];
    assert_eq!((&a["Kind"], &a["Id"], &a["Flag"]), (&json!("server"), &json!(ID), &json!(true)));
    assert_eq!(a["Fixed"], "ab\u{0}\u{0}", "as it is stored: filled up");
    assert_eq!(a["Doc"]["deep"]["tags"], json!(["x", "y"]));
    assert_eq!(a["Typed"]["n"], u64::MAX);
    assert_eq!(a["Count"], 9007199254740993_i64);
    assert_eq!(spans["d"]["Numbers"], json!({"n": null, "i": null}), "numbers that JSON does not have");
    assert_eq!(spans["d"]["NKind"], Value::Null);

    // Column by column, as projections, and as NDJSON.
    let columns: Vec<&String> = a.as_object().unwrap().keys().collect();
    for column in columns {
        let mut query = window.clone();
        query["columns"] = json!([column]);
        let found = admin.post("/traces/query", query).await.expect(200).body;
        let found = found["spans"].as_array().unwrap();
        assert_eq!(found.len(), 5, "{column}");
        for span in found {
            assert_eq!(span[column], spans[span["TraceId"].as_str().unwrap()][column], "{column}");
        }
    }
    let lines = admin.with("accept", "application/x-ndjson").post("/traces/query", window).await.expect(200);
    let lines = String::from_utf8(lines.bytes).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().filter(|line| line["span"].is_object()).count(), 5);
    for id in ["a", "e"] {
        assert_eq!(&admin.get(&format!("/traces/{id}")).await.expect(200).body["spans"][0], spans[id]);
    }
}
