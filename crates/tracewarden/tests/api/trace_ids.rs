//! Trace ids in other notations than the table's: accepted where a request names a trace, but not in conditions.

use serde_json::{Value, json};

use crate::support::Client;
use crate::support::store::{Store, two_teams};

const ID: &str = "0af7651916cd43dd8448eb211c80319c";
const CLOSED: &str = "0bf7651916cd43dd8448eb211c80319c";
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
async fn every_notation_of_an_id_names_its_trace() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    insert(&store, "blue", &[ID, SHORT, UPPER]).await;
    insert(&store, "red", &[CLOSED]).await;
    for asked in notations(ID) {
        assert_eq!(found(&ada, &asked).await.as_deref(), Some(ID), "{asked}");
        let told = ada.get(&format!("/traces/{asked}/explain")).await.expect(200).body;
        assert_eq!((&told["trace_id"], &told["spans"]), (&json!(ID), &json!(2)), "{asked}");
        let told = admin.get(&format!("/traces/{asked}/explain?user=ada")).await.expect(200).body;
        assert_eq!((&told["trace_id"], &told["visible"]), (&json!(ID), &json!(true)), "{asked}");
        let told = admin.get(&format!("/traces/{asked}/viewers")).await.expect(200).body;
        assert_eq!((&told["trace_id"], &told["spans"]), (&json!(ID), &json!(2)), "{asked}");
        assert_eq!(told["viewers"][0]["username"], "ada", "{asked}");
    }
    // 64-bit ids, converted to 128 bits and back.
    for asked in [format!("{SHORT:0>32}"), SHORT[2..].to_owned(), SHORT.to_uppercase()] {
        assert_eq!(found(&ada, &asked).await.as_deref(), Some(SHORT), "{asked}");
    }
    // An id that is not a number has no other notation; a trace without access stays inaccessible in every notation.
    for asked in ["AB-1", "ab1", "ab-1"] {
        assert_eq!(found(&ada, asked).await.as_deref(), (asked == "AB-1").then_some(UPPER), "{asked}");
    }
    for asked in notations(CLOSED) {
        assert_eq!(found(&ada, &asked).await, None, "{asked}");
        ada.get(&format!("/traces/{asked}/explain")).await.problem(404, "trace_not_found");
        let told = admin.get(&format!("/traces/{asked}/explain?user=ada")).await.expect(200).body;
        assert_eq!((&told["trace_id"], &told["visible"]), (&json!(CLOSED), &json!(false)), "{asked}");
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
    let told = admin.get(&format!("/traces/{upper}/viewers")).await.expect(200).body;
    assert_eq!((&told["trace_id"], &told["viewers"]), (&json!(upper), &json!([])));
}

#[tokio::test]
async fn the_record_names_the_requested_and_the_found_id() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    insert(&store, "blue", &[ID]).await;
    insert(&store, "red", &[CLOSED]).await;
    let (asked, closed) = (ID.to_uppercase(), CLOSED.to_uppercase());
    for id in [&asked, ID, &closed] {
        ada.get(&format!("/traces/{id}")).await;
    }
    let records = admin.get("/audit?action=traces.get").await.expect(200).body["records"].clone();
    let said: Vec<(&Value, &Value, &Value)> = records
        .as_array()
        .unwrap()
        .iter()
        .map(|record| (&record["target"], &record["outcome"], &record["detail"]["trace_id"]))
        .collect();
    let none = &Value::Null;
    assert_eq!(
        said,
        [
            (&json!(closed), &json!("not_found"), none),
            (&json!(ID), &json!("success"), none),
            (&json!(asked), &json!("success"), &json!(ID)),
        ]
    );
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
