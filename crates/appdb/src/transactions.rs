//! Transactions: snapshots for reading, and writes.

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

/// A consistent snapshot for reading.
pub struct ReadTx {
    pub(crate) connection: MeteredConnection<Transaction<'static, Any>>,
}

/// A connection for one read statement: one snapshot without the round trips of a transaction.
pub(crate) type ReadConnection = MeteredConnection<PoolConnection<Any>>;

/// A write transaction. Writers of all replicas are serialized, so data that one of them reads stays true until it
/// commits (the last administrator, the end of the audit chain). Dropped without [`WriteTx::commit`], it changes
/// nothing. After a failed statement it can only be dropped.
#[must_use = "a transaction that is not committed changes nothing"]
pub struct WriteTx {
    pub(crate) read: ReadTx,
    pub(crate) backend: Backend,
    pub(crate) _writer_guard: OwnedMutexGuard<()>,
    /// Released last: waiters for it wait for the writers' lock afterwards.
    pub(crate) _queue_permit: Option<QueuePermit>,
}

impl WriteTx {
    /// Commits the changes.
    ///
    /// # Errors
    /// [`DbError::OutcomeUnknown`] when the connection was lost during the commit: either all changes or none were
    /// made, and only reading them tells. Any other error: nothing has changed.
    pub async fn commit(self) -> Result<(), DbError> {
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
