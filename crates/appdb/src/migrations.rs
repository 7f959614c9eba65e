//! Embedded migrations of the schema, checked at every start.

use sha2::{Digest as _, Sha256};
use tracewarden_model::Timestamp;

use crate::backend::Backend;
use crate::error::{DbError, code};
use crate::rows;
use crate::transactions::{ReadTx, WriteTx};
use crate::values::values;

/// A migration. Released migrations never change: a database that was made with another text has another schema.
#[derive(Clone, Copy)]
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
    /// Statements for PostgreSQL only, after the others.
    pub(crate) postgres: &'static str,
}

/// A migration whose statements are in the file of its version and name, and its statements for PostgreSQL only.
macro_rules! migration {
    ($version:literal, $name:literal, $postgres:expr) => {
        Migration {
            version: $version,
            name: $name,
            sql: include_str!(concat!("../migrations/000", $version, "_", $name, ".sql")),
            postgres: $postgres,
        }
    };
}

pub(crate) const MIGRATIONS: &[Migration] = &[
    migration!(1, "initial", ""),
    migration!(2, "role_revision", ""),
    migration!(
        3,
        "narrowed_keys_audit_anchor",
        include_str!("../migrations/0003_bytewise_order.postgres.sql")
    ),
    migration!(4, "history", include_str!("../migrations/0004_bytewise_order.postgres.sql")),
    migration!(5, "role_names", ""),
    migration!(6, "audit_by_target", ""),
    migration!(7, "audit_epoch", ""),
    migration!(8, "identity", include_str!("../migrations/0008_bytewise_order.postgres.sql")),
];

/// Version of the migration that introduces the epoch.
const EPOCH_MIGRATION: i64 = 7;

/// Applies missing migrations inside `tx`. Fails if the applied migrations are not those that this program knows.
pub(crate) async fn migrate(
    tx: &mut WriteTx,
    backend: Backend,
    migrations: &'static [Migration],
    now: Timestamp,
) -> Result<(), DbError> {
    if !has_migrations_table(tx, backend).await? {
        let statement = "CREATE TABLE schema_migrations \
             (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL, applied_at BIGINT NOT NULL)";
        tx.connection.execute(statement, values![]).await?;
    }
    let missing = missing(tx, backend, migrations).await?;
    if backend == Backend::Postgres && !missing.is_empty() {
        // A migration of a large table may take any amount of time.
        tx.connection.execute("SET LOCAL statement_timeout = 0", values![]).await?;
    }
    for migration in missing {
        // Recorded before its statements run, so that they can read the time.
        let statement =
            "INSERT INTO schema_migrations (version, name, sha256, applied_at) VALUES ($1, $2, $3, $4)";
        let values = values![migration.version, migration.name, migration.checksum(backend), now];
        tx.connection.execute(statement, values).await?;
        for statement in migration.statements(backend) {
            tx.connection.execute(statement, values![]).await?;
        }
    }
    // A running replica may hold a decision whose inputs a step has changed.
    if missing.first().is_some_and(|first| first.version > EPOCH_MIGRATION) {
        tx.raise_epoch().await?;
    }
    Ok(())
}

/// Whether the table of migrations exists. `CREATE TABLE IF NOT EXISTS` would require PostgreSQL's privilege to create
/// tables even if nothing has to be created, and would log a notice at every start.
async fn has_migrations_table(tx: &mut WriteTx, backend: Backend) -> Result<bool, DbError> {
    let query = match backend {
        Backend::Sqlite => {
            "SELECT count(*) AS found FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'"
        }
        Backend::Postgres => "SELECT count(to_regclass('schema_migrations')) AS found",
    };
    Ok(tx.connection.one::<u64>(query, values![]).await? > 0)
}

/// Returns the names of the tables that the migrations create.
pub(crate) fn tables() -> impl Iterator<Item = &'static str> {
    let statements = MIGRATIONS.iter().flat_map(|step| step.statements(Backend::Postgres));
    let created = statements.filter_map(|statement| {
        statement.lines().find_map(|line| line.strip_prefix("CREATE TABLE "))?.split_whitespace().next()
    });
    std::iter::once("schema_migrations").chain(created)
}

