//! All that is in a database, read without knowing its tables: what a step loses or changes shows even where no other
//! test looks.

use std::collections::BTreeMap;

use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Column as _, Connection as _, Row as _};

use crate::fixture::Fixture;

/// Values by the name of their column. Texts are in quotes, so that none is a number or `NULL`.
pub type Values = BTreeMap<String, String>;

/// Rows in order, by the name of their table.
pub type Tables = BTreeMap<String, Vec<Values>>;

const NULL: &str = "NULL";

fn value(row: &AnyRow, column: usize) -> String {
    match row.try_get::<Option<i64>, _>(column) {
        Ok(number) => number.map_or_else(|| NULL.to_owned(), |number| number.to_string()),
        Err(_) => format!("{:?}", row.try_get::<String, _>(column).unwrap()),
    }
}

fn values(row: &AnyRow) -> Values {
    row.columns().iter().map(|column| (column.name().to_owned(), value(row, column.ordinal()))).collect()
}

/// All tables but that of the steps, to which every step adds.
pub async fn read(fixture: &Fixture) -> Tables {
    let look = match fixture {
        Fixture::Sqlite { .. } => "SELECT name FROM sqlite_master WHERE type = 'table'",
        Fixture::Postgres(_) => {
            "SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = current_schema()"
        }
    };
    let mut connection = fixture.connect().await;
    let names: Vec<(String,)> = sqlx::query_as(look).fetch_all(&mut connection).await.unwrap();
    let mut tables = Tables::new();
    for (name,) in names {
        if name == "schema_migrations" {
            continue;
        }
        let select = AssertSqlSafe(format!("SELECT * FROM {name}"));
        let found = sqlx::query(select).fetch_all(&mut connection).await.unwrap();
        let mut rows: Vec<Values> = found.iter().map(values).collect();
        rows.sort_unstable();
        tables.insert(name, rows);
    }
    connection.close().await.unwrap();
    tables
}

/// That there is something to lose in each table and each column: whoever adds one adds rows for the steps after it.
pub fn require_filled(tables: &Tables) {
    for (table, rows) in tables {
        assert!(!rows.is_empty(), "`{table}` is empty");
        for column in rows[0].keys() {
            assert!(rows.iter().any(|row| row[column] != NULL), "`{table}.{column}` is always NULL");
        }
    }
}

/// That every row is there as it was, and none beside them. Tables and columns may have been added.
pub fn require_kept(before: &Tables, now: &Tables) {
    for (table, rows) in before {
        let mut kept = now.get(table).cloned().unwrap_or_default();
        for row in &mut kept {
            row.retain(|column, _| rows[0].contains_key(column));
        }
        kept.sort_unstable();
        assert_eq!(&kept, rows, "`{table}`");
    }
}
