//! Discovery: which tables could hold spans.

use std::collections::BTreeMap;

use serde::Serialize;
use tracewarden_model::Binding;
use utoipa::ToSchema;

use super::Catalogue;
use crate::Result;
use crate::catalogue::binding::SYSTEM_DATABASES;
use crate::catalogue::distributed_tables::DistributedTables;
use crate::catalogue::proposal::{Candidate, product, propose};
use crate::catalogue::suitability::unsuitable;
use crate::schema::{Column, TableEngine, is_trace_index, split_list};
use crate::sql::Statement;

/// Maximum number of tables that discovery lists.
const MAX_TABLES: u32 = 5_000;

/// A table in ClickHouse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Table)]
pub struct TableSummary {
    /// Database.
    pub database: String,
    /// Name.
    pub name: String,
    /// Engine.
    pub engine: String,
    /// Number of rows, if the engine knows it.
    #[schema(required = true)]
    pub rows: Option<u64>,
    /// Bytes on disk, if the engine knows them.
    #[schema(required = true)]
    pub bytes: Option<u64>,
    /// Proposed binding; null when the table does not look like a table of spans.
    #[schema(required = true)]
    pub proposal: Option<Binding>,
    /// The product that writes such tables, if their columns tell.
    #[schema(required = true, examples("SigNoz"))]
    pub product: Option<&'static str>,
    /// The reason why there is no proposal, and the table to bind instead, if the cause is the kind of table and not its columns.
    #[schema(required = true)]
    pub unsuitable: Option<String>,
}

impl Catalogue {
    /// Returns the proposed binding of a table; `None` for a table that does not look like one of spans.
    ///
    /// # Errors
    /// When ClickHouse fails.
    pub async fn proposal(&self, database: &str, table: &str) -> Result<Option<Binding>> {
        let mut tables = self.tables().await?.into_iter();
        let summary = tables.find(|summary| summary.database == database && summary.name == table);
        Ok(summary.and_then(|summary| summary.proposal))
    }

    /// Returns the tables in ClickHouse, with proposed bindings for those that look like span tables.
    ///
    /// # Errors
    /// When ClickHouse fails.
    pub async fn tables(&self) -> Result<Vec<TableSummary>> {
        let mut statement = Statement::default();
        let own: Vec<String> = SYSTEM_DATABASES.iter().map(|name| statement.string(name)).collect();
        let own = own.join(", ");
        let mut columns_statement = statement.clone();
        statement.push(&format!(
            "SELECT database, name, engine, engine_full, total_rows, total_bytes, sorting_key, \
             arrayMap(parameter -> parameter.1, parameterized_view_parameters) FROM system.tables \
             WHERE database NOT IN ({own}) AND NOT is_temporary ORDER BY database, name LIMIT {MAX_TABLES}"
        ));
        type Row = (String, String, String, String, Option<u64>, Option<u64>, String, Vec<String>);
        let tables: Vec<Row> = self.client.rows(statement).await?;
        columns_statement.push(&format!(
            "SELECT database, table, name, type, default_kind, \
             if(default_kind = 'MATERIALIZED' AND name LIKE '%bucket%', default_expression, '') FROM system.columns \
             WHERE database NOT IN ({own}) ORDER BY database, table, position LIMIT 1000000"
        ));
        type ColumnRow = (String, String, String, String, String, String);
        let rows: Vec<ColumnRow> = self.client.rows(columns_statement).await?;
        let mut columns: BTreeMap<(String, String), Vec<Column>> = BTreeMap::new();
        for (database, table, name, type_text, default_kind, default_expression) in rows {
            let column = Column { default_kind, default_expression, ..Column::new(name, type_text) };
            columns.entry((database, table)).or_default().push(column);
        }
        let of = |database: &str, table: &str| {
            columns.get(&(database.to_owned(), table.to_owned())).map(Vec::as_slice).unwrap_or_default()
        };
        let distributed_tables =
            DistributedTables::new(tables.iter().map(|(database, name, engine, full, ..)| {
                [database, name, engine, full].map(String::as_str)
            }));
        // Engine and sorting key of the table that stores the rows.
        let stored: BTreeMap<(&String, &String), (TableEngine, Vec<String>)> = tables
            .iter()
            .map(|(database, name, engine, full, _, _, sorting_key, _)| {
                let key = split_list(sorting_key).into_iter().map(str::to_owned).collect();
                ((database, name), (TableEngine::from_system_table(engine, full), key))
            })
            .collect();
        let unknown = (TableEngine::Other(String::new()), Vec::new());
        Ok(tables
            .iter()
            .map(|(database, name, engine, _, rows, bytes, _, parameters)| {
                let index = distributed_tables
                    .index_names(database, name)
                    .into_iter()
                    .find(|index| is_trace_index(of(database, index)));
                let unsuitable = unsuitable(name, engine, parameters).map(|unsuitable| unsuitable.reason);
                let unsuitable = unsuitable.or_else(|| {
                    let whole = distributed_tables.over(database, name)?;
                    Some(format!(
                        "it is the local table of one server behind the distributed table `{}.{}`: bind the \
                         distributed table",
                        whole.database, whole.name
                    ))
                });
                let proposal = if unsuitable.is_some() {
                    None
                } else {
                    let local = distributed_tables.find(database, name).map(|table| &table.local);
                    let local = local.map_or((database, name), |(database, name)| (database, name));
                    let (engine, sorting_key) = stored.get(&local).unwrap_or(&unknown);
                    propose(&Candidate {
                        database,
                        table: name,
                        columns: of(database, name),
                        stored_columns: of(local.0, local.1),
                        engine,
                        sorting_key,
                        trace_index: index,
                    })
                };
                TableSummary {
                    database: database.clone(),
                    name: name.clone(),
                    engine: engine.clone(),
                    rows: *rows,
                    bytes: *bytes,
                    product: proposal.as_ref().and_then(|_| product(of(database, name))),
                    proposal,
                    unsuitable,
                }
            })
            .collect())
    }
}
