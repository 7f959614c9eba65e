//! Discovery: which tables could hold spans.

use std::collections::BTreeMap;

use tracewarden_model::{Binding, ColumnType, Display};

use crate::binding::SYSTEM_DATABASES;
use crate::layout::TableEngine;
use crate::sql::Statement;
use crate::suitability::unsuitable;
use crate::table::Column;
use crate::trace_index::is_trace_index;
use crate::{StoreError, TraceStore};

/// Most tables that discovery lists.
const MAX_TABLES: u32 = 5_000;
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
    /// Why there is none, where that is not for its columns: the kind of table that it is, and what to bind instead.
    pub unsuitable: Option<String>,
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
        let behind = Behind::of(tables.iter().map(|(database, name, engine, full, ..)| {
            (database.as_str(), name.as_str(), TableEngine::read(engine, full))
        }));
        Ok(tables
            .into_iter()
            .map(|(database, name, engine, _, rows, bytes, parameters)| {
                let index =
                    behind.index_name(&database, &name).filter(|index| is_trace_index(of(&database, index)));
                let unsuitable = unsuitable(&name, &engine, &parameters).map(|unsuitable| unsuitable.reason);
                let unsuitable = unsuitable.or_else(|| behind.said_of_part(&database, &name));
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

/// Distributed tables, and the tables of this server behind them: by database and name.
struct Behind(BTreeMap<(String, String), (String, String)>);

impl Behind {
    fn of<'a>(tables: impl Iterator<Item = (&'a str, &'a str, TableEngine)>) -> Self {
        let behind = tables.filter_map(|(database, name, engine)| {
            let TableEngine::Distributed { database: of_local, table: local, .. } = engine else {
                return None;
            };
            // Without a database it is each server's default one; that it is this one is the best guess.
            let of_local = if of_local.is_empty() { database.to_owned() } else { of_local };
            Some(((database.to_owned(), name.to_owned()), (of_local, local)))
        });
        Self(behind.collect())
    }

    /// What is said of a table that is what one server keeps of a distributed one.
    fn said_of_part(&self, database: &str, name: &str) -> Option<String> {
        let mut all = self.0.iter();
        let (whole, _) =
            all.find(|(_, (of_local, local))| (of_local.as_str(), local.as_str()) == (database, name))?;
        Some(format!(
            "it is what one server keeps of the distributed table `{}.{}`: bind that one",
            whole.0, whole.1
        ))
    }

    /// The name that a table's trace index has, if it has one. That of a distributed table must be distributed as well:
    /// one server's knows nothing of the spans elsewhere.
    fn index_name(&self, database: &str, name: &str) -> Option<String> {
        let Some((of_local, local)) = self.0.get(&(database.to_owned(), name.to_owned())) else {
            return Some(format!("{name}_trace_id_ts"));
        };
        let wanted = (of_local.clone(), format!("{local}_trace_id_ts"));
        let index = self.0.iter().find(|((of, _), behind)| of == database && **behind == wanted)?;
        Some(index.0.1.clone())
    }
}

/// A binding by the names that span tables use: the OpenTelemetry exporter's, and the usual spellings of others.
fn propose(database: &str, table: &str, columns: &[Column], trace_index: Option<String>) -> Option<Binding> {
    let id = |names: &[&str]| find(columns, names, ColumnType::is_string);
    let text = |names: &[&str]| find(columns, names, ColumnType::is_text);
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
