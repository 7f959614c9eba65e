//! A trace store: a real ClickHouse engine in a process of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use reqwest::Method;
use serde_json::{Value, json};

use super::{Client, Service, target_directory};

/// A running store with the OpenTelemetry exporter's table `otel.otel_traces`; ends when dropped.
pub struct Store {
    child: Child,
    _directory: tempfile::TempDir,
    /// Its HTTP address.
    pub url: String,
}

impl Store {
    /// Starts the program that `cargo build -p tracewarden-localstore` makes, with the engine that `cargo xtask engine`
    /// fetches.
    pub fn start() -> Self {
        let program = target_directory().join("tracewarden-localstore");
        assert!(program.is_file(), "run `cargo build -p tracewarden-localstore` first");
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new(program)
            .args(["--listen", "127.0.0.1:0", "--otlp", "127.0.0.1:0", "--exit-with-stdin", "--data"])
            .arg(directory.path())
            .env_remove("TRACEWARDEN_LOCALSTORE_PASSWORD")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Both lines, since a pipe that is closed early ends the program.
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let lines: Vec<String> = lines.map_while(Result::ok).take(2).collect();
        let url = lines.iter().find_map(|line| line.strip_prefix("listening ").map(str::to_owned));
        Self { child, _directory: directory, url: url.expect("the store starts") }
    }

    /// Runs a statement.
    pub async fn run(&self, statement: &str) {
        let answer = Client::new(&self.url)
            .request(Method::POST, "/")
            .body(statement.to_owned())
            .send()
            .await
            .unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{statement}: {}", answer.text().await.unwrap());
    }

    /// Inserts spans of two teams a minute ago: trace `1…` of the team `blue` and `2…` of the team `red`.
    pub async fn insert_two_traces(&self) {
        self.run(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, ServiceName, Duration, StatusCode, SpanAttributes) \
             SELECT now64(9) - 60, repeat(toString(number % 2 + 1), 32), leftPad(toString(number), 16, '0'), '', 'GET /', 'shop', 1000, 'Ok', \
             map('team', if(number % 2 = 0, 'blue', 'red'), 'size', toString(number)) FROM numbers(6)",
        )
        .await;
    }

    /// Kills the process; the port is then closed.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The exporter's table.
pub fn binding() -> Value {
    json!({"database": "otel", "table": "otel_traces", "trace_id": "TraceId", "span_id": "SpanId",
        "timestamp": "Timestamp", "parent_span_id": "ParentSpanId"})
}

/// A service with the exporter's table bound and some fields marked, and its administrator.
pub async fn bound_service(store: &Store, environment: &[(&str, &str)]) -> (Service, Client) {
    let mut all = vec![("TRACEWARDEN_CLICKHOUSE_URL", store.url.as_str())];
    all.extend_from_slice(environment);
    let service = Service::start_with(&all);
    let admin = service.admin().await;
    let bound = admin.put("/schema/binding", binding()).await.expect(200);
    let fields = json!({"fields": [
        {"map": "SpanAttributes", "name": "team", "filterable": true, "policy": true},
        {"map": "SpanAttributes", "name": "size", "type": "number", "filterable": true, "policy": false},
        {"map": "SpanAttributes", "name": "secret.label", "filterable": false, "policy": true},
        {"name": "ServiceName", "filterable": true, "policy": true},
        {"name": "Duration", "filterable": true, "policy": false},
    ]});
    let version = bound.headers["etag"].to_str().unwrap();
    admin.with("if-match", version).put("/schema/fields", fields).await.expect(200);
    (service, admin)
}
