//! Rows of the same traces as the OpenTelemetry Collector 0.165.1 and Jaeger (August 2026) wrote them into a real server, each
//! in its own schema; the data is made up.

use serde_json::Value as Json;

/// A program that wrote the traces.
pub struct Writer {
    /// Database for its tables.
    pub database: &'static str,
    /// Table with the spans.
    pub table: &'static str,
    /// Its tables and views, as the server prints them, in order.
    create: &'static str,
    /// Rows, one a line.
    pub rows: &'static str,
}

/// The OpenTelemetry Collector with attributes in maps.
pub const COLLECTOR: Writer = Writer {
    database: "collector",
    table: "otel_traces",
    create: include_str!("real_writers/collector-0.165.1-map.sql"),
    rows: include_str!("real_writers/collector-0.165.1-map.jsonl"),
};

/// Jaeger.
pub const JAEGER: Writer = Writer {
    database: "jaeger",
    table: "spans",
    create: include_str!("real_writers/jaeger-2026-08.sql"),
    rows: include_str!("real_writers/jaeger-2026-08.jsonl"),
};

impl Writer {
    /// Returns the statements that create its tables and insert its rows. They have no TTL, which would remove the rows some day.
    pub fn statements(&self) -> Vec<String> {
        let lines = self.create.lines().filter(|line| !line.starts_with("TTL "));
        let text = lines.collect::<Vec<_>>().join("\n");
        let database = self.database;
        let qualified = |statement: &str| {
            statement
                .replace("CREATE TABLE ", &format!("CREATE TABLE {database}."))
                .replace("CREATE MATERIALIZED VIEW ", &format!("CREATE MATERIALIZED VIEW {database}."))
                .replace(" TO ", &format!(" TO {database}."))
                .replace("\nFROM ", &format!("\nFROM {database}."))
        };
        let mut statements = vec![format!("CREATE DATABASE {database}")];
        let parts = text.split("\n;").map(str::trim).filter(|part| !part.is_empty());
        statements.extend(parts.map(qualified));
        statements.push(format!(
            "INSERT INTO {database}.{} FORMAT JSONEachRow\n{}",
            self.table,
            self.rows.trim_end()
        ));
        statements
    }

    /// Returns the rows as JSON.
    pub fn parsed(&self) -> Vec<Json> {
        self.rows.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}
