//! Applies the suggested DDL exactly as suggested, adopts its columns, and removes it again, so that the next run starts from the
//! same state.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::data::{DATABASE, Table};
use super::queries::{KEYS, KeyColumn, fields};
use crate::bench::service::BenchService;
use crate::bench::store::Store;
use crate::stack::api::{list, text};
use crate::stack::{interrupt, trace_source};

/// The service detects table changes within a minute.
const SCHEMA_CACHE_TIME: Duration = Duration::from_secs(61);
/// Maximum number of rounds of suggestions. Applying a suggestion may enable further ones.
const ROUNDS: usize = 4;

/// The applied suggestions.
pub struct Applied {
    /// Id of each suggestion, with the run time of its statements.
    pub suggestions: Vec<(String, Duration)>,
    pub columns: Vec<KeyColumn>,
    /// Bytes on disk before and after.
    pub bytes: (u64, u64),
}

/// Runs every suggested statement, adopts the columns, and waits until the service has detected the changes.
pub fn apply(service: &BenchService, store: &Store, table: Table) -> Result<Applied> {
    let before = bytes(store, table)?;
    let mut done = Vec::new();
    for turn in 0.. {
        let advice = service.administrator.get("/schema/ddl")?;
        let suggested = list(&advice, "/suggestions")?;
        if suggested.is_empty() {
            break;
        }
        ensure!(turn < ROUNDS, "suggestions that were run are suggested again: {advice}");
        for suggestion in suggested {
            let follow_up = list(suggestion, "/follow_up").unwrap_or_default();
            let statements =
                list(suggestion, "/statements")?.iter().chain(follow_up).filter_map(Value::as_str);
            let what = text(suggestion, "/id")?;
            eprintln!("running the suggestion `{what}`");
            let begun = Instant::now();
            for statement in statements {
                store.run(statement).with_context(|| format!("the suggestion `{what}` cannot be run"))?;
            }
            done.push((what.to_owned(), begun.elapsed()));
        }
    }
    ensure!(!done.is_empty(), "the service has no suggestions for a table without additions");
    let columns = columns(store, table)?;
    trace_source::mark(&service.administrator, &fields(&columns))?;
    let begun = Instant::now();
    while begun.elapsed() < SCHEMA_CACHE_TIME {
        interrupt::check()?;
        thread::sleep(Duration::from_millis(200));
    }
    Ok(Applied { suggestions: done, columns, bytes: (before, bytes(store, table)?) })
}

/// Returns the columns that hold the defined map keys, recognised by their expressions. The service verifies them when they are
/// adopted.
fn columns(store: &Store, table: Table) -> Result<Vec<KeyColumn>> {
    let text = store.run(&format!(
        "SELECT name, default_expression FROM system.columns WHERE database = '{DATABASE}' AND table = '{}' \
         AND default_kind = 'MATERIALIZED' FORMAT TSVRaw",
        table.name
    ))?;
    let holds = |expression: &str, map: &str, key: &str| {
        expression.contains(&format!("'{key}'")) && expression.contains(map)
    };
    KEYS.into_iter()
        .map(|(map, key, _)| {
            let mut lines = text.lines().filter_map(|line| line.split_once('\t'));
            let (column, _) = lines
                .find(|(_, expression)| holds(expression, map, key))
                .with_context(|| format!("no column was suggested for the key `{key}`"))?;
            Ok(KeyColumn { map: map.to_owned(), key: key.to_owned(), column: column.to_owned() })
        })
        .collect()
}

/// Removes everything that the exporter's table does not have. Only this benchmark uses the table.
pub fn remove_suggestions(store: &Store, table: Table) -> Result<()> {
    let of = |what: &str, from: &str, condition: &str| -> Result<Vec<String>> {
        let rows = store.run(&format!(
            "SELECT name FROM system.{from} WHERE database = '{DATABASE}' AND table = '{}' AND {condition} FORMAT TSVRaw",
            table.name
        ))?;
        Ok(rows.lines().map(|name| format!("DROP {what} `{name}`")).collect())
    };
    // Dependent objects are dropped before the columns.
    let mut dropped = of("PROJECTION", "projections", "1")?;
    dropped.extend(of("INDEX", "data_skipping_indices", &format!("name NOT IN ({OWN_INDEXES})"))?);
    dropped.extend(of("COLUMN", "columns", "default_kind = 'MATERIALIZED'")?);
    for change in &dropped {
        store.run(&format!("ALTER TABLE {} {change}", table.quoted()))?;
    }
    if !dropped.is_empty() {
        eprintln!("{} has the exporter's columns and indexes again", table.name);
    }
    Ok(())
}

/// Indexes of the exporter's table.
const OWN_INDEXES: &str = "'idx_trace_id', 'idx_res_attr_key', 'idx_res_attr_value', 'idx_span_attr_key', \
    'idx_span_attr_value', 'idx_duration'";

fn bytes(store: &Store, table: Table) -> Result<u64> {
    let text = store.run(&format!(
        "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = '{DATABASE}' AND table = '{}'",
        table.name
    ))?;
    match text.trim().parse() {
        Ok(bytes) => Ok(bytes),
        Err(_) => bail!("ClickHouse does not report the size of {}", table.name),
    }
}
