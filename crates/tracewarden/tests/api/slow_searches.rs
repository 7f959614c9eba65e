//! `/traces/query` during long searches and at its limits: progress reports, advice in errors, and that searches stop when
//! clients disconnect.

use std::time::{Duration, Instant};

use reqwest::{Method, Response};
use serde_json::{Value, json};
use tracewarden_testkit::wait::{until, until_within};

use crate::support::store::{Store, binding, blue_policies, bound_service};
use crate::support::{Answer, Client, Service};

/// Starts a service whose trace source is a view of the exporter's table.
async fn behind_view(store: &Store, view: &str, environment: &[(&str, &str)]) -> (Service, Client, Client) {
    store.run(&format!("CREATE VIEW otel.viewed AS {view}")).await;
    let (service, admin) = bound_service(store, environment).await;
    admin.put("/roles/blue", blue_policies()).await.expect(201);
    let ada = service.user(&admin, "ada", &["blue"]).await;
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    let mut viewed = binding();
    viewed["table"] = Value::from("viewed");
    admin.with("if-match", &version).put("/schema/binding", viewed).await.expect(200);
    (service, admin, ada)
}

async fn insert(store: &Store, spans: u32) {
    store
        .run(&format!(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes) \
             SELECT now64(9) - 60, repeat('1', 32), leftPad(toString(number), 16, '0'), 'x', 'shop', \
             map('team', 'blue') FROM numbers({spans})"
        ))
        .await;
}

/// Reading the timestamp takes a hundredth of a second per span.
const SLOW: &str =
    "SELECT * REPLACE(if(sleepEachRow(0.01) = 0, Timestamp, Timestamp) AS Timestamp) FROM otel.otel_traces";

/// Repeats the spans endlessly: no query on it finishes.
const ENDLESS: &str = "SELECT t.* FROM numbers(1000000000000) AS n CROSS JOIN otel.otel_traces AS t";

async fn begin(client: &Client, accept: &str) -> Response {
    let client = client.with("accept", accept);
    client.request(Method::POST, "/traces/query").json(&json!({})).send().await.unwrap()
}

/// Returns the lines of an answer, and whether the answer was complete.
async fn lines(mut response: Response) -> (Vec<Value>, bool) {
    let mut bytes = Vec::new();
    let whole = loop {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    let text = String::from_utf8(bytes).unwrap();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), whole)
}

async fn last_read(admin: &Client) -> Value {
    let records = admin.get("/audit?action=traces.query&limit=1").await.expect(200).body;
    records["records"][0].clone()
}

/// Returns the audited outcome of one of several concurrent searches.
async fn outcome(admin: &Client, request_id: &str) -> String {
    let records = admin.get("/audit?action=traces.query&limit=10").await.expect(200).body;
    let mut records = records["records"].as_array().unwrap().iter();
    let record = records.find(|record| record["request_id"] == request_id).unwrap();
    record["outcome"].as_str().unwrap().to_owned()
}

fn request_id(response: &Response) -> String {
    response.headers()["x-request-id"].to_str().unwrap().to_owned()
}

/// Returns the answer of a request that ran until its time limit. A query that ClickHouse estimates as too slow has the
/// same code, but fails earlier.
async fn expect_timeout(pending_answer: impl Future<Output = Answer>) -> Answer {
    let begun = Instant::now();
    let answer = pending_answer.await.problem(504, "query_timeout");
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}: {}", begun.elapsed(), answer.body);
    answer
}

