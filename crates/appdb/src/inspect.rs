//! A look at a database before the service uses it: what it is, whether its schema fits, who else could read along.

use std::path::PathBuf;

use sqlx::Row as _;

use crate::database::{AppDb, Backend};
use crate::error::DbError;
use crate::migrations::{self, MIGRATIONS};
use crate::sqlite;

/// What a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DbInspection {
    /// Its kind and version, such as `PostgreSQL 15.8`.
    pub product: String,
    /// How its schema stands to this program.
    pub schema: SchemaState,
    /// Whether the connection is encrypted; `None` when it does not leave the machine.
    pub encrypted: Option<bool>,
    /// Whether the user that the service connects as is a superuser of the server.
    pub superuser: bool,
}

/// How a schema stands to this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaState {
    /// There is none; the next start makes it.
    Absent,
    /// It is the one that this program knows.
    Current,
    /// So many steps are missing; the next start applies them.
    Older(usize),
    /// It is another program's, or a newer one; the reason.
    Foreign(String),
}

impl AppDb {
    /// The file of an SQLite address; `None` for a server.
    pub fn file(url: &str) -> Option<PathBuf> {
        sqlite::path(url.strip_prefix("sqlite:")?).ok()
    }

    /// Connects and looks, without creating or changing anything.
    ///
    /// # Errors
    /// [`DbError::Configuration`] and [`DbError::Unavailable`] as [`AppDb::open`], and for an SQLite file that is missing.
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
                // Without addresses the connection is a local socket; with equal ones both ends are on one machine.
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
        Ok(DbInspection { product, schema, encrypted, superuser })
    }

    async fn schema_state(&self) -> Result<SchemaState, DbError> {
        let mut tx = self.begin_read().await?;
        let any = sqlx::query("SELECT version FROM schema_migrations LIMIT 1")
            .fetch_optional(tx.statements())
            .await;
        match any {
            Err(error) if migrations::is_missing_table(&error) => return Ok(SchemaState::Absent),
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
