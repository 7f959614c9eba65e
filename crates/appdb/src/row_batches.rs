//! Writes and finds many rows with few statements: on a server each statement is a round trip, and other writers wait.

use sqlx::AssertSqlSafe;

use crate::error::DbError;
use crate::rows::FromRow;
use crate::transactions::{ReadTx, WriteTx};
use crate::values::Value;

/// Maximum number of parameters of one statement, below the 32,766 of SQLite and the 65,535 of PostgreSQL. More rows,
/// as the largest model files have, take several statements.
const PARAMETERS_MAX: usize = 30_000;

impl WriteTx {
    /// Inserts rows into `table`, a table and its columns (`table (a, b)`), in the order of the values. `conflict` is
    /// the `ON CONFLICT` clause for rows that exist; empty for an error.
    pub(crate) async fn insert_rows<const WIDTH: usize>(
        &mut self,
        table: &'static str,
        mut rows: Vec<[Value; WIDTH]>,
        conflict: &'static str,
    ) -> Result<(), DbError> {
        while !rows.is_empty() {
            let count = rows.len().min(PARAMETERS_MAX / WIDTH.max(1));
            let row_placeholders: Vec<String> =
                (0..count).map(|row| placeholders(row.saturating_mul(WIDTH), WIDTH)).collect();
            let values: Vec<Value> = rows.drain(..count).flatten().collect();
            // The text contains no values.
            let statement = format!("INSERT INTO {table} VALUES {} {conflict}", row_placeholders.join(", "));
            self.connection.execute(AssertSqlSafe(statement), values).await?;
        }
        Ok(())
    }

    /// Deletes the rows whose column is one of `names`. `query_prefix` is the statement up to and including that column.
    /// Returns the number of deleted rows.
    pub(crate) async fn delete_where_in(
        &mut self,
        query_prefix: &'static str,
        names: &[&str],
    ) -> Result<u64, DbError> {
        let mut deleted = 0_u64;
        for chunk in names.chunks(PARAMETERS_MAX) {
            let statement = format!("{query_prefix} IN {}", placeholders(0, chunk.len()));
            let values: Vec<Value> = chunk.iter().copied().map(Value::from).collect();
            deleted =
                deleted.saturating_add(self.connection.execute(AssertSqlSafe(statement), values).await?);
        }
        Ok(deleted)
    }
}

impl ReadTx {
    /// Returns the rows whose column is one of `names`, each named once. `query_prefix` is the statement up to and
    /// including that column, and `order` the rest of it. More names than fit one statement are split into several.
    pub(crate) async fn select_where_in<T: FromRow>(
        &mut self,
        query_prefix: &'static str,
        names: &[impl Copy + Into<Value>],
        order: &'static str,
    ) -> Result<Vec<T>, DbError> {
        let mut found = Vec::new();
        for chunk in names.chunks(PARAMETERS_MAX) {
            let statement = format!("{query_prefix} IN {} {order}", placeholders(0, chunk.len()));
            let values: Vec<Value> = chunk.iter().map(|name| (*name).into()).collect();
            found.extend(self.connection.all::<T>(AssertSqlSafe(statement), values).await?);
        }
        Ok(found)
    }
}

/// Returns `count` parameters after the first `before` ones in parentheses: `($1, $2)` for the first two.
pub(crate) fn placeholders(before: usize, count: usize) -> String {
    let names: Vec<String> = (before..).take(count).map(|at| format!("${}", at.saturating_add(1))).collect();
    format!("({})", names.join(", "))
}