#[tokio::test]
async fn a_search_that_takes_too_long_says_what_to_do() {
    let store = Store::start();
    insert(&store, 10).await;
    let (mut service, admin, ada) =
        behind_view(&store, ENDLESS, &[("TRACEWARDEN_QUERY_TIMEOUT", "1s")]).await;
    let problem = expect_timeout(ada.post("/traces/query", json!({}))).await;
    let advice = |body: &Value| body["detail"].as_str().unwrap().to_owned();
    let message = advice(&problem.body);
    for text in ["24 hours from 20", "narrow the window", "TRACEWARDEN_QUERY_TIMEOUT", "GET /schema/ddl"] {
        assert!(message.contains(text), "{message}");
    }
    assert!(!message.contains("SELECT") && !message.contains("DB::"), "{message}");
    let record = last_read(&admin).await;
    assert_eq!((&record["outcome"], &record["detail"]["code"]), (&json!("failed"), &json!("query_timeout")));
    let trace = format!("/traces/{}", "1".repeat(32));
    let (of_one, of_values) = tokio::join!(
        expect_timeout(ada.get(&trace)),
        expect_timeout(ada.get("/filter/values?ref=ServiceName"))
    );
    assert!(!advice(&of_one.body).contains("24 hours"), "{}", of_one.body);
    assert!(advice(&of_values.body).contains("24 hours"), "{}", of_values.body);
    admin.put("/me/preview", json!({"roles": ["blue"]})).await.expect(200);
    let to_admin = expect_timeout(admin.post("/traces/query", json!({}))).await;
    assert!(!advice(&to_admin.body).contains("an administrator can"), "{}", to_admin.body);
    admin.delete("/me/preview").await.expect(204);

    // An NDJSON answer has already begun: its last line contains the error, and the missing end of the body shows the
    // abort, with and without compression.
    service.restart_with(&[("TRACEWARDEN_QUERY_TIMEOUT", "3s")]);
    let (admin, ada) = (admin.at(&service), ada.at(&service));
    for encoding in ["identity", "gzip"] {
        let lines_only = ada.with("accept-encoding", encoding);
        let response = begin(&lines_only, "application/x-ndjson").await;
        assert_eq!(response.status(), 200);
        running(&store, 1, Duration::from_secs(5)).await;
        let id = request_id(&response);
        assert_eq!(outcome(&admin, &id).await, "unknown", "the answer must begin while the search runs");
        if encoding == "gzip" {
            assert_eq!(response.headers()["content-encoding"], "gzip");
            // Only a client that decompresses incrementally could read the last line; this client detects that the body is
            // truncated.
            assert!(response.bytes().await.is_err());
        } else {
            let (lines, whole) = lines(response).await;
            assert!(!whole);
            assert_eq!(lines.first().unwrap()["schema"]["table"], "viewed");
            let error = &lines.last().unwrap()["error"];
            assert_eq!((&error["code"], &error["status"]), (&json!("query_timeout"), &json!(504)));
            assert_eq!(error["request_id"], id.as_str());
            assert!(advice(error).contains("24 hours"), "{error}");
        }
        let record = last_read(&admin).await;
        assert_eq!((&record["outcome"], &record["request_id"]), (&json!("failed"), &json!(id)));
    }
}

#[tokio::test]
async fn other_limits_are_distinguished() {
    let store = Store::start();
    insert(&store, 10).await;
    // Evaluated before the statement begins, with more memory than allowed.
    let hungry = "SELECT * REPLACE(if(length((SELECT groupArray(number) FROM numbers(20000000))) = 0, Timestamp, Timestamp) \
        AS Timestamp) FROM otel.otel_traces";
    let (_service, admin, ada) = behind_view(&store, hungry, &[("TRACEWARDEN_QUERY_MEMORY", "50MiB")]).await;
    let problem = ada.post("/traces/query", json!({})).await.problem(504, "query_memory");
    let detail = problem.body["detail"].as_str().unwrap();
    assert!(detail.contains("TRACEWARDEN_QUERY_MEMORY") && detail.contains("narrow the window"), "{detail}");
    ada.get(&format!("/traces/{}", "1".repeat(32))).await.problem(504, "query_memory");
    let record = last_read(&admin).await;
    assert_eq!((&record["outcome"], &record["detail"]["code"]), (&json!("failed"), &json!("query_memory")));
    // A search that fails at once returns an error status, also with NDJSON.
    store.run("DROP VIEW otel.viewed").await;
    let lines = ada.with("accept", "application/x-ndjson");
    lines.post("/traces/query", json!({})).await.problem(502, "clickhouse_error");
}

