//! Inspects a database before the service uses it: its product, its schema, its encryption and missing privileges.

use std::path::PathBuf;

use sqlx::Row as _;

use crate::backend::Backend;
use crate::database::AppDb;
use crate::error::DbError;
use crate::migrations::{self, MIGRATIONS};
use crate::rows;
use crate::sqlite;
use crate::transactions::ReadTx;
use crate::values::values;

/// Privileges that the service needs on its tables.
const TABLE_PRIVILEGES: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];

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
    pub missing_privileges: Vec<String>,
}

/// State of a schema relative to this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaState {
    /// There is none. The next start creates it.
    Absent,
    /// The schema is current.
    Current,
    /// This number of migrations is missing. The next start applies them.
    Outdated(usize),
    /// The schema belongs to another or a newer program; with the reason.
    Incompatible(String),
    /// There is one, but the user has no permission to read it.
    PermissionDenied,
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
                let version: String = tx.connection.one("SELECT sqlite_version()", values![]).await?;
                (format!("SQLite {version}"), None, false)
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
                .fetch_one(tx.connection.statements())
                .await?;
                let remote = row.try_get::<bool, _>(2)?;
                let encrypted = row.try_get::<bool, _>(1)?;
                let product = format!("PostgreSQL {}", row.try_get::<String, _>(0)?);
                (product, remote.then_some(encrypted), row.try_get::<bool, _>(3)?)
            }
        };
        let missing_privileges = match self.backend() {
            Backend::Sqlite => Vec::new(),
            Backend::Postgres => missing_privileges(&mut tx, &schema).await?,
        };
        Ok(DbInspection { product, schema, encrypted, superuser, missing_privileges })
    }

    async fn schema_state(&self) -> Result<SchemaState, DbError> {
        let mut tx = self.begin_read().await?;
        let any = sqlx::query("SELECT version FROM schema_migrations LIMIT 1")
            .fetch_optional(tx.connection.statements())
            .await;
        match any {
            Err(error) if migrations::is_missing_table(&error) => return Ok(SchemaState::Absent),
            Err(error) if is_forbidden(&error) => return Ok(SchemaState::PermissionDenied),
            found => found?,
        };
        match migrations::missing(tx.connection.statements(), self.backend(), MIGRATIONS).await {
            Ok([]) => Ok(SchemaState::Current),
            Ok(missing) => Ok(SchemaState::Outdated(missing.len())),
            Err(DbError::Migration(reason)) => Ok(SchemaState::Incompatible(reason)),
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
async fn missing_privileges(tx: &mut ReadTx, schema: &SchemaState) -> Result<Vec<String>, DbError> {
    let mut statements = Vec::new();
    let row = sqlx::query(
        "SELECT quote_ident(current_user) AS owner, quote_ident(coalesce(current_schema(), 'public')) AS place, \
         CAST(coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS INT)::BIGINT AS may_create",
    )
    .fetch_one(tx.connection.statements())
    .await?;
    let (role, schema_name) = (rows::get::<String>(&row, "owner")?, rows::get::<String>(&row, "place")?);
    let changes = matches!(schema, SchemaState::Absent | SchemaState::Outdated(_));
    if changes && !rows::get(&row, "may_create")? {
        statements.push(format!("GRANT USAGE, CREATE ON SCHEMA {schema_name} TO {role}"));
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
    .fetch_all(tx.connection.statements())
    .await?;
    let mut not_owned = Vec::new();
    let mut restricted = Vec::new();
    let mut lacking = [false; TABLE_PRIVILEGES.len()];
    for row in &found {
        let name: String = rows::get(row, "name")?;
        let privileges = TABLE_PRIVILEGES.map(|privilege| rows::get::<bool>(row, privilege));
        let mut all = true;
        for (lacks, privilege) in lacking.iter_mut().zip(privileges) {
            let has = privilege?;
            *lacks |= !has;
            all &= has;
        }
        if !all {
            restricted.push(name.clone());
        }
        if !rows::get(row, "own")? {
            not_owned.push(name);
        }
    }
    if !restricted.is_empty() {
        let privileges: Vec<&str> = TABLE_PRIVILEGES
            .into_iter()
            .zip(lacking)
            .filter_map(|(privilege, lacks)| lacks.then_some(privilege))
            .collect();
        statements.push(format!("GRANT {} ON {} TO {role}", privileges.join(", "), restricted.join(", ")));
    }
    if matches!(schema, SchemaState::Outdated(_)) {
        // Only a table's owner may alter it.
        statements.extend(not_owned.iter().map(|table| format!("ALTER TABLE {table} OWNER TO {role}")));
    }
    Ok(statements)
}
