//! The same traces as the OpenTelemetry Collector and Jaeger wrote them: the same questions select the same traces.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::{Value, json};
use tracewarden_testkit::trace_tables::real_writers::{COLLECTOR, JAEGER, Writer};

use crate::support::{Client, Service};
use crate::trace_tables::store::{Store, selected_stores};

/// A question for both layouts: the condition or policy over a field of each.
enum Question {
    /// A condition: the field in each layout, and the operator with its operand.
    Filter([&'static str; 2], Value),
    /// A policy, with the field of each layout in place of `FIELD`.
    Policy([&'static str; 2], &'static str),
}
use Question::{Filter, Policy};

const SERVICE: [&str; 2] = ["ServiceName", "service_name"];
const NAME: [&str; 2] = ["SpanName", "name"];
const STATUS: [&str; 2] = ["StatusCode", "status_code"];
const DURATION: [&str; 2] = ["Duration", "duration"];
const TENANT: [&str; 2] = ["SpanAttributes[tenant.id]", "str_attributes[tenant.id]"];
const METHOD: [&str; 2] = ["SpanAttributes[http.request.method]", "str_attributes[http.request.method]"];
const DOTTED: [&str; 2] = ["SpanAttributes[a.b.c]", "str_attributes[a.b.c]"];
const EMPTY: [&str; 2] = ["SpanAttributes[empty]", "str_attributes[empty]"];
const UNICODE: [&str; 2] = ["SpanAttributes[ünïcode]", "str_attributes[ünïcode]"];
const TEAM: [&str; 2] = ["ResourceAttributes[team]", "resource_str_attributes[team]"];
const CODE: [&str; 2] =
    ["SpanAttributes[http.response.status_code]", "int_attributes[http.response.status_code]"];
const BIG: [&str; 2] = ["SpanAttributes[big]", "int_attributes[big]"];
const RATIO: [&str; 2] = ["SpanAttributes[ratio]", "double_attributes[ratio]"];
const CACHE: [&str; 2] = ["SpanAttributes[cache.hit]", "bool_attributes[cache.hit]"];

/// Fields to mark, with their logical types.
const FIELDS: [([&str; 2], &str); 14] = [
    (SERVICE, "string"),
    (NAME, "string"),
    (STATUS, "string"),
    (DURATION, "number"),
    (TENANT, "string"),
    (METHOD, "string"),
    (DOTTED, "string"),
    (EMPTY, "string"),
    (UNICODE, "string"),
    (TEAM, "string"),
    (CODE, "number"),
    (BIG, "number"),
    (RATIO, "number"),
    (CACHE, "boolean"),
];

fn questions() -> Vec<Question> {
    vec![
        Filter(TENANT, json!({"op": "prefix", "value": "tenant-1"})),
        Filter(TENANT, json!({"op": "not_exists"})),
        Filter(METHOD, json!({"op": "eq", "value": "POST"})),
        Filter(METHOD, json!({"op": "ne", "value": "GET"})),
        Filter(DOTTED, json!({"op": "eq", "value": "dotted"})),
        Filter(EMPTY, json!({"op": "exists"})),
        Filter(EMPTY, json!({"op": "eq", "value": ""})),
        Filter(UNICODE, json!({"op": "in", "values": ["😀", "x"]})),
        Filter(TEAM, json!({"op": "in", "values": ["logistics", "web"]})),
        Filter(CODE, json!({"op": "gte", "value": 500})),
        Filter(CODE, json!({"op": "between", "values": [201, 499]})),
        // Exactly 2^53 + 1, which no double holds.
        Filter(BIG, json!({"op": "eq", "value": 9_007_199_254_740_993_u64})),
        Filter(BIG, json!({"op": "eq", "value": 9_007_199_254_740_992_u64})),
        Filter(RATIO, json!({"op": "lt", "value": 0.1})),
        Filter(CACHE, json!({"op": "eq", "value": true})),
        Filter(STATUS, json!({"op": "eq", "value": "Error"})),
        Filter(DURATION, json!({"op": "gt", "value": 100_000_000})),
        Filter(NAME, json!({"op": "prefix", "value": "GET /frontend"})),
        Policy(TEAM, "FIELD == \"money\""),
        Policy(CACHE, "!FIELD"),
        Policy(TENANT, "FIELD.matches(\"^tenant-[0-9]+$\") && FIELD != \"tenant-155\""),
        Policy(SERVICE, "FIELD in [\"payment\", \"recommend\"]"),
    ]
}

/// Splits `map[key]`.
fn parts(field: &str) -> (Option<&str>, &str) {
    match field.split_once('[') {
        Some((map, key)) => (Some(map), key.trim_end_matches(']')),
        None => (None, field),
    }
}

/// Starts a service for one of the tables, with the fields marked and access to all traces.
async fn serve(store: &Store, writer: &Writer, layout: usize) -> (Service, Client, Client) {
    let service = store.service_at(&store.url);
    let admin = service.admin().await;
    let tables = admin.get("/schema/tables").await.expect(200).body["tables"].clone();
    let is_wanted = |table: &&Value| table["database"] == writer.database && table["name"] == writer.table;
    let proposal = tables.as_array().unwrap().iter().find(is_wanted).unwrap()["proposal"].clone();
    assert!(proposal["trace_index"].is_string(), "{proposal}");
    admin.put("/schema/binding", proposal).await.expect(200);
    let fields: Vec<Value> = FIELDS
        .iter()
        .map(|(names, logical)| {
            let (map, name) = parts(names[layout]);
            let policy = *logical != "number";
            let mut mark = json!({"name": name, "type": logical, "filterable": true, "policy": policy});
            if let Some(map) = map {
                mark["map"] = json!(map);
            }
            mark
        })
        .collect();
    admin.with("if-match", "*").put("/schema/fields", json!({ "fields": fields })).await.expect(200);
    let user = service.user(&admin, "ada", &[]).await;
    (service, admin, user)
}

/// Returns the traces that a question selects.
async fn answer(admin: &Client, user: &Client, question: &Question, layout: usize) -> BTreeSet<String> {
    let (expression, conditions) = match question {
        Filter(names, operator) => {
            let (map, name) = parts(names[layout]);
            let mut condition = operator.clone();
            condition["name"] = json!(name);
            if let Some(map) = map {
                condition["map"] = json!(map);
            }
            ("true".to_owned(), vec![condition])
        }
        Policy(names, text) => {
            let reference = match parts(names[layout]) {
                (Some(map), key) => format!("{map}[\"{key}\"]"),
                (None, name) => name.to_owned(),
            };
            (text.replace("FIELD", &reference), Vec::new())
        }
    };
    let policies = json!({"policies": [{"title": "Question", "expression": expression}]});
    let saved = admin.put("/roles/question", policies).await;
    assert!([200, 201].contains(&saved.status), "{}: {}", saved.status, saved.body);
    admin.patch("/users/ada", json!({"roles": ["question"]})).await.expect(200);
    let query = json!({"view": "ids", "limit": 100, "from": "2026-11-20T00:00:00Z", "to": "2026-11-30T00:00:00Z",
        "filter": {"conditions": conditions}});
    let page = user.post("/traces/query", query).await.expect(200).body;
    page["trace_ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_collector_and_jaeger_give_the_same_answers() {
    for kind in selected_stores() {
        let store = Store::start(kind);
        for writer in [&COLLECTOR, &JAEGER] {
            for statement in writer.statements() {
                store.run(&statement).await;
            }
        }
        let layouts = [(&COLLECTOR, 0), (&JAEGER, 1)];
        let services = join_all(layouts.map(|(writer, layout)| serve(&store, writer, layout))).await;
        let mut sizes = BTreeSet::new();
        for question in questions() {
            let asked = services.iter().enumerate();
            let answers =
                join_all(asked.map(|(layout, (_, admin, user))| answer(admin, user, &question, layout)))
                    .await;
            let name = match &question {
                Filter(names, operator) => format!("{} {operator}", names[0]),
                Policy(names, text) => format!("{}: {text}", names[0]),
            };
            assert_eq!(answers[0], answers[1], "{name}");
            sizes.insert(answers[0].len());
        }
        assert!(sizes.len() >= 4 && sizes.contains(&0) && sizes.contains(&9), "{sizes:?}");
    }
}
