//! Creates a table with the time bounds of each trace, as the OpenTelemetry exporter does, filled for new and existing spans.

use super::facts::Facts;
use super::target::{Target, single_line};
use crate::schema::{IdColumn, IdOf, TableEngine, TimeExpressions, column_named};
use crate::sql::{Statement, quote, quote_literal, quote_table};

/// Returns the statements that create a trace index, and the name to bind it by.
pub(super) fn trace_index(facts: &Facts<'_>, target: &Target) -> (Vec<String>, String) {
    let binding = facts.binding;
    let name = format!("{}_trace_id_ts", binding.table);
    let bound = quote_table(&binding.database, &name);
    let on_cluster = target.on_cluster.as_str();
    let replicated = match &facts.layout.underlying().engine {
        TableEngine::MergeTree { name } => name.starts_with("Replicated"),
        TableEngine::Distributed { .. } | TableEngine::Other(_) => false,
    };
    let engine = if replicated { "ReplicatedMergeTree" } else { "MergeTree" };
    let table = |name: &str| {
        format!(
            "CREATE TABLE IF NOT EXISTS {name}{on_cluster} (`TraceId` String CODEC(ZSTD(1)), \
             `Start` DateTime CODEC(Delta, ZSTD(1)), `End` DateTime CODEC(Delta, ZSTD(1)), \
             INDEX `idx_trace_id` `TraceId` TYPE bloom_filter(0.01) GRANULARITY 1) ENGINE = {engine} \
             PARTITION BY toDate(`Start`) ORDER BY (`TraceId`, `Start`) \
             SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1"
        )
    };
    let view = |view: &str, to: &str, from: &str| {
        format!(
            "CREATE MATERIALIZED VIEW IF NOT EXISTS {view}{on_cluster} TO {to} AS {}",
            bounds(facts, from)
        )
    };
    let source = quote_table(&binding.database, &binding.table);
    let backfill = format!("INSERT INTO {bound} (`TraceId`, `Start`, `End`) {}", bounds(facts, &source));
    let statements = match &facts.layout.engine {
        TableEngine::Distributed { cluster, database, table: local } => {
            let index = format!("{local}_trace_id_ts");
            let quoted_local = |name: &str| {
                if database.is_empty() { quote(name) } else { quote_table(database, name) }
            };
            vec![
                table(&quoted_local(&index)),
                format!(
                    "CREATE TABLE IF NOT EXISTS {bound}{on_cluster} AS {} \
                     ENGINE = Distributed({}, {}, {}, cityHash64(`TraceId`))",
                    quoted_local(&index),
                    quote_literal(cluster),
                    quote_literal(database),
                    quote_literal(&index)
                ),
                view(&quoted_local(&format!("{index}_mv")), &quoted_local(&index), &target.local),
                backfill,
            ]
        }
        _ => {
            let mv = quote_table(&binding.database, &format!("{name}_mv"));
            // The view comes first: spans that arrive while existing ones are copied are then in both, and bounds may
            // overlap.
            vec![table(&bound), view(&mv, &bound, &target.local), backfill]
        }
    };
    (statements.iter().map(|statement| single_line(statement)).collect(), name)
}

/// Writes the time bounds of every trace. An alias with the name of a column would replace the column in the same query, so
/// aliases have names of this crate's own.
fn bounds(facts: &Facts<'_>, from: &str) -> String {
    let statement = Statement::for_columns(facts.layout.columns.iter().map(|column| column.name.as_str()));
    let (trace, at) = (statement.alias("trace"), statement.alias("at"));
    let binding = facts.binding;
    let column = |name: &str| column_named(&facts.layout.columns, name);
    let id = match column(&binding.trace_id) {
        Some(column) if !column.column_type.is_string() => {
            IdColumn::new(column, IdOf::Trace).map(|ids| ids.text)
        }
        _ => None,
    };
    let id = id.unwrap_or_else(|| format!("ifNull(toString({}), '')", quote(&binding.trace_id)));
    let timestamp = column(&binding.timestamp)
        .and_then(|column| TimeExpressions::new(column, binding.timestamp_unit))
        .map_or_else(|| quote(&binding.timestamp), |expressions| expressions.time);
    format!(
        "SELECT {trace} AS `TraceId`, min({at}) AS `Start`, max({at}) AS `End` FROM \
         (SELECT {id} AS {trace}, {timestamp} AS {at} FROM {from}) \
         WHERE {trace} != '' GROUP BY {trace}"
    )
}
