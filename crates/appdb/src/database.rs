//! Opening the database, and its transactions.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::any::AnyPoolOptions;
use sqlx::{Any, AnyPool, Executor as _, Transaction};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tracewarden_model::Timestamp;

use crate::error::DbError;
use crate::migrations::{self, Migration};

/// How long a statement waits for a lock, and a caller for a connection.
const PATIENCE: Duration = Duration::from_secs(5);
const CONNECTIONS_MAX: u32 = 8;

/// The service's own database. Cheap to clone.
#[derive(Clone)]
pub struct AppDb {
    pool: AnyPool,
    // SQLite lets one writer in and is not fair about whom; waiting here instead keeps the order of arrival.
    writers: Arc<Mutex<()>>,
}

/// One consistent snapshot for reading.
pub struct ReadTx {
    inner: Transaction<'static, Any>,
}

/// A transaction that writes. Writers are served one after another, so that what one reads stays true until it commits
/// (the last administrator, the end of the audit chain). Dropped without [`WriteTx::commit`], it changes nothing.
#[must_use = "a transaction that is not committed changes nothing"]
pub struct WriteTx {
    read: ReadTx,
    _turn: OwnedMutexGuard<()>,
}

impl AppDb {
    /// Opens `sqlite:PATH`, creates the file with mode 0600 when it is missing, and brings the schema up to date.
    ///
    /// # Errors
    /// [`DbError::Configuration`] for an address of another kind or a file that cannot be used, [`DbError::Migration`]
    /// when the schema is not what this program knows, else [`DbError::Unavailable`].
    pub async fn open(url: &str, now: Timestamp) -> Result<Self, DbError> {
        let path = url
            .strip_prefix("sqlite://")
            .or_else(|| url.strip_prefix("sqlite:"))
            .filter(|path| !path.is_empty() && !path.starts_with(":memory:"))
            .ok_or_else(|| DbError::Configuration("the address must be `sqlite:PATH`".to_owned()))?;
        let path = std::path::absolute(path).map_err(|error| DbError::Configuration(error.to_string()))?;
        create_private(&path)?;
        sqlx::any::install_default_drivers();
        let pool = AnyPoolOptions::new()
            .max_connections(CONNECTIONS_MAX)
            .acquire_timeout(PATIENCE)
            .after_connect(|connection, _| {
                Box::pin(async move {
                    connection
                        .execute(
                            "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; \
                             PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF",
                        )
                        .await?;
                    Ok(())
                })
            })
            .connect(&sqlite_url(&path)?)
            .await?;
        let db = Self { pool, writers: Arc::new(Mutex::new(())) };
        db.migrate_with(migrations::MIGRATIONS, now).await?;
        Ok(db)
    }

    pub(crate) async fn migrate_with(
        &self,
        migrations: &'static [Migration],
        now: Timestamp,
    ) -> Result<(), DbError> {
        let mut tx = self.begin_write().await?;
        migrations::migrate(&mut tx.read.inner, migrations, now).await?;
        tx.commit().await
    }

    /// Begins a snapshot.
    ///
    /// # Errors
    /// [`DbError::Unavailable`].
    pub async fn begin_read(&self) -> Result<ReadTx, DbError> {
        // In WAL mode all statements of a deferred transaction see one state. A database whose default isolation shows
        // each statement another one must be asked for REPEATABLE READ here: decisions rest on several statements.
        Ok(ReadTx { inner: self.pool.begin().await? })
    }

    /// Begins a transaction that writes; waits for the writers before it.
    ///
    /// # Errors
    /// [`DbError::Unavailable`], also when the wait is too long.
    pub async fn begin_write(&self) -> Result<WriteTx, DbError> {
        let turn = tokio::time::timeout(PATIENCE, Arc::clone(&self.writers).lock_owned())
            .await
            .map_err(|_| DbError::Unavailable("too many writers are waiting".to_owned()))?;
        // A deferred transaction that reads first and writes later fails at once when another process wrote between.
        let inner = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        Ok(WriteTx { read: ReadTx { inner }, _turn: turn })
    }

    /// Whether the database answers.
    ///
    /// # Errors
    /// [`DbError::Unavailable`].
    pub async fn ping(&self) -> Result<(), DbError> {
        sqlx::query("SELECT version FROM schema_migrations LIMIT 1").fetch_one(&self.pool).await?;
        Ok(())
    }

    /// Closes all connections; for an orderly shutdown.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

impl ReadTx {
    pub(crate) fn connection(&mut self) -> &mut sqlx::AnyConnection {
        &mut self.inner
    }
}

impl WriteTx {
    /// Makes the changes durable.
    ///
    /// # Errors
    /// [`DbError::Unavailable`]: nothing has changed.
    pub async fn commit(self) -> Result<(), DbError> {
        Ok(self.read.inner.commit().await?)
    }
}

impl Deref for WriteTx {
    type Target = ReadTx;

    fn deref(&self) -> &ReadTx {
        &self.read
    }
}

impl DerefMut for WriteTx {
    fn deref_mut(&mut self) -> &mut ReadTx {
        &mut self.read
    }
}

/// The file holds password and token hashes: it must not be readable by others even for a moment, and SQLite gives its
/// side files the same mode.
fn create_private(path: &Path) -> Result<(), DbError> {
    let refuse = |error: std::io::Error| DbError::Configuration(format!("{}: {error}", path.display()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let file = options.open(path).map_err(refuse)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(refuse)?;
    }
    drop(file);
    Ok(())
}

fn sqlite_url(path: &Path) -> Result<String, DbError> {
    let text = path.to_str().ok_or_else(|| DbError::Configuration("the path is not UTF-8".to_owned()))?;
    let mut url = String::from("sqlite://");
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    url.push_str("?mode=rw");
    Ok(url)
}
