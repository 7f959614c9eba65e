//! Trace ids in other notations than the table's: accepted where a request names a trace, but not in conditions.

use serde_json::{Value, json};

use crate::support::Client;
use crate::support::store::{Store, two_teams};

const ID: &str = "0af7651916cd43dd8448eb211c80319c";
const FORBIDDEN_ID: &str = "0bf7651916cd43dd8448eb211c80319c";
const SHORT: &str = "00f067aa0ba902b7";
const UPPER: &str = "AB-1";

/// Inserts spans of a team into traces.
async fn insert(store: &Store, team: &str, ids: &[&str]) {
    for id in ids {
        store
            .run(&format!(
                "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes) \
                 SELECT now64(9) - 60, '{id}', leftPad(toString(number), 16, '0'), 'GET /', 'shop', map('team', '{team}') FROM numbers(2)"
            ))
            .await;
    }
}

async fn found(client: &Client, id: &str) -> Option<String> {
    let answer = client.get(&format!("/traces/{id}")).await;
    if answer.status == 404 {
        answer.problem(404, "trace_not_found");
        return None;
    }
    let spans = answer.expect(200).body["spans"].as_array().unwrap().clone();
    assert!(spans.len() == 2 && spans.iter().all(|span| span["TraceId"] == spans[0]["TraceId"]), "{spans:?}");
    Some(spans[0]["TraceId"].as_str().unwrap().to_owned())
}

/// Returns notations of an id of 32 digits that begins with a zero, for use in a path.
fn notations(id: &str) -> Vec<String> {
    let uuid = format!("{}-{}-{}-{}-{}", &id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]);
    let traceparent = format!("00-{id}-b7ad6b7169203331-01");
    let mut all = vec![
        id.to_uppercase(),
        uuid.to_uppercase(),
        uuid,
        id[1..].to_owned(),
        format!("000{id}"),
        traceparent,
    ];
    all.extend(all.clone().iter().map(|id| format!("%20%09{id}%20")));
    all
}

#[tokio::test]
async fn every_notation_of_an_id_finds_its_trace() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    insert(&store, "blue", &[ID, SHORT, UPPER]).await;
    insert(&store, "red", &[FORBIDDEN_ID]).await;
    for notation in notations(ID) {
        assert_eq!(found(&ada, &notation).await.as_deref(), Some(ID), "{notation}");
        let explanation = ada.get(&format!("/traces/{notation}/explain")).await.expect(200).body;
        assert_eq!((&explanation["trace_id"], &explanation["spans"]), (&json!(ID), &json!(2)), "{notation}");
        let explanation = admin.get(&format!("/traces/{notation}/explain?user=ada")).await.expect(200).body;
        assert_eq!(
            (&explanation["trace_id"], &explanation["visible"]),
            (&json!(ID), &json!(true)),
            "{notation}"
        );
        let explanation = admin.get(&format!("/traces/{notation}/viewers")).await.expect(200).body;
        assert_eq!((&explanation["trace_id"], &explanation["spans"]), (&json!(ID), &json!(2)), "{notation}");
        assert_eq!(explanation["viewers"][0]["username"], "ada", "{notation}");
    }
    // 64-bit ids, converted to 128 bits and back.
    for notation in [format!("{SHORT:0>32}"), SHORT[2..].to_owned(), SHORT.to_uppercase()] {
        assert_eq!(found(&ada, &notation).await.as_deref(), Some(SHORT), "{notation}");
    }
    // An id that is not a number has no other notation; a trace without access stays inaccessible in every notation.
    for notation in ["AB-1", "ab1", "ab-1"] {
        assert_eq!(
            found(&ada, notation).await.as_deref(),
            (notation == "AB-1").then_some(UPPER),
            "{notation}"
        );
    }
    for notation in notations(FORBIDDEN_ID) {
        assert_eq!(found(&ada, &notation).await, None, "{notation}");
        ada.get(&format!("/traces/{notation}/explain")).await.problem(404, "trace_not_found");
        let explanation = admin.get(&format!("/traces/{notation}/explain?user=ada")).await.expect(200).body;
        assert_eq!(
            (&explanation["trace_id"], &explanation["visible"]),
            (&json!(FORBIDDEN_ID), &json!(false)),
            "{notation}"
        );
    }
}

