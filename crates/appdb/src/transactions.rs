//! Transactions: snapshots for reading, changes, and appends to the audit log.

use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::{Any, Transaction};
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use crate::backend::Backend;
use crate::error::DbError;
use crate::fair_queue::QueuePermit;
use crate::postgres;
use crate::statements::MeteredConnection;
use crate::values::values;

/// A consistent snapshot for reading.
pub struct ReadTx {
    pub(crate) connection: MeteredConnection<Transaction<'static, Any>>,
}

/// A connection for one read statement: one snapshot without the round trips of a transaction.
pub(crate) type ReadConnection = MeteredConnection<PoolConnection<Any>>;

/// A write transaction. Writers of all replicas are serialized, so data that one of them reads stays true until it
/// commits (the last administrator, the end of the audit chain). Dropped without [`WriteTx::commit`], it changes
/// nothing. After a failed statement it can only be dropped. Its commit raises the epoch.
#[must_use = "a transaction that is not committed changes nothing"]
pub struct WriteTx {
    pub(crate) read: ReadTx,
    pub(crate) backend: Backend,
    pub(crate) _writer_guard: OwnedMutexGuard<()>,
    /// Released last: waiters for it wait for the writers' lock afterwards.
    pub(crate) _queue_permit: Option<QueuePermit>,
}

/// A write transaction that changes no input of an access decision: it appends audit records and records times of last use. Its
/// commit leaves the epoch as it is.
#[must_use = "a transaction that is not committed changes nothing"]
pub struct AppendTx(pub(crate) WriteTx);

/// Counts the changes that replicas commit, whether or not they affect access. If two snapshots have the same epoch, no change was
/// committed between them. Times of last use are not counted, nor is the expiry of a session or key, which writes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Epoch {
    /// Number of changes.
    pub changes: u64,
    /// Number of audit records since, by programs of versions that do not count changes; each may belong to one.
    pub uncounted: u64,
}

impl WriteTx {
    /// Commits the changes.
    ///
    /// # Errors
    /// [`DbError::OutcomeUnknown`] when the connection was lost during the commit: either all changes or none were
    /// made, and only reading them tells. Any other error: nothing has changed.
    pub async fn commit(mut self) -> Result<(), DbError> {
        if self.connection.transaction_metrics.usable {
            self.raise_epoch().await?;
        }
        self.finish().await
    }

    pub(crate) async fn raise_epoch(&mut self) -> Result<(), DbError> {
        let statement = "UPDATE audit_head SET epoch = epoch + 1, epoch_through = sequence WHERE id = 1";
        if self.connection.execute(statement, values![]).await? != 1 {
            return Err(DbError::Corrupt("the one row of `audit_head` is missing".to_owned()));
        }
        Ok(())
    }

    /// Commits without raising the epoch.
    pub(crate) async fn finish(self) -> Result<(), DbError> {
        // The order of the bindings decides the order of release: the last one is released first.
        let Self { read, backend, _queue_permit, _writer_guard } = self;
        let MeteredConnection { inner, transaction_metrics, .. } = read.connection;
        if !transaction_metrics.usable {
            return Err(DbError::Unavailable(
                "a statement of the transaction failed, so that nothing of it can be kept".to_owned(),
            ));
        }
        let result = match backend {
            Backend::Sqlite => inner.commit().await.map_err(DbError::from_commit_to_file),
            Backend::Postgres => match timeout(postgres::RESPONSE_TIMEOUT, inner.commit()).await {
                Ok(done) => done.map_err(DbError::from_commit),
                Err(_) => Err(DbError::OutcomeUnknown("the database does not answer".to_owned())),
            },
        };
        transaction_metrics.record_commit(result)
    }
}

impl AppendTx {
    /// Returns the transaction for reading.
    pub fn read(&mut self) -> &mut ReadTx {
        &mut self.0.read
    }

    /// Commits the records and times.
    ///
    /// # Errors
    /// Those of [`WriteTx::commit`].
    pub async fn commit(self) -> Result<(), DbError> {
        self.0.finish().await
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
