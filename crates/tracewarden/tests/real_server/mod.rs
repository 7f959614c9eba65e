//! The service with real ClickHouse servers of the oldest supported version, with users, profiles, quotas and clusters.

mod cluster;
mod cluster_questions;
mod documented_user;
mod one_server;
mod versions;

use serde_json::{Value, json};
use tracewarden_testkit::clickhouse::{Options, PASSWORD, Server};

use crate::support::store::{bind, blue_policies};
use crate::support::{Client, Service};

/// The service's user in ClickHouse.
const READER: &str = "reader";

/// The columns of the exporter's table that these tests need.
const COLUMNS: &str = "Timestamp DateTime64(9) CODEC(Delta, ZSTD(1)), TraceId String, SpanId String, ParentSpanId String, \
    SpanName LowCardinality(String), ServiceName LowCardinality(String), Duration UInt64, StatusCode LowCardinality(String), \
    SpanAttributes Map(LowCardinality(String), String)";

/// Server options with this profile for the user.
fn options(profile: &str) -> Options {
    Options::default().user(READER, profile)
}

/// Settings of a service that uses ClickHouse at this address.
fn settings(url: &str) -> [(&str, &str); 3] {
    [
        ("TRACEWARDEN_CLICKHOUSE_URL", url),
        ("TRACEWARDEN_CLICKHOUSE_USER", READER),
        ("TRACEWARDEN_CLICKHOUSE_PASSWORD", PASSWORD),
    ]
}

/// Starts a server with this number of spans of the team `blue`, a hundred per trace, a minute old.
fn server(profile: &str, spans: u64) -> Server {
    server_with(&options(profile), spans)
}

fn server_with(options: &Options, spans: u64) -> Server {
    let server = Server::start(options).unwrap();
    server.run("CREATE DATABASE otel").unwrap();
    let order = "ENGINE = MergeTree ORDER BY (ServiceName, SpanName, toDateTime(Timestamp))";
    server.run(&format!("CREATE TABLE otel.otel_traces ({COLUMNS}) {order}")).unwrap();
    server.run(&insert("otel.otel_traces", spans, 100)).unwrap();
    server
}

fn insert(table: &str, spans: u64, in_each: u64) -> String {
    format!(
        "INSERT INTO {table} (Timestamp, TraceId, SpanId, SpanName, ServiceName, Duration, SpanAttributes) \
         SELECT now64(9) - 60, leftPad(toString(intDiv(number, {in_each}) + 1), 32, '0'), \
         leftPad(toString(number), 16, '0'), repeat('x', 50), 'shop', 1000, map('team', 'blue') FROM numbers({spans})"
    )
}

/// Starts a service with the table bound, and returns it with its administrator and a user with access to the traces of the
/// team `blue`.
async fn serve(url: &str, environment: &[(&str, &str)]) -> (Service, Client, Client) {
    let service = Service::start_with(&[&settings(url), environment].concat());
    let admin = service.admin().await;
    bind(&admin).await;
    admin.put("/roles/blue", blue_policies()).await.expect(201);
    let ada = service.user(&admin, "ada", &["blue"]).await;
    (service, admin, ada)
}

/// Returns the number of traces and spans on a page.
fn counted(page: &Value) -> (usize, usize) {
    let spans = page["spans"].as_array().unwrap();
    let traces: std::collections::BTreeSet<&str> =
        spans.iter().map(|span| span["TraceId"].as_str().unwrap()).collect();
    (traces.len(), spans.len())
}

fn page(limit: u32) -> Value {
    json!({ "limit": limit })
}
