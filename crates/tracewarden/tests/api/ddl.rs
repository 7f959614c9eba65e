//! `/schema/ddl` and `tracewarden ddl`: the test runs the suggested statements unchanged.

use serde_json::{Value, json};
use tracewarden_testkit::wait::until;

use crate::support::Service;
use crate::support::store::{Store, binding, two_teams};

/// A key that would become a statement if it escaped its comment.
const HOSTILE: &str = "a'\\\n; DROP TABLE otel.otel_traces; --";

fn ids(advice: &Value) -> Vec<&str> {
    let suggestions = advice["suggestions"].as_array().unwrap();
    suggestions.iter().map(|suggestion| suggestion["id"].as_str().unwrap()).collect()
}

/// Returns the output of the command.
fn run_ddl(service: &Service, arguments: &[&str]) -> String {
    let output = service.command().arg("ddl").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn suggestions_disappear_when_they_are_in_place_and_answers_stay() {
    let store = Store::start();
    let unbound = store.service();
    unbound.admin().await.get("/schema/ddl").await.problem(409, "not_bound");
    let refused = unbound.command().arg("ddl").output().unwrap();
    assert!(!refused.status.success() && refused.stdout.is_empty());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no trace source is bound"));

    let (service, admin, ada) = two_teams(&store).await;
    ada.get("/schema/ddl").await.problem(403, "forbidden");
    let marks = json!({"fields": [
        {"map": "SpanAttributes", "name": "team", "filterable": true, "policy": true},
        {"map": "SpanAttributes", "name": HOSTILE, "filterable": true, "policy": false},
        {"name": "ServiceName", "filterable": true, "policy": true},
    ]});
    admin.with("if-match", "*").put("/schema/fields", marks).await.expect(200);

    let advice = admin.get("/schema/ddl").await.expect(200).body;
    let hostile = format!("key_column:SpanAttributes[{}]", json!(HOSTILE));
    let mut suggested = ids(&advice);
    suggested.sort_unstable();
    let mut expected = vec![
        "key_column:SpanAttributes[\"team\"]",
        hostile.as_str(),
        "time_projection",
        "trace_projection",
        "trace_index",
    ];
    expected.sort_unstable();
    assert_eq!(suggested, expected, "{advice:#}");
    let in_place: Vec<&str> =
        advice["in_place"].as_array().unwrap().iter().map(|found| found["id"].as_str().unwrap()).collect();
    for exporters in
        ["skip_index:mapKeys(SpanAttributes)", "skip_index:mapValues(SpanAttributes)", "skip_index:TraceId"]
    {
        assert!(in_place.contains(&exporters), "{in_place:?}");
    }
    for (at, suggestion) in advice["suggestions"].as_array().unwrap().iter().enumerate() {
        assert_eq!(suggestion["number"], at + 1);
        assert!(
            suggestion["reads_before"]["rows"].is_u64() && suggestion["gain"].is_number(),
            "{suggestion:#}"
        );
    }
    // The command gives the same advice.
    let printed_advice: Value = serde_json::from_str(&run_ddl(&service, &["--format", "json"])).unwrap();
    assert_eq!(printed_advice, advice);

    let query = json!({"filter": {"conditions": [{"map": "SpanAttributes", "name": "team", "op": "eq", "value": "blue"}]}});
    let before = ada.post("/traces/query", query.clone()).await.expect(200).body;
    assert_eq!(before["spans"].as_array().unwrap().len(), 3, "{before:#}");

    let sql = run_ddl(&service, &[]);
    let statements: Vec<&str> =
        sql.lines().filter(|line| !line.is_empty() && !line.starts_with("-- ")).collect();
    let listed = advice["suggestions"].as_array().unwrap().iter();
    let listed: Vec<String> = listed
        .flat_map(|suggestion| suggestion["statements"].as_array().unwrap())
        .map(|statement| format!("{};", statement.as_str().unwrap()))
        .collect();
    assert_eq!(statements, listed, "{sql}");
    for statement in statements {
        store.run(statement).await;
    }
    let advice = async || admin.get("/schema/ddl").await.expect(200).body;
    let advice = until(advice, |advice| ids(advice) == ["trace_index"]).await;
    let index = &advice["suggestions"][0];
    assert_eq!((&index["state"], &index["statements"]), (&json!("partial"), &json!([])));
    let mut binding = admin.get("/schema").await.expect(200).body["binding"].clone();
    binding["trace_index"] = index["bind_trace_index"].clone();
    admin.with("if-match", "*").put("/schema/binding", binding).await.expect(200);
    let advice = admin.get("/schema/ddl").await.expect(200).body;
    assert_eq!(ids(&advice), Vec::<&str>::new(), "{advice:#}");
    assert!(run_ddl(&service, &[]).lines().all(|line| line.starts_with("-- ")));

    let mut after = ada.post("/traces/query", query).await.expect(200).body;
    // Key columns are stored columns, so they appear as columns of their own.
    for span in after["spans"].as_array_mut().unwrap() {
        assert_eq!(span["SpanAttributes_team"], "blue", "{span}");
        span.as_object_mut().unwrap().retain(|name, _| before["spans"][0].get(name).is_some());
    }
    assert_eq!(after["spans"], before["spans"]);
}

#[tokio::test]
async fn read_access_to_the_table_is_sufficient() {
    const LIMITED: &str = "<clickhouse><profiles><default/><tracewarden/></profiles><quotas><default/></quotas>\
        <users><default><password/><networks><ip>::/0</ip></networks><profile>tracewarden</profile>\
        <quota>default</quota><grants><query>GRANT SELECT ON otel.otel_traces</query></grants></default></users></clickhouse>";
    let store = Store::start();
    store.insert_two_traces().await;
    let store = store.restart_as(LIMITED);
    let refused = store.refused("INSERT INTO otel.otel_traces (TraceId) VALUES ('x')").await;
    // ACCESS_DENIED.
    assert!(refused.starts_with("Code: 497."), "{refused}");
    let service = store.service();
    let admin = service.admin().await;
    admin.put("/schema/binding", binding()).await.expect(200);
    let fields =
        json!({"fields": [{"map": "SpanAttributes", "name": "team", "filterable": true, "policy": true}]});
    admin.with("if-match", "*").put("/schema/fields", fields).await.expect(200);
    let advice = admin.get("/schema/ddl").await.expect(200).body;
    assert_eq!(advice["notes"], json!([]));
    let column = advice["suggestions"].as_array().unwrap().iter();
    let column = column.clone().find(|found| found["id"] == "key_column:SpanAttributes[\"team\"]").unwrap();
    assert_eq!(column["reads_before"]["rows"], 6, "{column:#}");
    // ClickHouse does not record column sizes for parts as small as this one, so the size is unknown, not zero.
    assert_eq!(column["reads_before"]["bytes"], Value::Null, "{column:#}");
}
