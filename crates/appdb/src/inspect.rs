//! Inspects a database before the service uses it: its product, its schema, its encryption and missing privileges.

use std::path::PathBuf;

use sqlx::Row as _;

use crate::database::{AppDb, Backend, ReadTx};
use crate::error::DbError;
use crate::migrations::{self, MIGRATIONS};
use crate::rows;
use crate::sqlite;

/// Privileges that the service needs on its tables.
const TABLE_RIGHTS: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];

/// Properties of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DbInspection {
    /// Product and version, such as `PostgreSQL 15.8`.
    pub product: String,
    /// State of the schema.
    pub schema: SchemaState,
    /// Whether the connection is encrypted; `None` if it does not leave the machine.
    pub encrypted: Option<bool>,
    /// Whether the user that the service connects as is a superuser of the server.
    pub superuser: bool,
    /// Statements that grant the service's user its missing privileges. A user with sufficient privileges must run
    /// them.
    pub missing_rights: Vec<String>,
}

/// State of a schema relative to this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaState {
    /// There is none. The next start creates it.
    Absent,
    /// The schema is current.
    Current,
    /// This number of migrations is missing. The next start applies them.
    Older(usize),
    /// The schema belongs to another or a newer program; with the reason.
    Foreign(String),
    /// There is one, but the user has no permission to read it.
    Hidden,
}

impl AppDb {
    /// Returns the file of an SQLite address; `None` for a server.
    pub fn file(url: &str) -> Option<PathBuf> {
        sqlite::path(url.strip_prefix("sqlite:")?).ok()
    }

    /// Connects and inspects, without creating or changing anything.
    ///
    /// # Errors
    /// [`DbError::Configuration`] and [`DbError::Unavailable`] as for [`AppDb::open`], also for a missing SQLite file.
    pub async fn inspect(url: &str) -> Result<DbInspection, DbError> {
        let db = Self::connect(url, false).await?;
        let inspection = db.inspection().await;
        db.close().await;
        inspection
    }

    async fn inspection(&self) -> Result<DbInspection, DbError> {
        let schema = self.schema_state().await?;
        let mut tx = self.begin_read().await?;
        let (product, encrypted, superuser) = match self.backend() {
            Backend::Sqlite => {
                let row = sqlx::query("SELECT sqlite_version()").fetch_one(tx.statements()).await?;
                (format!("SQLite {}", row.try_get::<String, _>(0)?), None, false)
            }
            Backend::Postgres => {
                // Without addresses the connection is a local socket; with equal addresses both ends are on one
                // machine.
                let row = sqlx::query(
                    "SELECT current_setting('server_version'), \
                     coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false), \
                     coalesce(host(inet_server_addr()) <> host(inet_client_addr()), false), \
                     coalesce((SELECT rolsuper FROM pg_roles WHERE rolname = current_user), false)",
                )
                .fetch_one(tx.statements())
                .await?;
                let far = row.try_get::<bool, _>(2)?;
                let encrypted = row.try_get::<bool, _>(1)?;
                let product = format!("PostgreSQL {}", row.try_get::<String, _>(0)?);
                (product, far.then_some(encrypted), row.try_get::<bool, _>(3)?)
            }
        };
        let missing_rights = match self.backend() {
            Backend::Sqlite => Vec::new(),
            Backend::Postgres => missing_rights(&mut tx, &schema).await?,
        };
        Ok(DbInspection { product, schema, encrypted, superuser, missing_rights })
    }

    async fn schema_state(&self) -> Result<SchemaState, DbError> {
        let mut tx = self.begin_read().await?;
        let any = sqlx::query("SELECT version FROM schema_migrations LIMIT 1")
            .fetch_optional(tx.statements())
            .await;
        match any {
            Err(error) if migrations::is_missing_table(&error) => return Ok(SchemaState::Absent),
            Err(error) if is_forbidden(&error) => return Ok(SchemaState::Hidden),
            found => found?,
        };
        match migrations::missing(tx.statements(), self.backend(), MIGRATIONS).await {
            Ok([]) => Ok(SchemaState::Current),
            Ok(missing) => Ok(SchemaState::Older(missing.len())),
            Err(DbError::Migration(reason)) => Ok(SchemaState::Foreign(reason)),
            Err(error) => Err(error),
        }
    }
}

fn is_forbidden(error: &sqlx::Error) -> bool {
    /// `insufficient_privilege`.
    const CODE: &str = "42501";
    error.as_database_error().and_then(|inner| inner.code()).is_some_and(|code| code == CODE)
}

/// Returns statements that grant the privileges that the service lacks on a PostgreSQL server.
async fn missing_rights(tx: &mut ReadTx, schema: &SchemaState) -> Result<Vec<String>, DbError> {
    let mut statements = Vec::new();
    let row = sqlx::query(
        "SELECT quote_ident(current_user) AS owner, quote_ident(coalesce(current_schema(), 'public')) AS place, \
         CAST(coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS INT)::BIGINT AS may_create",
    )
    .fetch_one(tx.statements())
    .await?;
    let (role, place) = (rows::text(&row, "owner")?, rows::text(&row, "place")?);
    let changes = matches!(schema, SchemaState::Absent | SchemaState::Older(_));
    if changes && !rows::boolean(&row, "may_create")? {
        statements.push(format!("GRANT USAGE, CREATE ON SCHEMA {place} TO {role}"));
    }
    // The service creates missing tables itself and so owns them.
    let tables: Vec<&str> = migrations::tables().collect();
    let found = sqlx::query(
        "SELECT name, CAST(pg_has_role(relowner, 'USAGE') AS INT)::BIGINT AS own, \
         CAST(has_table_privilege(oid, 'SELECT') AS INT)::BIGINT AS \"SELECT\", \
         CAST(has_table_privilege(oid, 'INSERT') AS INT)::BIGINT AS \"INSERT\", \
         CAST(has_table_privilege(oid, 'UPDATE') AS INT)::BIGINT AS \"UPDATE\", \
         CAST(has_table_privilege(oid, 'DELETE') AS INT)::BIGINT AS \"DELETE\" \
         FROM unnest(string_to_array($1, ',')) AS name JOIN pg_class ON oid = to_regclass(name) ORDER BY name",
    )
    .bind(tables.join(","))
    .fetch_all(tx.statements())
    .await?;
    let mut foreign = Vec::new();
    let mut closed = Vec::new();
    let mut lacking = [false; TABLE_RIGHTS.len()];
    for row in &found {
        let name = rows::text(row, "name")?;
        let rights = TABLE_RIGHTS.map(|right| rows::boolean(row, right));
        let mut all = true;
        for (lacks, right) in lacking.iter_mut().zip(rights) {
            let has = right?;
            *lacks |= !has;
            all &= has;
        }
        if !all {
            closed.push(name.clone());
        }
        if !rows::boolean(row, "own")? {
            foreign.push(name);
        }
    }
    if !closed.is_empty() {
        let rights: Vec<&str> = TABLE_RIGHTS
            .into_iter()
            .zip(lacking)
            .filter_map(|(right, lacks)| lacks.then_some(right))
            .collect();
        statements.push(format!("GRANT {} ON {} TO {role}", rights.join(", "), closed.join(", ")));
    }
    if matches!(schema, SchemaState::Older(_)) {
        // Only a table's owner may alter it.
        statements.extend(foreign.iter().map(|table| format!("ALTER TABLE {table} OWNER TO {role}")));
    }
    Ok(statements)
}
