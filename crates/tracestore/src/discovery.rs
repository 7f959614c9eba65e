//! Discovery: which tables could hold spans, and what their maps hold.

use std::collections::BTreeMap;

use tracewarden_model::{Binding, ColumnType, Display};

use crate::binding::SYSTEM_DATABASES;
use crate::select::is_trace_index;
use crate::sql::{Statement, quote, quote_table};
use crate::table::Column;
use crate::{StoreError, TraceStore};

/// Most tables that discovery lists.
const MAX_TABLES: u32 = 5_000;
/// Rows that sampling looks at.
const SAMPLED_ROWS: u32 = 20_000;
/// Keys that sampling reports for each map.
const SAMPLED_KEYS: u32 = 500;
/// Characters of an example value.
const EXAMPLE_LENGTH: u32 = 80;

/// A table of the trace store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSummary {
    /// Its database.
    pub database: String,
    /// Its name.
    pub name: String,
    /// Its engine.
    pub engine: String,
    /// Rows, where the store knows.
    pub rows: Option<u64>,
    /// Bytes on disk, where the store knows.
    pub bytes: Option<u64>,
    /// A binding that would work, by the names and types of its columns.
    pub proposal: Option<Binding>,
}

/// The keys of a map column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapKeys {
    /// The map column.
    pub map: String,
    /// Rows that were looked at.
    pub sampled_rows: u64,
    /// Keys, most frequent first.
    pub keys: Vec<MapKey>,
}

/// A key of a map column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapKey {
    /// The key.
    pub name: String,
    /// Sampled rows that hold it.
    pub rows: u64,
    /// Some of its values, cut to 80 characters. Span data: not for everyone.
    pub examples: Vec<String>,
}

impl TraceStore {
    /// The tables of the trace store, with proposals how to bind those that look like spans.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn tables(&self) -> Result<Vec<TableSummary>, StoreError> {
        let mut statement = Statement::default();
        let own: Vec<String> = SYSTEM_DATABASES.iter().map(|name| statement.string(name)).collect();
        let own = own.join(", ");
        let mut columns_statement = statement.clone();
        statement.push(&format!(
            "SELECT database, name, engine, total_rows, total_bytes FROM system.tables \
             WHERE database NOT IN ({own}) AND NOT is_temporary ORDER BY database, name LIMIT {MAX_TABLES}"
        ));
        type Row = (String, String, String, Option<u64>, Option<u64>);
        let tables: Vec<Row> = self.client.rows(statement).await?;
        columns_statement.push(&format!(
            "SELECT database, table, name, type FROM system.columns \
             WHERE database NOT IN ({own}) ORDER BY database, table, position LIMIT 1000000"
        ));
        let rows: Vec<(String, String, String, String)> = self.client.rows(columns_statement).await?;
        let mut columns: BTreeMap<(String, String), Vec<Column>> = BTreeMap::new();
        for (database, table, name, type_text) in rows {
            let column_type = ColumnType::parse(&type_text);
            columns.entry((database, table)).or_default().push(Column {
                name,
                column_type,
                type_text,
                derived: false,
            });
        }
        let of = |database: &str, table: &str| {
            columns.get(&(database.to_owned(), table.to_owned())).map(Vec::as_slice).unwrap_or_default()
        };
        Ok(tables
            .into_iter()
            .map(|(database, name, engine, rows, bytes)| {
                let index = format!("{name}_trace_id_ts");
                let index = is_trace_index(of(&database, &index)).then_some(index);
                let proposal = if engine == "MaterializedView" {
                    None
                } else {
                    propose(&database, &name, of(&database, &name), index)
                };
                TableSummary { database, name, engine, rows, bytes, proposal }
            })
            .collect())
    }

    /// The keys of a table's map columns in a bounded sample: of the newest hour when the timestamp is known.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn sample_map_keys(
        &self,
        database: &str,
        table: &str,
        columns: &[Column],
        timestamp: Option<&str>,
    ) -> Result<Vec<MapKeys>, StoreError> {
        let name = quote_table(database, table);
        let recent = timestamp.map_or(String::new(), |column| {
            let column = quote(column);
            format!(" WHERE {column} >= (SELECT max({column}) FROM {name}) - INTERVAL 1 HOUR")
        });
        let mut found = Vec::new();
        for column in columns {
            if column.column_type.map_key_logical_types().is_empty() {
                continue;
            }
            let map = quote(&column.name);
            let sample = format!("(SELECT {map} AS tw_sampled FROM {name}{recent} LIMIT {SAMPLED_ROWS})");
            let count = Statement::new(&format!("SELECT count() FROM {sample}"));
            let counted: Vec<(u64,)> = self.client.rows(count).await?;
            let keys = Statement::new(&format!(
                "SELECT toString(key), count() AS found, \
                 arraySort(groupUniqArray(3)(substringUTF8(ifNull(toString(value), ''), 1, {EXAMPLE_LENGTH}))) \
                 FROM (SELECT key, value FROM {sample} ARRAY JOIN mapKeys(tw_sampled) AS key, mapValues(tw_sampled) AS value) \
                 GROUP BY key ORDER BY found DESC, key LIMIT {SAMPLED_KEYS}"
            ));
            let rows: Vec<(String, u64, Vec<String>)> = self.client.rows(keys).await?;
            found.push(MapKeys {
                map: column.name.clone(),
                sampled_rows: counted.first().map_or(0, |(rows,)| *rows),
                keys: rows
                    .into_iter()
                    .map(|(name, rows, examples)| MapKey { name, rows, examples })
                    .collect(),
            });
        }
        Ok(found)
    }
}

/// A binding by the names that span tables use: the OpenTelemetry exporter's, and the usual spellings of others.
fn propose(database: &str, table: &str, columns: &[Column], trace_index: Option<String>) -> Option<Binding> {
    let text = |names: &[&str]| find(columns, names, ColumnType::is_string);
    let time = |column_type: &ColumnType| {
        matches!(column_type, ColumnType::DateTime | ColumnType::DateTime64 { .. })
    };
    let number = |column_type: &ColumnType| {
        matches!(column_type, ColumnType::Integer { bits: 8..=64, .. } | ColumnType::Float { .. })
    };
    Some(Binding {
        database: database.to_owned(),
        table: table.to_owned(),
        trace_id: text(&["traceid"])?,
        span_id: text(&["spanid"])?,
        parent_span_id: text(&["parentspanid", "parentid"])?,
        timestamp: find(columns, &["timestamp", "starttime", "start", "startedat", "time", "ts"], time)?,
        trace_index,
        display: Display {
            name: text(&["spanname", "name", "operationname", "operation"]),
            service: text(&["servicename", "service"]),
            duration: find(columns, &["duration", "durationnano", "durationnanos", "durationns"], number),
            status: text(&["statuscode", "status"]),
            kind: text(&["spankind", "kind"]),
        },
    })
}

fn find(columns: &[Column], names: &[&str], fits: impl Fn(&ColumnType) -> bool) -> Option<String> {
    let folded = |name: &str| name.replace('_', "").to_lowercase();
    names.iter().find_map(|wanted| {
        let column =
            columns.iter().find(|column| folded(&column.name) == *wanted && fits(&column.column_type))?;
        Some(column.name.clone())
    })
}