/// Fails if the schema is missing or is not that of this program.
pub(crate) async fn require_current(tx: &mut ReadTx, backend: Backend) -> Result<(), DbError> {
    match missing(tx, backend, MIGRATIONS).await?.first() {
        None => Ok(()),
        Some(step) => Err(DbError::Migration(format!(
            "step {} ({}) has not been applied yet; start the service, which applies it",
            step.version, step.name
        ))),
    }
}

/// Returns the migrations still to apply. Fails if the applied ones are not the first ones of `migrations`.
pub(crate) async fn missing(
    tx: &mut ReadTx,
    backend: Backend,
    migrations: &'static [Migration],
) -> Result<&'static [Migration], DbError> {
    let statement = "SELECT version, sha256 FROM schema_migrations ORDER BY version";
    let applied = tx.connection.rows(statement, values![]).await;
    let applied = applied.map_err(|error| {
        if !is_missing_table(&error) {
            return error.into();
        }
        DbError::Migration(
            "the database contains no data of this service; start the service, which creates it".to_owned(),
        )
    })?;
    let newest = migrations.last().map_or(0, |migration| migration.version);
    let mut known = migrations.iter();
    for row in &applied {
        let version = rows::get::<i64>(row, "version")?;
        let Some(migration) = known.next().filter(|_| version <= newest) else {
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
        if rows::get::<String>(row, "sha256")? != migration.checksum(backend) {
            return Err(DbError::Migration(format!(
                "step {version} ({}) was edited after it had been applied",
                migration.name
            )));
        }
    }
    Ok(known.as_slice())
}

pub(crate) fn is_missing_table(error: &sqlx::Error) -> bool {
    /// PostgreSQL's `undefined_table`, and SQLite's `SQLITE_ERROR` for a statement that cannot be prepared.
    const CODES: [&str; 2] = ["42P01", "1"];
    code(error).is_some_and(|code| CODES.contains(&code.as_ref()))
}

impl Migration {
    fn postgres_part(&self, backend: Backend) -> &'static str {
        match backend {
            Backend::Sqlite => "",
            Backend::Postgres => self.postgres,
        }
    }

    fn checksum(&self, backend: Backend) -> String {
        let parts = Sha256::new().chain_update(self.sql).chain_update(self.postgres_part(backend));
        hex::encode(parts.finalize())
    }

    fn statements(&self, backend: Backend) -> impl Iterator<Item = &'static str> {
        statements(self.sql).chain(statements(self.postgres_part(backend)))
    }
}

/// Splits the text into statements, which end with a semicolon at the end of a line. Drivers need not accept several
/// statements at once.
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
        &[Migration { version: 1, name: "initial", sql: "CREATE TABLE other (id TEXT);\n", postgres: "" }];
    static NONE: &[Migration] = &[];
    static RENUMBERED: &[Migration] =
        &[Migration { version: 2, name: "second", sql: "CREATE TABLE other (id TEXT);\n", postgres: "" }];

    #[tokio::test]
    async fn the_tables_are_those_of_the_migrations() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", directory.path().join("own.db").display());
        let db = AppDb::open(&url, Timestamp::from_micros(1)).await.unwrap();
        let mut tx = db.begin_read().await.unwrap();
        let statement = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name";
        let found: Vec<String> = tx.connection.all(statement, values![]).await.unwrap();
        let mut tables: Vec<&str> = tables().collect();
        tables.sort_unstable();
        assert_eq!(found, tables);
    }

    #[tokio::test]
    async fn a_later_migration_raises_the_epoch() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", directory.path().join("own.db").display());
        let now = Timestamp::from_micros(1);
        let db = AppDb::open(&url, now).await.unwrap();
        let epoch = async || db.begin_append().await.unwrap().epoch().await.unwrap();
        let before = epoch().await;
        db.migrate_with(MIGRATIONS, now).await.unwrap();
        assert_eq!(epoch().await, before);
        let version = MIGRATIONS.len() as i64 + 1;
        let later =
            Migration { version, name: "later", sql: "CREATE TABLE other (id TEXT);\n", postgres: "" };
        let migrations = [MIGRATIONS, &[later]].concat().leak();
        db.migrate_with(migrations, now).await.unwrap();
        assert_ne!(epoch().await, before);
    }

    #[tokio::test]
    async fn a_different_migration_history_prevents_the_start() {
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
