//! The entire contents of a database, read without knowledge of its tables. This detects data that a migration loses or
//! changes even if no other test covers it.

use std::collections::BTreeMap;

use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Column as _, Connection as _, Row as _};

use crate::fixture::Fixture;

/// Values by column name. Texts are quoted, so that none equals a number or `NULL`.
pub type Values = BTreeMap<String, String>;

/// Rows in order, by table name.
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

/// Reads all tables except the one of the migrations, to which every migration adds a row.
pub async fn read(fixture: &Fixture) -> Tables {
    let query = match fixture {
        Fixture::Sqlite { .. } => "SELECT name FROM sqlite_master WHERE type = 'table'",
        Fixture::Postgres(_) => {
            "SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = current_schema()"
        }
    };
    let mut connection = fixture.connect().await;
    let names: Vec<(String,)> = sqlx::query_as(query).fetch_all(&mut connection).await.unwrap();
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

/// Checks that every table and every column has data. A migration that adds one must come with rows for the migrations
/// after it.
pub fn require_filled(tables: &Tables) {
    for (table, rows) in tables {
        assert!(!rows.is_empty(), "`{table}` is empty");
        for column in rows[0].keys() {
            assert!(rows.iter().any(|row| row[column] != NULL), "`{table}.{column}` is always NULL");
        }
    }
}

/// Checks that all rows are unchanged and none are added, except that migrations count as a change. Tables and columns may have
/// been added.
pub fn require_kept(before: &Tables, now: &Tables) {
    for (table, rows) in before {
        let counts_changes = |column: &str| table == "audit_head" && column.starts_with("epoch");
        let is_kept = |column: &str| rows[0].contains_key(column) && !counts_changes(column);
        let sorted = |mut rows: Vec<Values>| {
            rows.iter_mut().for_each(|row| row.retain(|column, _| is_kept(column)));
            rows.sort_unstable();
            rows
        };
        let kept = now.get(table).cloned().unwrap_or_default();
        assert_eq!(sorted(kept), sorted(rows.clone()), "`{table}`");
    }
}
