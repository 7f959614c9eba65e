//! Inspects a database before the service uses it: its product, its schema, its encryption and missing privileges.

use std::path::PathBuf;

use sqlx::Row as _;

use crate::backend::Backend;
use crate::database::AppDb;
use crate::error::{DbError, code};
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
        let (product, encrypted, superuser, missing_privileges) = match self.backend {
            Backend::Sqlite => {
                let version: String = tx.connection.one("SELECT sqlite_version()", values![]).await?;
                (format!("SQLite {version}"), None, false, Vec::new())
            }
            Backend::Postgres => {
                // Without addresses the connection is a local socket; with equal addresses both ends are on one
                // machine.
                let statement = "SELECT current_setting('server_version'), \
                     coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false), \
                     coalesce(host(inet_server_addr()) <> host(inet_client_addr()), false), \
                     coalesce((SELECT rolsuper FROM pg_roles WHERE rolname = current_user), false)";
                let found = tx.connection.rows(statement, values![]).await?;
                let row = found.first().ok_or(sqlx::Error::RowNotFound)?;
                let remote = row.try_get::<bool, _>(2)?;
                let encrypted = row.try_get::<bool, _>(1)?;
                let product = format!("PostgreSQL {}", row.try_get::<String, _>(0)?);
                let superuser = row.try_get::<bool, _>(3)?;
                let missing_privileges = missing_privileges(&mut tx, &schema).await?;
                (product, remote.then_some(encrypted), superuser, missing_privileges)
            }
        };
        Ok(DbInspection { product, schema, encrypted, superuser, missing_privileges })
    }

    async fn schema_state(&self) -> Result<SchemaState, DbError> {
        let mut tx = self.begin_read().await?;
        match tx.connection.rows("SELECT version FROM schema_migrations LIMIT 1", values![]).await {
            Err(error) if migrations::is_missing_table(&error) => return Ok(SchemaState::Absent),
            // `insufficient_privilege`
            Err(error) if code(&error).is_some_and(|code| code == "42501") => {
                return Ok(SchemaState::PermissionDenied);
            }
            found => found?,
        };
        match migrations::missing(&mut tx, self.backend, MIGRATIONS).await {
            Ok([]) => Ok(SchemaState::Current),
            Ok(missing) => Ok(SchemaState::Outdated(missing.len())),
            Err(DbError::Migration(reason)) => Ok(SchemaState::Incompatible(reason)),
            Err(error) => Err(error),
        }
    }
}

/// Returns statements that grant the privileges that the service lacks on a PostgreSQL server.
async fn missing_privileges(tx: &mut ReadTx, schema: &SchemaState) -> Result<Vec<String>, DbError> {
    let mut statements = Vec::new();
    let statement = "SELECT quote_ident(current_user) AS owner, quote_ident(coalesce(current_schema(), 'public')) AS place, \
         CAST(coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS INT)::BIGINT AS may_create";
    let (role, schema_name, may_create): (String, String, bool) =
        tx.connection.one(statement, values![]).await?;
    let changes = matches!(schema, SchemaState::Absent | SchemaState::Outdated(_));
    if changes && !may_create {
        statements.push(format!("GRANT USAGE, CREATE ON SCHEMA {schema_name} TO {role}"));
    }
    // The service creates missing tables itself and so owns them.
    let tables: Vec<&str> = migrations::tables().collect();
    let statement = "SELECT name, CAST(pg_has_role(relowner, 'USAGE') AS INT)::BIGINT AS own, \
         CAST(has_table_privilege(oid, 'SELECT') AS INT)::BIGINT AS \"SELECT\", \
         CAST(has_table_privilege(oid, 'INSERT') AS INT)::BIGINT AS \"INSERT\", \
         CAST(has_table_privilege(oid, 'UPDATE') AS INT)::BIGINT AS \"UPDATE\", \
         CAST(has_table_privilege(oid, 'DELETE') AS INT)::BIGINT AS \"DELETE\" \
         FROM unnest(string_to_array($1, ',')) AS name JOIN pg_class ON oid = to_regclass(name) ORDER BY name";
    let found = tx.connection.rows(statement, values![tables.join(",")]).await?;
    let (mut not_owned, mut restricted, mut lacking) = (Vec::new(), Vec::new(), Vec::new());
    for row in &found {
        let name: String = rows::get(row, "name")?;
        for privilege in TABLE_PRIVILEGES {
            if !rows::get::<bool>(row, privilege)? {
                lacking.push(privilege);
                restricted.push(name.clone());
            }
        }
        if !rows::get(row, "own")? {
            not_owned.push(name);
        }
    }
    restricted.dedup();
    if !restricted.is_empty() {
        let lacking: Vec<&str> =
            TABLE_PRIVILEGES.into_iter().filter(|privilege| lacking.contains(privilege)).collect();
        statements.push(format!("GRANT {} ON {} TO {role}", lacking.join(", "), restricted.join(", ")));
    }
    if matches!(schema, SchemaState::Outdated(_)) {
        // Only a table's owner may alter it.
        statements.extend(not_owned.iter().map(|table| format!("ALTER TABLE {table} OWNER TO {role}")));
    }
    Ok(statements)
}
