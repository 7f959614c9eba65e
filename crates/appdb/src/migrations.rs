//! The schema's history, embedded, and its check at every start.

use sha2::{Digest as _, Sha256};
use sqlx::{Any, Transaction};
use tracewarden_model::Timestamp;

use crate::error::DbError;
use crate::rows;

/// A step of the schema. Released steps never change: a database that was made by another text has another shape.
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "initial", sql: include_str!("../migrations/0001_initial.sql") },
    Migration {
        version: 2,
        name: "role_revision",
        sql: include_str!("../migrations/0002_role_revision.sql"),
    },
];

/// Brings the schema up to date inside `tx`, or refuses when what was applied is not what this program knows.
pub(crate) async fn migrate(
    tx: &mut Transaction<'static, Any>,
    migrations: &'static [Migration],
    now: Timestamp,
) -> Result<(), DbError> {
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS schema_migrations \
         (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL, applied_at BIGINT NOT NULL)",
    )
    .execute(&mut **tx)
    .await?;
    let applied = sqlx::query("SELECT version, sha256 FROM schema_migrations ORDER BY version")
        .fetch_all(&mut **tx)
        .await?;
    let mut known = migrations.iter();
    for row in &applied {
        let version = rows::integer(row, "version")?;
        let Some(migration) = known.next() else {
            return Err(DbError::Migration(format!(
                "step {version} was applied by a newer program than this one; start that one"
            )));
        };
        if migration.version != version {
            return Err(DbError::Migration(format!(
                "step {} ({}) is missing in the database",
                migration.version, migration.name
            )));
        }
        if rows::text(row, "sha256")? != checksum(migration.sql) {
            return Err(DbError::Migration(format!(
                "step {version} ({}) was edited after it had been applied",
                migration.name
            )));
        }
    }
    for migration in known {
        for statement in statements(migration.sql) {
            sqlx::query(statement).execute(&mut **tx).await?;
        }
        sqlx::query(
            "INSERT INTO schema_migrations (version, name, sha256, applied_at) VALUES ($1, $2, $3, $4)",
        )
        .bind(migration.version)
        .bind(migration.name)
        .bind(checksum(migration.sql))
        .bind(now.as_micros())
        .execute(&mut **tx)
        .await?;
    }
    Ok(())
}

fn checksum(sql: &str) -> String {
    hex::encode(Sha256::digest(sql.as_bytes()))
}

/// Statements end at a semicolon at the end of a line, so that no driver needs to accept several at once.
fn statements(sql: &'static str) -> impl Iterator<Item = &'static str> {
    sql.split(";\n").map(str::trim).filter(|statement| {
        statement.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with("--"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::AppDb;

    static EDITED: &[Migration] =
        &[Migration { version: 1, name: "initial", sql: "CREATE TABLE other (id TEXT);\n" }];
    static NONE: &[Migration] = &[];
    static RENUMBERED: &[Migration] =
        &[Migration { version: 2, name: "second", sql: "CREATE TABLE other (id TEXT);\n" }];

    #[tokio::test]
    async fn a_history_that_differs_refuses_to_start() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", directory.path().join("own.db").display());
        let now = Timestamp::from_micros(1);
        let db = AppDb::open(&url, now).await.unwrap();
        for (migrations, expected) in
            [(EDITED, "was edited"), (NONE, "newer program"), (RENUMBERED, "missing in the database")]
        {
            let error = db.migrate_with(migrations, now).await.unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        AppDb::open(&url, now).await.unwrap();
    }
}
