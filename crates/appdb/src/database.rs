//! Opening the database, and its transactions.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyPool, SqlSafeStr as _, Transaction};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;
use tracewarden_model::Timestamp;

use crate::error::DbError;
use crate::metrics::{Kind, Measured, Metrics};
use crate::migrations::{self, Migration};
use crate::statements::Statements;
use crate::turns::{Turn, Turns};
use crate::{postgres, sqlite};

/// Which database is underneath. The statements are the same for both; what differs is how one connects, how a
/// transaction begins, and a few steps of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Sqlite,
    Postgres,
}

impl Backend {
    fn patience(self) -> Duration {
        match self {
            Self::Sqlite => sqlite::PATIENCE,
            Self::Postgres => postgres::PATIENCE,
        }
    }

    fn answer_limit(self) -> Option<Duration> {
        match self {
            // A file does not vanish behind a network, and a statement that waits for a lock has its own limit.
            Self::Sqlite => None,
            Self::Postgres => Some(postgres::ANSWER_LIMIT),
        }
    }
}

enum Address {
    Sqlite(PathBuf),
    Postgres(String),
}

impl Address {
    fn parse(url: &str) -> Result<Self, DbError> {
        if let Some(rest) = url.strip_prefix("sqlite:") {
            return Ok(Self::Sqlite(sqlite::path(rest)?));
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Ok(Self::Postgres(postgres::address(url)?));
        }
        Err(DbError::Configuration(
            "the address must be `sqlite:PATH` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`".to_owned(),
        ))
    }
}

/// The service's own database. Cheap to clone.
#[derive(Clone)]
pub struct AppDb {
    pool: AnyPool,
    backend: Backend,
    // SQLite lets one writer in and is not fair about whom; waiting here instead keeps the order of arrival. On
    // PostgreSQL writers of other replicas wait in the server's own queue, and those of this one take no connection
    // from the readers while they wait.
    writers: Arc<Mutex<()>>,
    turns: Turns,
    metrics: Metrics,
}

/// One consistent snapshot for reading.
pub struct ReadTx {
    inner: Transaction<'static, Any>,
    pub(crate) measured: Measured,
    limit: Option<Duration>,
}

/// One statement that reads: one snapshot without the round trips of a transaction.
pub(crate) struct Glance {
    inner: PoolConnection<Any>,
    measured: Measured,
    limit: Option<Duration>,
}

/// A transaction that writes. Writers of all replicas are served one after another, so that what one reads stays true
/// until it commits (the last administrator, the end of the audit chain). Dropped without [`WriteTx::commit`], it
/// changes nothing; after a failed statement it can only be dropped.
#[must_use = "a transaction that is not committed changes nothing"]
pub struct WriteTx {
    read: ReadTx,
    backend: Backend,
    _turn: OwnedMutexGuard<()>,
    /// Given back last: whoever waits for it is behind those who wait for the other.
    _own_turn: Option<Turn>,
}

impl AppDb {
    /// Opens `sqlite:PATH` (the file is created with mode 0600 when it is missing) or `postgres://…`, and brings the
    /// schema up to date.
    ///
    /// # Errors
    /// [`DbError::Configuration`] for an address of another kind, or a file or server that cannot be used,
    /// [`DbError::Migration`] when the schema is not what this program knows, else [`DbError::Unavailable`].
    pub async fn open(url: &str, now: Timestamp) -> Result<Self, DbError> {
        let db = Self::connect(url, true).await?;
        db.migrate_with(migrations::MIGRATIONS, now).await?;
        db.catch_up(now).await?;
        Ok(db)
    }

    /// Opens a database whose schema is up to date; creates and changes nothing.
    ///
    /// # Errors
    /// As [`AppDb::open`]; [`DbError::Migration`] also when steps of the schema are missing.
    pub async fn open_existing(url: &str) -> Result<Self, DbError> {
        let db = Self::connect(url, false).await?;
        let mut tx = db.begin_read().await?;
        migrations::require_current(tx.statements(), db.backend, migrations::MIGRATIONS).await?;
        drop(tx);
        Ok(db)
    }