#[tokio::test]
async fn an_exact_visible_trace_wins() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    let (upper, bare) = (ID.to_uppercase(), &ID[1..]);
    insert(&store, "blue", &[ID, &upper, bare]).await;
    for id in [ID, &upper, bare] {
        assert_eq!(found(&ada, id).await.as_deref(), Some(id));
    }
    let hyphens = &notations(ID)[2];
    for _ in 0..3 {
        assert_eq!(found(&ada, hyphens).await.as_deref(), Some(ID));
    }
    // A trace without access is not returned, and does not hide another one.
    store.run("ALTER TABLE otel.otel_traces UPDATE SpanAttributes = map('team', 'red') WHERE TraceId = '0AF7651916CD43DD8448EB211C80319C' SETTINGS mutations_sync = 2").await;
    assert_eq!(found(&ada, &upper).await.as_deref(), Some(ID));
    assert_eq!(found(&ada, ID).await.as_deref(), Some(ID));
    // An administrator, who may ask about any trace, gets exactly the one named.
    let explanation = admin.get(&format!("/traces/{upper}/viewers")).await.expect(200).body;
    assert_eq!((&explanation["trace_id"], &explanation["viewers"]), (&json!(upper), &json!([])));
}

#[tokio::test]
async fn the_record_names_the_requested_and_the_found_id() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    insert(&store, "blue", &[ID]).await;
    insert(&store, "red", &[FORBIDDEN_ID]).await;
    let (notation, forbidden) = (ID.to_uppercase(), FORBIDDEN_ID.to_uppercase());
    for id in [&notation, ID, &forbidden] {
        ada.get(&format!("/traces/{id}")).await;
    }
    let records = admin.get("/audit?action=traces.get").await.expect(200).body["records"].clone();
    let targets: Vec<(&Value, &Value, &Value)> = records
        .as_array()
        .unwrap()
        .iter()
        .map(|record| (&record["target"], &record["outcome"], &record["detail"]["trace_id"]))
        .collect();
    let none = &Value::Null;
    assert_eq!(
        targets,
        [
            (&json!(forbidden), &json!("not_found"), none),
            (&json!(ID), &json!("success"), none),
            (&json!(notation), &json!("success"), &json!(ID)),
        ]
    );
}

/// The readers of a trace and the actions of a key, for every notation of the id.
#[tokio::test]
async fn the_audit_log_is_searched_by_trace_and_by_key() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    insert(&store, "blue", &[ID]).await;
    insert(&store, "red", &[FORBIDDEN_ID]).await;
    let key = ada.post("/me/api-keys", json!({"name": "laptop"})).await.expect(201).body;
    let with_key = ada.with_key(key["token"].as_str().unwrap());
    let all = notations(ID);
    for id in all.iter().chain([&FORBIDDEN_ID.to_owned()]) {
        with_key.get(&format!("/traces/{id}")).await;
    }
    ada.get(&format!("/traces/{ID}/explain")).await.expect(200);
    admin.get(&format!("/traces/{ID}/viewers")).await.expect(200);
    let count = async |query: &str| {
        let page = admin.get(&format!("/audit?limit=500&{query}")).await.expect(200).body;
        page["records"].as_array().unwrap().len()
    };
    for id in all.iter().map(String::as_str).chain([ID]) {
        assert_eq!(count(&format!("target={id}")).await, all.len() + 2, "{id}");
        assert_eq!(count(&format!("target={id}&action=traces.get&outcome=success")).await, all.len(), "{id}");
    }
    assert_eq!(count(&format!("target={FORBIDDEN_ID}")).await, 1);
    let key = key["id"].as_str().unwrap();
    assert_eq!(count(&format!("key={key}")).await, all.len() + 1);
    assert_eq!(count(&format!("key={key}&target={FORBIDDEN_ID}")).await, 1);
    assert_eq!(count(&format!("key={key}&actor=admin")).await, 0);
}

#[tokio::test]
async fn conditions_compare_ids_as_they_are() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    insert(&store, "blue", &[ID]).await;
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    let fields = json!({"fields": [
        {"name": "TraceId", "filterable": true, "policy": false},
        {"map": "SpanAttributes", "name": "team", "filterable": true, "policy": true},
    ]});
    admin.with("if-match", &version).put("/schema/fields", fields).await.expect(200);
    for (value, expected) in
        [(ID.to_owned(), json!([ID])), (ID.to_uppercase(), json!([])), (format!(" {ID}"), json!([]))]
    {
        let filter = json!({"conditions": [{"name": "TraceId", "op": "eq", "value": value}]});
        let page = ada.post("/traces/query", json!({"view": "ids", "filter": filter})).await.expect(200).body;
        assert_eq!(page["trace_ids"], expected, "{value:?}");
    }
}
