//! Discovery: which tables could hold spans.

use std::collections::BTreeMap;

use tracewarden_model::{Binding, ColumnType, Display};

use super::Catalogue;
use crate::ClickHouseError;
use crate::catalogue::binding::SYSTEM_DATABASES;
use crate::catalogue::suitability::unsuitable;
use crate::schema::{Column, TableEngine, is_trace_index};
use crate::sql::Statement;

/// Maximum number of tables that discovery lists.
const MAX_TABLES: u32 = 5_000;
/// A table in ClickHouse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSummary {
    /// Its database.
    pub database: String,
    /// Its name.
    pub name: String,
    /// Its engine.
    pub engine: String,
    /// Rows, where ClickHouse knows the number.
    pub rows: Option<u64>,
    /// Bytes on disk, where ClickHouse knows the number.
    pub bytes: Option<u64>,
    /// A binding that would work, derived from the names and types of its columns.
    pub proposal: Option<Binding>,
    /// Why there is no proposal, where its columns are not the reason: the kind of table that it is, and the table to bind
    /// instead.
    pub unsuitable: Option<String>,
}

impl Catalogue {
    /// Returns the tables in ClickHouse, with proposed bindings for those that look like span tables.
    ///
    /// # Errors
    /// When ClickHouse fails.
    pub async fn tables(&self) -> Result<Vec<TableSummary>, ClickHouseError> {
        let mut statement = Statement::default();
        let own: Vec<String> = SYSTEM_DATABASES.iter().map(|name| statement.string(name)).collect();
        let own = own.join(", ");
        let mut columns_statement = statement.clone();
        statement.push(&format!(
            "SELECT database, name, engine, engine_full, total_rows, total_bytes, \
             arrayMap(parameter -> parameter.1, parameterized_view_parameters) FROM system.tables \
             WHERE database NOT IN ({own}) AND NOT is_temporary ORDER BY database, name LIMIT {MAX_TABLES}"
        ));
        type Row = (String, String, String, String, Option<u64>, Option<u64>, Vec<String>);
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
                omitted: false,
                key: None,
                in_parts: false,
            });
        }
        let of = |database: &str, table: &str| {
            columns.get(&(database.to_owned(), table.to_owned())).map(Vec::as_slice).unwrap_or_default()
        };
        let distributed_tables =
            DistributedTables::new(tables.iter().map(|(database, name, engine, full, ..)| {
                (database.as_str(), name.as_str(), TableEngine::from_system_table(engine, full))
            }));
        Ok(tables
            .into_iter()
            .map(|(database, name, engine, _, rows, bytes, parameters)| {
                let index = distributed_tables
                    .index_name(&database, &name)
                    .filter(|index| is_trace_index(of(&database, index)));
                let unsuitable = unsuitable(&name, &engine, &parameters).map(|unsuitable| unsuitable.reason);
                let unsuitable =
                    unsuitable.or_else(|| distributed_tables.local_table_message(&database, &name));
                let proposal = if unsuitable.is_some() {
                    None
                } else {
                    propose(&database, &name, of(&database, &name), index)
                };
                TableSummary { database, name, engine, rows, bytes, proposal, unsuitable }
            })
            .collect())
    }
}

/// Distributed tables, and the tables of this server behind them, by database and name.
struct DistributedTables(BTreeMap<(String, String), (String, String)>);

impl DistributedTables {
    fn new<'a>(tables: impl Iterator<Item = (&'a str, &'a str, TableEngine)>) -> Self {
        let distributed_tables = tables.filter_map(|(database, name, engine)| {
            let TableEngine::Distributed { database: local_database, table: local, .. } = engine else {
                return None;
            };
            // Without a database, each server uses its default one; this one is the best guess.
            let local_database = if local_database.is_empty() { database.to_owned() } else { local_database };
            Some(((database.to_owned(), name.to_owned()), (local_database, local)))
        });
        Self(distributed_tables.collect())
    }

    /// Returns the message for a table that holds one server's part of a distributed one.
    fn local_table_message(&self, database: &str, name: &str) -> Option<String> {
        let mut all = self.0.iter();
        let (whole, _) = all.find(|(_, (local_database, local))| {
            (local_database.as_str(), local.as_str()) == (database, name)
        })?;
        Some(format!(
            "it is the local table of one server behind the distributed table `{}.{}`: bind the distributed \
             table",
            whole.0, whole.1
        ))
    }

    /// Returns the name of a table's trace index, if it has one. The index of a distributed table must be distributed as
    /// well: one server's index lacks the spans on the others.
    fn index_name(&self, database: &str, name: &str) -> Option<String> {
        let Some((local_database, local)) = self.0.get(&(database.to_owned(), name.to_owned())) else {
            return Some(format!("{name}_trace_id_ts"));
        };
        let wanted = (local_database.clone(), format!("{local}_trace_id_ts"));
        let index = self.0.iter().find(|((of, _), local)| of == database && **local == wanted)?;
        Some(index.0.1.clone())
    }
}

/// Proposes a binding by the names that span tables use: those of the OpenTelemetry exporter, and common spellings of others.
fn propose(database: &str, table: &str, columns: &[Column], trace_index: Option<String>) -> Option<Binding> {
    let id = |names: &[&str]| find_column(columns, names, ColumnType::is_string);
    let text = |names: &[&str]| find_column(columns, names, ColumnType::is_text);
    let time = |column_type: &ColumnType| {
        matches!(column_type, ColumnType::DateTime | ColumnType::DateTime64 { .. })
    };
    let number = |column_type: &ColumnType| {
        matches!(column_type, ColumnType::Integer { bits: 8..=64, .. } | ColumnType::Float { .. })
    };
    Some(Binding {
        database: database.to_owned(),
        table: table.to_owned(),
        trace_id: id(&["traceid"])?,
        span_id: id(&["spanid"])?,
        parent_span_id: id(&["parentspanid", "parentid"])?,
        timestamp: find_column(
            columns,
            &["timestamp", "starttime", "start", "startedat", "time", "ts"],
            time,
        )?,
        trace_index,
        display: Display {
            name: text(&["spanname", "name", "operationname", "operation"]),
            service: text(&["servicename", "service"]),
            duration: find_column(
                columns,
                &["duration", "durationnano", "durationnanos", "durationns"],
                number,
            ),
            status: text(&["statuscode", "status"]),
            kind: text(&["spankind", "kind"]),
        },
    })
}

fn find_column(
    columns: &[Column],
    names: &[&str],
    type_matches: impl Fn(&ColumnType) -> bool,
) -> Option<String> {
    let folded = |name: &str| name.replace('_', "").to_lowercase();
    names.iter().find_map(|wanted| {
        let column = columns
            .iter()
            .find(|column| folded(&column.name) == *wanted && type_matches(&column.column_type))?;
        Some(column.name.clone())
    })
}