    /// Checks an address without connecting. Errors do not show it, since it may hold a password.
    ///
    /// # Errors
    /// [`DbError::Configuration`].
    pub fn check_url(url: &str) -> Result<(), DbError> {
        Address::parse(url).map(drop)
    }

    pub(crate) fn backend(&self) -> Backend {
        self.backend
    }

    pub(crate) async fn connect(url: &str, create: bool) -> Result<Self, DbError> {
        sqlx::any::install_default_drivers();
        let (pool, backend) = match Address::parse(url)? {
            Address::Sqlite(path) => (sqlite::connect(&path, create).await?, Backend::Sqlite),
            Address::Postgres(address) => (postgres::connect(&address).await?, Backend::Postgres),
        };
        let (writers, turns) = (Arc::new(Mutex::new(())), Turns::default());
        Ok(Self { pool, backend, writers, turns, metrics: Metrics::default() })
    }

    pub(crate) async fn migrate_with(
        &self,
        migrations: &'static [Migration],
        now: Timestamp,
    ) -> Result<(), DbError> {
        // The write lock lets one of several replicas that start together apply the steps; the others find them done.
        let mut tx = self.begin_write().await?;
        tx.read.limit = None;
        migrations::migrate(&mut tx, self.backend, migrations, now).await?;
        tx.commit().await
    }

    /// Begins a snapshot: it shows everything that any replica committed before this call.
    ///
    /// # Errors
    /// [`DbError::Unavailable`].
    pub async fn begin_read(&self) -> Result<ReadTx, DbError> {
        let begin = async {
            match self.backend {
                // In WAL mode all statements of a deferred transaction see one state.
                Backend::Sqlite => self.pool.begin().await,
                // By default each statement would see another state, and decisions rest on several statements.
                Backend::Postgres => self.pool.begin_with(postgres::BEGIN_READ).await,
            }
        };
        let waiting = self.metrics.waiting(Kind::Read);
        let begun = timeout(self.backend.patience(), begin).await.map_err(|_| busy());
        let (inner, measured) = waiting.ended(begun.and_then(|begun| Ok(begun?)))?;
        Ok(ReadTx { inner, measured, limit: self.backend.answer_limit() })
    }

    /// A connection for one statement that reads; like a snapshot, it shows what was committed before this call.
    ///
    /// # Errors
    /// [`DbError::Unavailable`].
    pub(crate) async fn begin_glance(&self) -> Result<Glance, DbError> {
        let waiting = self.metrics.waiting(Kind::Read);
        let begun = timeout(self.backend.patience(), self.pool.acquire()).await.map_err(|_| busy());
        let (inner, measured) = waiting.ended(begun.and_then(|begun| Ok(begun?)))?;
        Ok(Glance { inner, measured, limit: self.backend.answer_limit() })
    }

    /// Begins a transaction that writes; waits for the writers before it.
    ///
    /// # Errors
    /// [`DbError::Unavailable`], also when the wait is too long.
    pub async fn begin_write(&self) -> Result<WriteTx, DbError> {
        self.write_once(async { Ok(None) }).await
    }

    /// The same for one of many writes that somebody may ask for: of those under one name, one at a time stands among the
    /// writers. The others wait for it, for so long at most.
    ///
    /// # Errors
    /// As [`AppDb::begin_write`].
    pub async fn begin_write_of(&self, name: &str, patience: Duration) -> Result<WriteTx, DbError> {
        let own_turn = async {
            let turn = timeout(patience, self.turns.of(name)).await;
            turn.map(Some).map_err(|_| busy())
        };
        self.write_once(own_turn).await
    }

