//! Opens the database and begins its transactions.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyPool, SqlSafeStr as _, Transaction};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;
use tracewarden_model::Timestamp;

use crate::backend::{Address, Backend};
use crate::error::DbError;
use crate::fair_queue::{FairQueue, QueuePermit};
use crate::metrics::{self, Labels, Metrics};
use crate::migrations::{self, Migration};
use crate::statements::MeteredConnection;
use crate::transactions::{AppendTx, ReadConnection, ReadTx, WriteTx};
use crate::values::values;
use crate::{postgres, sqlite};

/// The application database. Cheap to clone.
#[derive(Clone)]
pub struct AppDb {
    pool: AnyPool,
    pub(crate) backend: Backend,
    // SQLite admits one writer at a time and its choice is not fair; this mutex keeps the order of arrival. On
    // PostgreSQL, writers of other replicas wait in the server's queue, and waiting writers of this process take no
    // connection from its readers.
    writers: Arc<Mutex<()>>,
    fair_queue: FairQueue,
    metrics: Arc<Metrics>,
}

impl AppDb {
    /// Opens `sqlite:PATH` (the file is created with mode 0600 if it is missing) or `postgres://…` and applies missing
    /// migrations.
    ///
    /// # Errors
    /// [`DbError::Configuration`] for another kind of address, or a file or server that cannot be used;
    /// [`DbError::Migration`] when this program does not know the schema; otherwise [`DbError::Unavailable`].
    pub async fn open(url: &str, now: Timestamp) -> Result<Self, DbError> {
        let db = Self::connect(url, true).await?;
        db.migrate_with(migrations::MIGRATIONS, now).await?;
        db.record_missed_changes(now).await?;
        Ok(db)
    }

    /// Opens a database whose schema is up to date. Creates and changes nothing.
    ///
    /// # Errors
    /// As [`AppDb::open`]; also [`DbError::Migration`] when migrations are missing.
    pub async fn open_existing(url: &str) -> Result<Self, DbError> {
        let db = Self::connect(url, false).await?;
        let mut tx = db.begin_read().await?;
        migrations::require_current(&mut tx, db.backend).await?;
        drop(tx);
        Ok(db)
    }

    /// Checks an address without connecting. Errors do not contain the address, since it may hold a password.
    ///
    /// # Errors
    /// [`DbError::Configuration`].
    pub fn check_url(url: &str) -> Result<(), DbError> {
        Address::parse(url).map(drop)
    }

    pub(crate) async fn connect(url: &str, create: bool) -> Result<Self, DbError> {
        sqlx::any::install_default_drivers();
        let (pool, backend) = match Address::parse(url)? {
            Address::Sqlite(path) => (sqlite::connect(&path, create).await?, Backend::Sqlite),
            Address::Postgres(address) => (postgres::connect(&address).await?, Backend::Postgres),
        };
        let (writers, fair_queue) = (Arc::new(Mutex::new(())), FairQueue::default());
        Ok(Self { pool, backend, writers, fair_queue, metrics: Arc::default() })
    }

    pub(crate) async fn migrate_with(
        &self,
        migrations: &'static [Migration],
        now: Timestamp,
    ) -> Result<(), DbError> {
        // Of several replicas that start together, the write lock lets one apply the migrations; the others find them
        // applied.
        let mut tx = self.begin_write().await?;
        tx.connection.response_timeout = None;
        migrations::migrate(&mut tx, self.backend, migrations, now).await?;
        tx.finish().await
    }

    /// Begins a snapshot. It reflects everything that any replica committed before this call.
    pub async fn begin_read(&self) -> Result<ReadTx, DbError> {
        let begin = async {
            match self.backend {
                // In WAL mode, all statements of a deferred transaction see one state.
                Backend::Sqlite => self.pool.begin().await,
                // By default each statement would see another state, and access decisions use several statements.
                Backend::Postgres => self.pool.begin_with(postgres::BEGIN_READ).await,
            }
        };
        Ok(ReadTx { connection: self.metered(metrics::READ, begin).await? })
    }

    /// Begins within the time-out, and then measures the statements and limits their time.
    async fn metered<C>(
        &self,
        kind: Labels,
        begin: impl Future<Output = Result<C, sqlx::Error>>,
    ) -> Result<MeteredConnection<C>, DbError> {
        let begin = async { Ok(timeout(self.backend.timeout(), begin).await.map_err(|_| busy())??) };
        let (inner, transaction_metrics) = self.metrics.begin(kind, begin).await?;
        let response_timeout = self.backend.response_timeout();
        Ok(MeteredConnection { inner, transaction_metrics, response_timeout })
    }

