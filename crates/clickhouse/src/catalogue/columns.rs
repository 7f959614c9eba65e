//! Reading of columns and engines of tables from ClickHouse.

use super::Catalogue;
use crate::schema::{TableEngine, column_named, parse_items_expression, with_keys};
use crate::sql::Statement;
use crate::{Column, Result};

impl Catalogue {
    /// Returns the columns of a table, in its order; none when the table does not exist.
    ///
    /// # Errors
    /// When ClickHouse fails.
    pub async fn columns(&self, database: &str, table: &str) -> Result<Vec<Column>> {
        let [columns] = self.columns_of(database, [table]).await?;
        Ok(columns)
    }

    /// Returns the columns of several tables of a database, with one statement.
    ///
    /// # Errors
    /// When ClickHouse fails.
    pub(crate) async fn columns_of<const N: usize>(
        &self,
        database: &str,
        tables: [&str; N],
    ) -> Result<[Vec<Column>; N]> {
        let mut statement = Statement::default();
        let in_database = statement.string(database);
        let of_tables = tables.map(|table| statement.string(table)).join(", ");
        let [engines, one] = statement.aliases(["engines", "one"]);
        statement.push(&format!(
            "WITH (SELECT groupArray((name, engine, if(engine = 'Distributed', engine_full, ''))) FROM system.tables \
             WHERE database = {in_database} AND name IN ({of_tables})) AS {engines} \
             SELECT table, name, type, default_kind, if(default_kind IN ('MATERIALIZED', 'ALIAS'), default_expression, ''), \
             arrayFirst({one} -> {one}.1 = table, {engines}) FROM system.columns \
             WHERE database = {in_database} AND table IN ({of_tables}) AND default_kind != 'EPHEMERAL' \
             ORDER BY table, position"
        ));
        type Row = (String, String, String, String, String, (String, String, String));
        let rows: Vec<Row> = self.client.rows(statement).await?;
        let mut found = tables.map(|_| Vec::new());
        for (slot, table) in found.iter_mut().zip(tables) {
            let rows = || rows.iter().filter(|(of_table, ..)| of_table == table);
            if let Some((.., (_, engine, full))) = rows().next() {
                // Boxed because it is large, to keep it out of every caller's future.
                Box::pin(self.verify_servers_of(&TableEngine::from_system_table(engine, full))).await?;
            }
            let columns = rows().map(|(_, name, type_text, kind, expression, (_, engine, _))| Column {
                default_kind: kind.clone(),
                default_expression: expression.clone(),
                omitted: kind == "ALIAS",
                in_parts: engine.ends_with("MergeTree"),
                ..Column::new(name.clone(), type_text.clone())
            });
            let columns = self.verify_on_local_table(database, table, with_keys(columns.collect())).await?;
            *slot = self.with_items(database, table, columns).await?;
        }
        Ok(found)
    }

    /// Finds the aliases that list the entries of a map and have a text index, as the newest tables of the OpenTelemetry exporter
    /// have.
    async fn with_items(&self, database: &str, table: &str, mut columns: Vec<Column>) -> Result<Vec<Column>> {
        let map_of = |column: &Column| {
            let map = parse_items_expression(&column.default_expression)?;
            (column.default_kind == "ALIAS" && column.type_text == "Array(String)").then_some(map)
        };
        if columns.iter().all(|column| map_of(column).is_none()) {
            return Ok(columns);
        }
        let layout = self.layout(database, table).await?;
        for column in &mut columns {
            column.items_of = map_of(column).filter(|_| layout.has_text_index(column));
        }
        Ok(columns)
    }

    /// Clears the keys of columns of a distributed table that the table behind it lacks or defines in another form, or when
    /// that table cannot be seen: the declaration does not decide the answer. Materialized columns that the table behind it
    /// lacks cannot be read at all.
    async fn verify_on_local_table(
        &self,
        database: &str,
        table: &str,
        columns: Vec<Column>,
    ) -> Result<Vec<Column>> {
        if columns.iter().all(|column| column.in_parts || (column.key.is_none() && !column.is_derived())) {
            return Ok(columns);
        }
        let layout = self.layout(database, table).await?;
        let is_distributed = matches!(layout.engine, TableEngine::Distributed { .. });
        let is_in_local_table = |column: &Column| {
            layout.local.as_ref().is_some_and(|local| column_named(&local.columns, &column.name).is_some())
        };
        let declared = |column: &Column| {
            column_named(&layout.columns, &column.name).is_some_and(|declared| declared.key == column.key)
        };
        let columns = columns.into_iter().map(|column| Column {
            omitted: column.omitted || (is_distributed && column.is_derived() && !is_in_local_table(&column)),
            key: column.key.clone().filter(|_| declared(&column)),
            ..column
        });
        Ok(columns.collect())
    }
}
