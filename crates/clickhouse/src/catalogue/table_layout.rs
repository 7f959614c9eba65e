//! Reading of table layouts from ClickHouse.

use super::Catalogue;
use crate::schema::{Layout, Projection, SkipIndex, TableEngine, column_named, split_list, with_keys};
use crate::sql::Statement;
use crate::{ClickHouseError, Column, Result};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

/// How long a layout is cached: changes are noticed well within a minute.
const CACHE_TTL: Duration = Duration::from_secs(30);

impl Catalogue {
    /// Returns the layout of a table, not older than half a minute.
    ///
    /// # Errors
    /// When ClickHouse fails. A system table that cannot be read is no error: see [`Layout::unknown`].
    pub(crate) async fn layout(&self, database: &str, table: &str) -> Result<Arc<Layout>> {
        let (catalogue, key) = (self.clone(), (database.to_owned(), table.to_owned()));
        let (database, table) = key.clone();
        let from_system_table =
            Box::pin(async move { catalogue.current_layout(&database, &table).await.map(Arc::new) });
        self.layouts.get(key, CACHE_TTL, from_system_table).await
    }

    /// Returns the layout of a table that was last read, without reading it.
    pub(crate) fn cached_layout(&self, database: &str, table: &str) -> Option<Arc<Layout>> {
        self.layouts.peek(&(database.to_owned(), table.to_owned()))
    }

    /// Reads the current layout of a table.
    ///
    /// # Errors
    /// When ClickHouse fails.
    pub(crate) async fn current_layout(&self, database: &str, table: &str) -> Result<Layout> {
        let mut layout = self.read_layout(database, table).await?;
        if let Some((local_database, local)) = layout.engine.local_table(database) {
            let local = self.read_layout(local_database, local).await?;
            if matches!(local.engine, TableEngine::MergeTree { .. }) {
                layout.unknown.clone_from(&local.unknown);
                layout.indexes.clone_from(&local.indexes);
                layout.projections.clone_from(&local.projections);
                layout.sorting_key.clone_from(&local.sorting_key);
                layout.partition_key.clone_from(&local.partition_key);
                layout.rows = local.rows;
                // The tables of the other servers cannot be seen, so the distributed table must declare the column, too.
                for column in &mut layout.columns {
                    let local_column = column_named(&local.columns, &column.name);
                    let local_key = local_column.and_then(|column| column.key.as_ref());
                    column.key = column.key.take().filter(|key| local_key == Some(key));
                }
                layout.local = Some(Arc::new(local));
            } else {
                layout.columns.iter_mut().for_each(|column| column.key = None);
            }
        }
        Ok(layout)
    }

    async fn read_layout(&self, database: &str, table: &str) -> Result<Layout> {
        let table_statement = |select: &str, name: &str, rest: &str| {
            let mut statement = Statement::default();
            let (database, table) = (statement.string(database), statement.string(table));
            statement.push(&format!("{select} WHERE database = {database} AND {name} = {table}{rest}"));
            statement
        };
        let tables = table_statement(
            "SELECT engine, engine_full, sorting_key, partition_key, total_rows FROM system.tables",
            "name",
            "",
        );
        type TableRow = (String, String, String, String, Option<u64>);
        let columns = table_statement(
            "SELECT name, type, default_kind, default_expression FROM system.columns",
            "table",
            " ORDER BY position",
        );
        let indexes = table_statement(
            "SELECT name, type_full, expr, granularity, data_compressed_bytes FROM system.data_skipping_indices",
            "table",
            "",
        );
        let projections = table_statement(
            "SELECT name, type = 'Normal', sorting_key, query FROM system.projections",
            "table",
            "",
        );
        let (tables, columns, indexes, projections) = futures::try_join!(
            self.client.rows::<TableRow>(tables),
            self.client.rows::<(String, String, String, String)>(columns),
            self.optional_system_rows::<SkipIndex>(indexes),
            self.optional_system_rows::<Projection>(projections),
        )?;
        let unknown = indexes.is_none().then_some("system.data_skipping_indices").into_iter();
        let unknown = unknown.chain(projections.is_none().then_some("system.projections")).collect();
        let (engine, full, sorting_key, partition_key, rows) = tables.into_iter().next().unwrap_or_default();
        let columns = columns.into_iter().map(|(name, type_text, default_kind, default_expression)| Column {
            default_kind,
            default_expression,
            ..Column::new(name, type_text)
        });
        Ok(Layout {
            engine: TableEngine::from_system_table(&engine, &full),
            columns: with_keys(columns.collect()),
            indexes: indexes.unwrap_or_default(),
            projections: projections.unwrap_or_default(),
            sorting_key: split_list(&sorting_key).into_iter().map(str::to_owned).collect(),
            partition_key,
            rows,
            unknown,
            local: None,
        })
    }

    /// Returns rows of an optional system table: `None` when the user may not read it (497), or when this version of
    /// ClickHouse lacks the table (60) or these columns (47).
    pub(crate) async fn optional_system_rows<T: DeserializeOwned + Send + 'static>(
        &self,
        statement: Statement,
    ) -> Result<Option<Vec<T>>> {
        match self.client.rows(statement).await {
            Ok(rows) => Ok(Some(rows)),
            Err(ClickHouseError::Exception { code: Some(497 | 60 | 47), .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