    /// Acquires a connection for one read statement. Like a snapshot, it reflects everything committed before this
    /// call.
    pub(crate) async fn acquire_read(&self) -> Result<ReadConnection, DbError> {
        self.metered(metrics::READ, self.pool.acquire()).await
    }

    /// Begins a write transaction, after the writers before it.
    ///
    /// # Errors
    /// [`DbError::Unavailable`], also when the wait is too long.
    pub async fn begin_write(&self) -> Result<WriteTx, DbError> {
        self.begin_write_after(async { Ok(None) }).await
    }

    /// Begins a write transaction that only appends, after the writers before it.
    ///
    /// # Errors
    /// As [`AppDb::begin_write`].
    pub async fn begin_append(&self) -> Result<AppendTx, DbError> {
        Ok(AppendTx(self.begin_write().await?))
    }

    /// Begins a write transaction for one of many writes that users can request. Of the writes with the same name, only
    /// one at a time waits among all writers. The others wait for it, at most for `max_wait`.
    ///
    /// # Errors
    /// As [`AppDb::begin_write`].
    pub async fn begin_queued_write(&self, name: &str, max_wait: Duration) -> Result<WriteTx, DbError> {
        let queue_permit = async {
            let guard = timeout(max_wait, self.fair_queue.acquire(name)).await;
            guard.map(Some).map_err(|_| busy())
        };
        self.begin_write_after(queue_permit).await
    }

    /// Begins a write transaction after `queue_permit` has completed.
    async fn begin_write_after(
        &self,
        queue_permit: impl Future<Output = Result<Option<QueuePermit>, DbError>>,
    ) -> Result<WriteTx, DbError> {
        let begin = async {
            let guard = Arc::clone(&self.writers).lock_owned().await;
            let connection = self.pool.acquire().await?;
            let writing = begin_write_detached(connection, self.backend, guard);
            // A statement has a shorter limit. This one matters only when the server vanished without closing the
            // connection.
            let begun = tokio::spawn(timeout(2 * self.backend.timeout(), writing)).await;
            // The error of a task contains the text of a panic.
            begun
                .map_err(|_| DbError::Unavailable("the beginning of a transaction ended early".to_owned()))?
                .map_err(|_| busy())?
        };
        let begun = async {
            let queue_permit = queue_permit.await?;
            let begun = timeout(self.backend.timeout(), begin).await.map_err(|_| busy());
            let (inner, guard) = begun.and_then(|begun| begun)?;
            Ok::<_, DbError>((inner, guard, queue_permit))
        };
        let ((inner, guard, queue_permit), transaction_metrics) =
            self.metrics.begin(metrics::WRITE, begun).await?;
        let response_timeout = self.backend.response_timeout();
        let read = ReadTx { connection: MeteredConnection { inner, transaction_metrics, response_timeout } };
        Ok(WriteTx { read, backend: self.backend, _writer_guard: guard, _queue_permit: queue_permit })
    }

    /// Time-out for the beginning of a write transaction.
    pub fn timeout(&self) -> Duration {
        self.backend.timeout()
    }

    /// Registers the metrics of this database.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// Checks that the database answers.
    pub async fn ping(&self) -> Result<(), DbError> {
        let statement = "SELECT version FROM schema_migrations LIMIT 1";
        self.acquire_read().await?.one::<u64>(statement, values![]).await.map(drop)
    }

    /// Closes all connections, for a graceful shutdown.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Begins a write transaction in a task that continues after its caller has given up. A statement that waits for the
/// lock of another process keeps its connection until its own time-out. The task also keeps the writers' lock, so that
/// waiting writers never occupy more than one connection; otherwise each further writer would take another one from the
/// readers.
async fn begin_write_detached(
    connection: PoolConnection<Any>,
    backend: Backend,
    guard: OwnedMutexGuard<()>,
) -> Result<(Transaction<'static, Any>, OwnedMutexGuard<()>), DbError> {
    let statement = match backend {
        // A deferred transaction that reads first and writes later fails immediately if another process wrote in
        // between.
        Backend::Sqlite => "BEGIN IMMEDIATE",
        Backend::Postgres => postgres::BEGIN_WRITE,
    };
    let mut inner = Transaction::begin(connection, Some(statement.into_sql_str())).await?;
    if backend == Backend::Postgres {
        sqlx::query(postgres::WRITER_LOCK).execute(&mut *inner).await?;
    }
    Ok((inner, guard))
}

fn busy() -> DbError {
    DbError::Unavailable("the database does not answer, or too many requests are waiting for it".to_owned())
}
