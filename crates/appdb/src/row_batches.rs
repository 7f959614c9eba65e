//! Writes and finds many rows with few statements: on a server each statement is a round trip, and other writers wait.

use sqlx::AssertSqlSafe;
use sqlx::any::AnyRow;

use crate::error::DbError;
use crate::transactions::{ReadTx, WriteTx};

/// Maximum number of parameters of one statement, below the 32,766 of SQLite and the 65,535 of PostgreSQL. More rows,
/// as the largest model files have, take several statements.
const PARAMETERS_MAX: usize = 30_000;

/// A value of a row.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Number(i64),
    Text(&'a str),
    /// An absent text. An absent number would need a type of its own.
    NullText,
}

impl<'a> Value<'a> {
    pub(crate) fn optional_text(text: Option<&'a str>) -> Self {
        text.map_or(Self::NullText, Self::Text)
    }
}

impl WriteTx {
    /// Inserts rows into `table`, a table and its columns (`table (a, b)`), in the order of the values. `conflict` is
    /// the `ON CONFLICT` clause for rows that exist; empty for an error.
    pub(crate) async fn insert_rows<const WIDTH: usize>(
        &mut self,
        table: &'static str,
        rows: &[[Value<'_>; WIDTH]],
        conflict: &'static str,
    ) -> Result<(), DbError> {
        for chunk in rows.chunks(PARAMETERS_MAX / WIDTH.max(1)) {
            let row_placeholders: Vec<String> =
                (0..chunk.len()).map(|row| placeholders(row, WIDTH)).collect();
            // The text contains no values.
            let statement = format!("INSERT INTO {table} VALUES {} {conflict}", row_placeholders.join(", "));
            let mut query = sqlx::query(AssertSqlSafe(statement));
            for value in chunk.iter().flatten() {
                query = match *value {
                    Value::Number(number) => query.bind(number),
                    Value::Text(text) => query.bind(text),
                    Value::NullText => query.bind(None::<&str>),
                };
            }
            query.execute(self.connection.statements()).await?;
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
            let mut query = sqlx::query(AssertSqlSafe(statement));
            for name in chunk {
                query = query.bind(*name);
            }
            deleted =
                deleted.saturating_add(query.execute(self.connection.statements()).await?.rows_affected());
        }
        Ok(deleted)
    }
}

/// Returns the rows whose column is one of `names`, each named once. `query_prefix` is the statement up to and including
/// that column, and `order` the rest of it. More names than fit one statement are split into several.
pub(crate) async fn select_where_in(
    tx: &mut ReadTx,
    query_prefix: &'static str,
    names: &[&str],
    order: &'static str,
) -> Result<Vec<AnyRow>, DbError> {
    let mut found = Vec::new();
    for chunk in names.chunks(PARAMETERS_MAX) {
        let statement = format!("{query_prefix} IN {} {order}", placeholders(0, chunk.len()));
        let mut query = sqlx::query(AssertSqlSafe(statement));
        for name in chunk {
            query = query.bind(*name);
        }
        found.extend(query.fetch_all(tx.connection.statements()).await?);
    }
    Ok(found)
}

/// Returns the parameters of row number `row` in parentheses: `($1, $2)` for the first of two values.
fn placeholders(row: usize, width: usize) -> String {
    let first = row.saturating_mul(width).saturating_add(1);
    let names: Vec<String> = (first..).take(width).map(|number| format!("${number}")).collect();
    format!("({})", names.join(", "))
}
