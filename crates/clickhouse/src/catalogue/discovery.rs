//! Discovery: which tables could hold spans.

use std::collections::BTreeMap;

use tracewarden_model::{Binding, ColumnType, Display};

use super::Catalogue;
use crate::ClickHouseError;
use crate::catalogue::binding::{SYSTEM_DATABASES, is_number, is_time};
use crate::catalogue::distributed_tables::DistributedTables;
use crate::catalogue::suitability::unsuitable;
use crate::schema::{Column, is_trace_index};
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
            columns.entry((database, table)).or_default().push(Column::new(name, type_text));
        }
        let of = |database: &str, table: &str| {
            columns.get(&(database.to_owned(), table.to_owned())).map(Vec::as_slice).unwrap_or_default()
        };
        let distributed_tables =
            DistributedTables::new(tables.iter().map(|(database, name, engine, full, ..)| {
                [database, name, engine, full].map(String::as_str)
            }));
        Ok(tables
            .into_iter()
            .map(|(database, name, engine, _, rows, bytes, parameters)| {
                let index = distributed_tables
                    .index_name(&database, &name)
                    .filter(|index| is_trace_index(of(&database, index)));
                let unsuitable = unsuitable(&name, &engine, &parameters).map(|unsuitable| unsuitable.reason);
                let unsuitable = unsuitable.or_else(|| {
                    let whole = distributed_tables.over(&database, &name)?;
                    Some(format!(
                        "it is the local table of one server behind the distributed table `{}.{}`: bind the \
                         distributed table",
                        whole.database, whole.name
                    ))
                });
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

/// Proposes a binding by the names that span tables use: those of the OpenTelemetry exporter, and common spellings of others.
fn propose(database: &str, table: &str, columns: &[Column], trace_index: Option<String>) -> Option<Binding> {
    let id = |names: &[&str]| find_column(columns, names, ColumnType::is_string);
    let text = |names: &[&str]| find_column(columns, names, ColumnType::is_text);
    Some(Binding {
        database: database.to_owned(),
        table: table.to_owned(),
        trace_id: id(&["traceid"])?,
        span_id: id(&["spanid"])?,
        parent_span_id: id(&["parentspanid", "parentid"])?,
        timestamp: find_column(
            columns,
            &["timestamp", "starttime", "start", "startedat", "time", "ts"],
            is_time,
        )?,
        trace_index,
        display: Display {
            name: text(&["spanname", "name", "operationname", "operation"]),
            service: text(&["servicename", "service"]),
            duration: find_column(
                columns,
                &["duration", "durationnano", "durationnanos", "durationns"],
                is_number,
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
