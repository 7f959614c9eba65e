//! `/metrics`: on a separate listener, as documented, and without any text from clients.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use reqwest::Method;
use serde_json::json;
use sqlx::Connection as _;

use crate::support::store::{Store, bound_service};
use crate::support::{ADMIN_PASSWORD, Client, Service, program};

/// Returns a client of the metrics listener.
fn listener(service: &Service) -> Client {
    let log = service.log();
    let at = log.split_once("metrics on ").unwrap().1.split("/metrics").next().unwrap();
    Client::new(at)
}

pub async fn scrape(service: &Service) -> String {
    let answer = listener(service).get("/metrics").await.expect(200);
    assert_eq!(answer.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    String::from_utf8(answer.bytes).unwrap()
}

/// Returns the value of a sample, or 0 if there is none yet.
pub fn value(text: &str, sample: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

/// Returns type and labels of each metric as documented.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text = std::fs::read_to_string(path).unwrap();
    let quoted =
        |cell: &str| -> BTreeSet<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        (cells[1].trim_matches('`').to_owned(), (cells[2].to_owned(), quoted(cells[3])))
    })
    .collect()
}

/// Returns type and labels of each metric as served. A label counts if any sample has it.
fn served(text: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let name = match kind {
                "counter" => format!("{name}_total"),
                "info" => format!("{name}_info"),
                _ => name.to_owned(),
            };
            found.insert(name, (kind.to_owned(), BTreeSet::new()));
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let entry = match found.contains_key(name) {
                true => found.get_mut(name).unwrap(),
                false => found.get_mut(base.unwrap_or(name)).unwrap_or_else(|| panic!("{line}")),
            };
            let labels = line.split_once('{').map_or("", |(_, rest)| rest.rsplit_once('}').unwrap().0);
            for label in labels.split("\",").filter(|label| !label.is_empty()) {
                entry.1.insert(label.split('=').next().unwrap().to_owned());
            }
            entry.1.remove("le");
        }
    }
    found
}

#[tokio::test]
async fn events_are_counted_without_request_data() {
    let store = Store::start();
    store.insert_two_traces().await;
    let environment =
        [("TRACEWARDEN_METRICS_LISTEN", "127.0.0.1:0"), ("TRACEWARDEN_MAX_QUERIES_PER_USER", "1")];
    let (service, admin) = bound_service(&store, &environment).await;
    let policies =
        json!({"policies": [{"title": "Blue", "expression": "SpanAttributes[\"team\"] == \"blue\""}]});
    admin.put("/roles/canaryrole", policies).await.expect(201);
    let ada = service.user(&admin, "canaryuser", &["canaryrole"]).await;
    let key = ada.post("/me/api-keys", json!({"name": "canarykey"})).await.expect(201).body;
    let token = key["token"].as_str().unwrap().to_owned();
    let by_key = service.anonymous().with_key(&token);

    let before = scrape(&service).await;
    let page = by_key.post("/traces/query", json!({})).await.expect(200);
    assert_eq!(page.body["spans"].as_array().unwrap().len(), 3);
    by_key.get(&format!("/traces/{}", "1".repeat(32))).await.expect(200);
    by_key.get(&format!("/traces/{}", "2".repeat(32))).await.problem(404, "trace_not_found");
    let wrong = json!({"username": "canaryname", "password": "canarypassword"});
    service.anonymous().post("/login", wrong).await.problem(401, "invalid_credentials");
    let unknown_key = service.anonymous().with_key("twk_canarytoken");
    unknown_key.get("/me?q=canaryquery").await.problem(401, "unauthenticated");
    let forged = ada.with("sec-fetch-site", "cross-site").post("/logout", json!({})).await;
    forged.problem(403, "cross_site");
    ada.get("/canarypath").await.expect(404);
    ada.get("/ui/canaryview").await;
    let method = Method::from_bytes(b"CANARYMETHOD").unwrap();
    ada.send(method, "/me", None).await.expect(405);

    let text = scrape(&service).await;
    let more = |sample: &str, by: f64| {
        let (before, now) = (value(&before, sample), value(&text, sample));
        assert_eq!(now - before, by, "{sample}: {before}, {now}\n{text}");
    };
    more("tracewarden_http_requests_total{method=\"POST\",route=\"/traces/query\",status=\"200\"}", 1.0);
    more("tracewarden_http_requests_total{method=\"GET\",route=\"/traces/{id}\",status=\"404\"}", 1.0);
    more("tracewarden_http_requests_total{method=\"GET\",route=\"unmatched\",status=\"404\"}", 1.0);
    more("tracewarden_http_requests_total{method=\"other\",route=\"/me\",status=\"405\"}", 1.0);
    more("tracewarden_http_request_duration_seconds_count{method=\"GET\",route=\"/traces/{id}\"}", 2.0);
    more("tracewarden_http_request_duration_seconds_count{method=\"GET\",route=\"/ui/{*path}\"}", 1.0);
    more("tracewarden_http_cross_site_refusals_total", 1.0);
    more("tracewarden_trace_reads_total{action=\"traces.query\",outcome=\"success\"}", 1.0);
    more("tracewarden_trace_reads_total{action=\"traces.get\",outcome=\"success\"}", 1.0);
    more("tracewarden_trace_reads_total{action=\"traces.get\",outcome=\"not_found\"}", 1.0);
    more("tracewarden_traces_returned_total", 2.0);
    more("tracewarden_spans_returned_total", 6.0);
    more("tracewarden_logins_total{outcome=\"invalid\"}", 1.0);
    more("tracewarden_authentication_refusals_total{credential=\"api_key\"}", 1.0);
    // Two for each read, and one for the sign-in.
    more("tracewarden_audit_records_total", 7.0);
    // Other answers have bodies, too, and a read takes a varying number of statements.
    let beyond = |sample: &str, by: f64| {
        let (before, now) = (value(&before, sample), value(&text, sample));
        assert!(now - before > by, "{sample}: {before}, {now}\n{text}");
    };
    beyond("tracewarden_http_response_body_bytes_total", page.bytes.len() as f64);
    beyond("tracewarden_clickhouse_statements_total{outcome=\"complete\"}", 3.0);
    assert!(value(&text, "process_resident_memory_bytes") > 1e6);

    assert_eq!(served(&text), documented());
    let session = ada.cookie().split('=').nth(1).unwrap();
    for canary in
        ["canary", "CANARY", "admin", "blue", "team", ADMIN_PASSWORD, session, &token, &"1".repeat(32)]
    {
        assert!(!text.contains(canary), "{canary}\n{text}");
    }
}

