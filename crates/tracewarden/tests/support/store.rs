//! A real ClickHouse engine in a separate process.

use std::net::SocketAddr;

use reqwest::Method;
use serde_json::{Value, json};
use tracewarden_testkit::local_store::LocalStore;

use super::{Client, Service};

/// A running ClickHouse with the OpenTelemetry exporter's table `otel.otel_traces`; stopped when dropped.
pub struct Store {
    local: LocalStore,
    /// Its HTTP URL.
    pub url: String,
    /// Its address for spans over OTLP.
    pub otlp: String,
}

impl Store {
    /// Starts the program of `cargo build -p tracewarden-localstore` with the engine that `cargo xtask engine` downloads.
    pub fn start() -> Self {
        let local = LocalStore::start().unwrap();
        let (url, otlp) = (local.url.clone(), local.otlp.clone());
        Self { local, url, otlp }
    }

    /// Restarts it with the same data and a user limited by this `users.xml`; writes are then impossible.
    pub fn restart_as(self, users: &str) -> Self {
        let local = self.local.restart_as(users).unwrap();
        Self { url: local.url.clone(), otlp: String::new(), local }
    }

    /// Returns the socket address of the URL.
    pub fn address(&self) -> SocketAddr {
        self.url.trim_start_matches("http://").parse().unwrap()
    }

    /// Runs a statement.
    pub async fn run(&self, statement: &str) {
        let answer = self.send(statement).await;
        let status = answer.status();
        assert!(status.is_success(), "{statement}: {}", answer.text().await.unwrap());
    }

    /// Returns the answer to a statement.
    pub async fn ask(&self, statement: &str) -> String {
        let answer = self.send(statement).await;
        assert!(answer.status().is_success(), "{statement}: {}", answer.text().await.unwrap());
        answer.text().await.unwrap()
    }

    /// Returns the error for a statement that ClickHouse rejects.
    pub async fn refused(&self, statement: &str) -> String {
        let answer = self.send(statement).await;
        assert!(!answer.status().is_success(), "{statement}");
        answer.text().await.unwrap()
    }

    async fn send(&self, statement: &str) -> reqwest::Response {
        let request = Client::new(&self.url).request(Method::POST, "/").body(statement.to_owned());
        request.basic_auth("default", Some(&self.local.password)).send().await.unwrap()
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

    /// Starts a service that uses it, without a bound table.
    pub fn service(&self) -> Service {
        self.service_with(&[])
    }

    /// The same, with further settings.
    pub fn service_with(&self, environment: &[(&str, &str)]) -> Service {
        Service::start_with(&[&self.settings(), environment].concat())
    }

    /// Returns the settings of a service that uses it.
    pub fn settings(&self) -> [(&str, &str); 2] {
        [("TRACEWARDEN_CLICKHOUSE_URL", &self.url), ("TRACEWARDEN_CLICKHOUSE_PASSWORD", &self.local.password)]
    }

    /// Kills the process; the port is then closed.
    pub fn kill(&mut self) {
        self.local.kill();
    }
}

/// Returns the binding of the exporter's table.
pub fn binding() -> Value {
    json!({"database": "otel", "table": "otel_traces", "trace_id": "TraceId", "span_id": "SpanId",
        "timestamp": "Timestamp", "parent_span_id": "ParentSpanId"})
}

/// Starts a service with the exporter's table bound and some fields marked; returns it with its administrator.
pub async fn bound_service(store: &Store, environment: &[(&str, &str)]) -> (Service, Client) {
    bound(store.service_with(environment)).await
}

/// The same with another ClickHouse URL.
pub async fn bound_service_at(url: &str, store: &Store, environment: &[(&str, &str)]) -> (Service, Client) {
    let mut all = vec![("TRACEWARDEN_CLICKHOUSE_URL", url)];
    all.extend_from_slice(environment);
    bound(store.service_with(&all)).await
}

async fn bound(service: Service) -> (Service, Client) {
    let admin = service.admin().await;
    bind(&admin).await;
    (service, admin)
}

/// Binds the exporter's table and marks some fields.
pub async fn bind(admin: &Client) {
    let answer = admin.put("/schema/binding", binding()).await.expect(200);
    let fields = json!({"fields": [
        {"map": "SpanAttributes", "name": "team", "filterable": true, "policy": true},
        {"map": "SpanAttributes", "name": "size", "type": "number", "filterable": true, "policy": false},
        {"map": "SpanAttributes", "name": "secret.label", "filterable": false, "policy": true},
        {"name": "ServiceName", "filterable": true, "policy": true},
        {"name": "Duration", "filterable": true, "policy": false},
    ]});
    let version = answer.headers["etag"].to_str().unwrap();
    admin.with("if-match", version).put("/schema/fields", fields).await.expect(200);
}

/// A trace of the team `blue`.
pub const BLUE: &str = "11111111111111111111111111111111";
/// A trace of the team `red`.
pub const RED: &str = "22222222222222222222222222222222";

/// Starts a service with two traces and a user who may see one of them.
pub async fn two_teams(store: &Store) -> (Service, Client, Client) {
    two_teams_with(store, &[]).await
}

/// The same with environment variables for the service.
pub async fn two_teams_with(store: &Store, environment: &[(&str, &str)]) -> (Service, Client, Client) {
    store.insert_two_traces().await;
    let (service, admin) = bound_service(store, environment).await;
    admin.put("/roles/blue", blue_policies()).await.expect(201);
    let ada = service.user(&admin, "ada", &["blue"]).await;
    (service, admin, ada)
}

/// Returns the policies of a role with access to the traces of the team `blue`.
pub fn blue_policies() -> Value {
    json!({"policies": [{"title": "Blue", "expression": "SpanAttributes[\"team\"] == \"blue\""}]})
}