    /// Begins a transaction that writes once the caller's own turn has come.
    async fn write_once(
        &self,
        own_turn: impl Future<Output = Result<Option<Turn>, DbError>>,
    ) -> Result<WriteTx, DbError> {
        let begin = async {
            let turn = Arc::clone(&self.writers).lock_owned().await;
            let connection = self.pool.acquire().await?;
            let writing = begin_undisturbed(connection, self.backend, turn);
            // A statement waits less, unless the server has vanished without a word.
            let begun = tokio::spawn(timeout(2 * self.backend.patience(), writing)).await;
            // The error of a task has the text of a panic.
            begun
                .map_err(|_| DbError::Unavailable("the beginning of a transaction ended early".to_owned()))?
                .map_err(|_| busy())?
        };
        let begun = async {
            let own_turn = own_turn.await?;
            let begun = timeout(self.backend.patience(), begin).await.map_err(|_| busy());
            let (inner, turn) = begun.and_then(|begun| begun)?;
            Ok::<_, DbError>((inner, turn, own_turn))
        };
        let waiting = self.metrics.waiting(Kind::Write);
        let ((inner, turn, own_turn), measured) = waiting.ended(begun.await)?;
        let read = ReadTx { inner, measured, limit: self.backend.answer_limit() };
        Ok(WriteTx { read, backend: self.backend, _turn: turn, _own_turn: own_turn })
    }

    /// How long a transaction that writes may take to begin.
    pub fn patience(&self) -> Duration {
        self.backend.patience()
    }

    /// Names the counts of this database in a registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// Whether the database answers.
    ///
    /// # Errors
    /// [`DbError::Unavailable`].
    pub async fn ping(&self) -> Result<(), DbError> {
        let mut glance = self.begin_glance().await?;
        sqlx::query("SELECT version FROM schema_migrations LIMIT 1").fetch_one(glance.statement()).await?;
        Ok(())
    }

    /// Closes all connections; for an orderly shutdown.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Begins a transaction that writes, in a task that goes on when its caller has given up. A statement that waits for another
/// process keeps its connection until it has waited long enough, whoever has gone. The turn stays with it, so that it is one
/// connection that readers have to do without; else each further writer would take another.
async fn begin_undisturbed(
    connection: PoolConnection<Any>,
    backend: Backend,
    turn: OwnedMutexGuard<()>,
) -> Result<(Transaction<'static, Any>, OwnedMutexGuard<()>), DbError> {
    let statement = match backend {
        // A deferred transaction that reads first and writes later fails at once when another process wrote between.
        Backend::Sqlite => "BEGIN IMMEDIATE",
        Backend::Postgres => postgres::BEGIN_WRITE,
    };
    let mut inner = Transaction::begin(connection, Some(statement.into_sql_str())).await?;
    if backend == Backend::Postgres {
        sqlx::query(postgres::LOCK).execute(&mut *inner).await?;
    }
    Ok((inner, turn))
}

fn busy() -> DbError {
    DbError::Unavailable("the database does not answer, or too many are waiting for it".to_owned())
}

impl Glance {
    pub(crate) fn statement(&mut self) -> Statements<'_> {
        let Measured { sound, metrics, .. } = &mut self.measured;
        let executed = metrics.statements();
        Statements { connection: &mut self.inner, sound, limit: self.limit, executed }
    }
}

impl ReadTx {
    pub(crate) fn statements(&mut self) -> Statements<'_> {
        let Measured { sound, metrics, .. } = &mut self.measured;
        let executed = metrics.statements();
        Statements { connection: &mut self.inner, sound, limit: self.limit, executed }
    }
}

impl WriteTx {
    /// Makes the changes durable.
    ///
    /// # Errors
    /// [`DbError::OutcomeUnknown`] when the connection was lost on the way: the changes hold in full or not at all, and
    /// only reading them tells. Any other error: nothing has changed.
    pub async fn commit(self) -> Result<(), DbError> {
        // In this order: the last is given back first.
        let Self { read, backend, _own_turn, _turn } = self;
        let ReadTx { inner, measured, .. } = read;
        if !measured.sound {
            return Err(DbError::Unavailable(
                "a statement of the transaction failed, so that nothing of it can be kept".to_owned(),
            ));
        }
        let result = match backend {
            Backend::Sqlite => inner.commit().await.map_err(DbError::from_commit_to_file),
            Backend::Postgres => match timeout(postgres::ANSWER_LIMIT, inner.commit()).await {
                Ok(done) => done.map_err(DbError::from_commit),
                Err(_) => Err(DbError::OutcomeUnknown("the database does not answer".to_owned())),
            },
        };
        measured.committed(result)
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
