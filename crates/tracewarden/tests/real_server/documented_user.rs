//! The user, profile and grants of `docs/operations.md`, executed from there, and discovery, binding, search and fetch with them.

use serde_json::{Value, json};
use tracewarden_testkit::clickhouse::{Options, Server};
use tracewarden_testkit::trace_tables::all;

use crate::support::Service;
use crate::support::operations_page::examples;

const USER: &str = "tracewarden";
const PASSWORD: &str = "a long random password";

/// Sends a statement as the documented user, and returns the error.
async fn refusal(server: &Server, statement: &str) -> String {
    let request = reqwest::Client::new().post(&server.url).basic_auth(USER, Some(PASSWORD));
    let answer = request.body(statement.to_owned()).send().await.unwrap();
    let status = answer.status();
    let text = answer.text().await.unwrap();
    assert!(!status.is_success(), "{statement}: {text}");
    text
}

#[tokio::test]
async fn the_documented_user_does_the_main_job_and_nothing_else() {
    let server = Server::start(&Options::default()).unwrap();
    let fixture = all().into_iter().find(|fixture| fixture.name == "exporter_2024").unwrap();
    let bound = fixture.bound().unwrap();
    let generated = bound.generate();
    for statement in fixture.statements((25, 8)).iter().chain(&bound.inserts(&generated.rows)) {
        server.run(statement).unwrap();
    }
    let [user, catalogue] = examples("The ClickHouse user").try_into().unwrap();
    assert_eq!((user.len(), catalogue.len()), (4, 6));
    for statement in &user {
        // The page says that these addresses are an example.
        server.run(&statement.replace("HOST IP '10.0.0.0/8'", "HOST IP '127.0.0.1'")).unwrap();
    }

    let service = Service::start_with(&[
        ("TRACEWARDEN_CLICKHOUSE_URL", &server.url),
        ("TRACEWARDEN_CLICKHOUSE_USER", USER),
        ("TRACEWARDEN_CLICKHOUSE_PASSWORD", PASSWORD),
    ]);
    let findings = || {
        let output = service.command().arg("check-config").output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(printed.contains("the configuration is valid"), "{printed}");
        let lines = printed.lines().filter(|line| line.starts_with("error") || line.starts_with("warning"));
        // Other findings come from the settings of the test.
        lines.filter(|line| line.to_lowercase().contains("clickhouse")).map(str::to_owned).collect::<Vec<_>>()
    };
    let admin = service.admin().await;
    let tables = admin.get("/schema/tables").await.expect(200).body["tables"].clone();
    let proposals: Vec<&Value> = tables.as_array().unwrap().iter().map(|table| &table["proposal"]).collect();
    let proposal = proposals.into_iter().find(|proposal| proposal.is_object()).unwrap().clone();
    assert_eq!(
        (&proposal["table"], &proposal["trace_index"]),
        (&json!("otel_traces"), &json!("otel_traces_trace_id_ts"))
    );
    admin.put("/schema/binding", proposal).await.expect(200);
    let marks: Vec<Value> = bound.marks.fields().iter().map(|field| field.mark()).collect();
    admin.with("if-match", "*").put("/schema/fields", json!({ "fields": marks })).await.expect(200);
    let policies = json!({"policies": [{"title": "All", "expression": "true"}]});
    admin.put("/roles/all", policies).await.expect(201);
    let ada = service.user(&admin, "ada", &["all"]).await;
    let query =
        json!({"limit": 100, "view": "ids", "from": "2026-03-14T08:00:00Z", "to": "2026-03-18T08:00:00Z"});
    let found = ada.post("/traces/query", query).await.expect(200).body;
    assert_eq!(found["trace_ids"].as_array().unwrap().len(), generated.traces().len());
    let trace = (bound.trace_id)(*generated.traces().first().unwrap());
    ada.get(&format!("/traces/{trace}")).await.expect(200);
    service.anonymous().get("/readyz").await.expect(200);
    assert!(!findings().iter().any(|line| line.starts_with("error")), "{:#?}", findings());

    // The second example is for the suggestions.
    let suggested = admin.get("/schema/ddl").await.expect(200).body;
    assert!(suggested["notes"].to_string().contains("may not read system."), "{suggested}");
    for statement in &catalogue {
        server.run(statement).unwrap();
    }
    let suggested = admin.get("/schema/ddl").await.expect(200).body;
    assert!(!suggested["notes"].to_string().contains("may not read"), "{suggested}");
    assert!(!suggested["suggestions"].as_array().unwrap().is_empty(), "{suggested}");

    for statement in [
        "INSERT INTO otel.otel_traces (TraceId) VALUES ('x')",
        "ALTER TABLE otel.otel_traces DELETE WHERE 1",
        "CREATE TABLE otel.other (n UInt8) ENGINE = Memory",
        "SELECT * FROM system.users",
        "SELECT * FROM url('http://127.0.0.1:1/', LineAsString)",
        "SELECT * FROM otel.otel_traces_trace_id_ts_mv",
        "SELECT count() FROM otel.otel_traces SETTINGS max_execution_time = 601",
        "SELECT count() FROM otel.otel_traces SETTINGS max_execution_time = 0",
        "SELECT count() FROM otel.otel_traces SETTINGS max_memory_usage = 0",
        "GRANT SELECT ON otel.otel_traces TO default",
    ] {
        let error = refusal(&server, statement).await;
        let is_refusal = ["ACCESS_DENIED", "READONLY", "SETTING_CONSTRAINT_VIOLATION"];
        assert!(is_refusal.iter().any(|name| error.contains(name)), "{statement}\n{error}");
    }
}