#[tokio::test]
async fn failures_are_counted() {
    let mut store = Store::start();
    store.insert_two_traces().await;
    let (service, admin) = bound_service(&store, &[("TRACEWARDEN_METRICS_LISTEN", "127.0.0.1:0")]).await;
    let policies = json!({"policies": [{"title": "Blue", "expression": "ServiceName == \"shop\""}]});
    admin.put("/roles/shop", policies).await.expect(201);
    let ada = service.user(&admin, "ada", &["shop"]).await;
    store.kill();
    ada.post("/traces/query", json!({})).await.problem(503, "unavailable");
    // Enough for the rate limit to reject some.
    for _ in 0..8 {
        let wrong = json!({"username": "ada", "password": "not the password"});
        service.anonymous().post("/login", wrong).await;
    }
    // An audit record cannot be written: nothing is read, and the failure is counted.
    sqlx::any::install_default_drivers();
    let mut database = sqlx::AnyConnection::connect(&service.database_url()).await.unwrap();
    let trigger = "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'full'); END";
    sqlx::query(trigger).execute(&mut database).await.unwrap();
    ada.post("/traces/query", json!({})).await.problem(503, "unavailable");
    let text = scrape(&service).await;
    assert_eq!(value(&text, "tracewarden_audit_write_failures_total"), 1.0, "{text}");
    assert_eq!(value(&text, "tracewarden_database_failures_total{step=\"statement\"}"), 1.0, "{text}");
    assert!(value(&text, "tracewarden_clickhouse_statements_total{outcome=\"unavailable\"}") > 0.0, "{text}");
    assert!(value(&text, "tracewarden_logins_total{outcome=\"throttled\"}") > 0.0, "{text}");
    let failed = value(&text, "tracewarden_trace_reads_total{action=\"traces.query\",outcome=\"failed\"}");
    assert_eq!(failed, 1.0, "{text}");
}

#[tokio::test]
async fn the_listener_serves_metrics_alone_and_the_service_none() {
    let service = Service::start_with(&[("TRACEWARDEN_METRICS_LISTEN", "127.0.0.1:0")]);
    let metrics = listener(&service);
    for (method, path, status) in [
        (Method::GET, "/metrics", 200),
        (Method::GET, "/", 404),
        (Method::GET, "/me", 404),
        (Method::POST, "/metrics", 405),
    ] {
        // Not through `Answer`, which checks against the API's document: this listener is not part of the API.
        let answer = metrics.request(method, path).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{path}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(answer.headers()[name], value, "{path}");
        }
    }
    service.anonymous().get("/metrics").await.problem(404, "not_found");
    assert!(!Service::start().log().contains("metrics on"));
}

#[test]
fn an_address_in_use_stops_the_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = tempfile::tempdir().unwrap();
    let mut command = program();
    command.current_dir(directory.path()).env("TRACEWARDEN_LISTEN", "127.0.0.1:0");
    let output = command.env("TRACEWARDEN_METRICS_LISTEN", &address).arg("serve").output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("`metrics_listen`"), "{error}");
    assert!(error.contains(&address), "{error}");
}