#[tokio::test]
async fn an_ndjson_page_begins_while_the_search_runs() {
    // Enough spans that the search takes longer than the check of the columns: nothing is sent before that check.
    const SPANS: u32 = 100;
    let store = Store::start();
    insert(&store, SPANS).await;
    let (_service, admin, ada) = behind_view(&store, SLOW, &[]).await;
    // Run concurrently, since the requests mostly wait.
    let pages = ["identity", "gzip", "zstd"].map(|encoding| {
        let (admin, ada) = (&admin, ada.with("accept-encoding", encoding));
        async move {
            let mut response = begin(&ada, "application/x-ndjson").await;
            assert_eq!(response.status(), 200);
            let id = request_id(&response);
            // Compressed data is also sent before the answer is complete.
            assert!(response.chunk().await.unwrap().is_some());
            let first = Instant::now();
            // The record is written before the first byte, and not completed yet.
            assert_eq!(outcome(admin, &id).await, "unknown", "{encoding}");
            while response.chunk().await.unwrap().is_some() {}
            let rest = first.elapsed();
            assert!(rest > Duration::from_millis(300), "{encoding}: {rest:?}");
            assert_eq!(outcome(admin, &id).await, "success");
        }
    });
    futures::future::join_all(pages).await;
    let (lines, whole) = lines(begin(&ada, "application/x-ndjson").await).await;
    assert!(whole);
    assert_eq!(lines.last().unwrap(), &json!({"end": {"next_cursor": null, "traces": 1, "spans": SPANS}}));
    let kinds: Vec<&String> =
        lines.iter().map(|line| line.as_object().unwrap().keys().next().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "span").count(), SPANS as usize);
    let progress: Vec<&Value> = lines.iter().filter_map(|line| line.get("progress")).collect();
    let times = progress.iter().map(|line| {
        let time = |name: &str| line[name].as_str().unwrap().to_owned();
        [time("from"), time("searched_to"), time("to")]
    });
    let times: Vec<_> = times.collect();
    assert!(times.iter().all(|times| times.is_sorted()), "{progress:?}");
    assert!(times.iter().any(|[_, searched_to, to]| searched_to < to), "{progress:?}");
    // Rejected before any data is read, so with an error status.
    let refused = ada.with("accept", "application/x-ndjson");
    refused.post("/traces/query", json!({"columns": ["Nope"]})).await.problem(422, "unknown_field");
}

#[tokio::test]
async fn abandoned_searches_are_stopped() {
    let store = Store::start();
    insert(&store, 10).await;
    let (_service, admin, ada) = behind_view(&store, ENDLESS, &[]).await;
    for accept in ["application/json", "application/x-ndjson"] {
        let client = ada.with("accept", accept);
        let waiting = tokio::spawn(async move {
            let request = client.request(Method::POST, "/traces/query").json(&json!({}));
            let response = request.send().await.unwrap();
            response.bytes().await.unwrap()
        });
        running(&store, 1, Duration::from_secs(20)).await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(last_read(&admin).await["outcome"], "unknown");
        waiting.abort();
        running(&store, 0, Duration::from_secs(2)).await;
        until(async || last_read(&admin).await, |record| record["outcome"] == "aborted").await;
    }
}

/// Waits until statements on the view run, or until none do.
async fn running(store: &Store, wanted: u64, timeout: Duration) {
    let ask = "SELECT count() FROM system.processes WHERE query_id LIKE 'tracewarden-%' AND query LIKE '%viewed%' FORMAT TSV";
    let seen = async || store.ask(ask).await.trim().parse::<u64>().unwrap();
    until_within(timeout, seen, |seen| (*seen > 0) == (wanted > 0)).await;
}
