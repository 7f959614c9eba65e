//! Runs statements on a connection: limits their duration, records failures and reads the rows.

use std::ops::DerefMut;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, SqlSafeStr};
use tokio::time::timeout;

use crate::error::DbError;
use crate::metrics::TransactionMetrics;
use crate::rows::FromRow;
use crate::values::{Value, query};

/// A connection with the metrics and the time-out of its statements.
pub(crate) struct MeteredConnection<C> {
    pub(crate) inner: C,
    pub(crate) transaction_metrics: TransactionMetrics,
    /// Time-out: a server that vanished without closing the connection never answers.
    pub(crate) response_timeout: Option<Duration>,
}

impl<C: DerefMut<Target = AnyConnection>> MeteredConnection<C> {
    /// Counts a statement that is about to run: on a server each one is a round trip. Returns whether all statements
    /// before it succeeded, which holds again when it has succeeded. After a failure PostgreSQL ignores further
    /// statements, answers `COMMIT` with a rollback and reports success; SQLite continues and commits the rest. Neither
    /// may be taken for a successful commit of the whole change.
    fn start(&mut self) -> bool {
        self.transaction_metrics.metrics.statements.inc();
        std::mem::replace(&mut self.transaction_metrics.usable, false)
    }

    /// Runs a statement and returns the number of rows that it changed.
    pub(crate) async fn execute(
        &mut self,
        statement: impl SqlSafeStr,
        values: impl Into<Vec<Value>>,
    ) -> Result<u64, DbError> {
        let was_usable = self.start();
        let done = query(statement, values).execute(&mut *self.inner);
        let done = with_timeout(self.response_timeout, done).await?;
        self.transaction_metrics.usable = was_usable;
        Ok(done.rows_affected())
    }

    /// Returns all rows, or the error of the driver.
    pub(crate) async fn rows(
        &mut self,
        statement: impl SqlSafeStr,
        values: impl Into<Vec<Value>>,
    ) -> Result<Vec<AnyRow>, sqlx::Error> {
        let was_usable = self.start();
        let rows = query(statement, values).fetch_all(&mut *self.inner);
        let rows = with_timeout(self.response_timeout, rows).await?;
        self.transaction_metrics.usable = was_usable;
        Ok(rows)
    }

    /// Returns all rows.
    pub(crate) async fn all<T: FromRow>(
        &mut self,
        statement: impl SqlSafeStr,
        values: impl Into<Vec<Value>>,
    ) -> Result<Vec<T>, DbError> {
        self.rows(statement, values).await?.iter().map(T::from_row).collect()
    }

    /// Returns the row, if there is one.
    pub(crate) async fn optional<T: FromRow>(
        &mut self,
        statement: impl SqlSafeStr,
        values: impl Into<Vec<Value>>,
    ) -> Result<Option<T>, DbError> {
        self.rows(statement, values).await?.first().map(T::from_row).transpose()
    }

    /// Returns the only row.
    pub(crate) async fn one<T: FromRow>(
        &mut self,
        statement: impl SqlSafeStr,
        values: impl Into<Vec<Value>>,
    ) -> Result<T, DbError> {
        self.optional(statement, values).await?.ok_or_else(|| sqlx::Error::RowNotFound.into())
    }

    /// Returns the rows one by one, so that they are not all in memory.
    pub(crate) fn stream<'c, T: FromRow + 'c>(
        &'c mut self,
        statement: impl SqlSafeStr,
        values: impl Into<Vec<Value>>,
    ) -> BoxStream<'c, Result<T, DbError>> {
        let was_usable = self.start();
        let (usable, response_timeout) = (&mut self.transaction_metrics.usable, self.response_timeout);
        let rows = query(statement, values).fetch(&mut *self.inner);
        stream::try_unfold((rows, usable), move |(mut rows, usable)| async move {
            match with_timeout(response_timeout, rows.try_next()).await? {
                Some(row) => Ok(Some((T::from_row(&row)?, (rows, usable)))),
                None => {
                    *usable = was_usable;
                    Ok(None)
                }
            }
        })
        .boxed()
    }
}

async fn with_timeout<T>(
    response_timeout: Option<Duration>,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    match response_timeout {
        None => work.await,
        Some(response_timeout) => timeout(response_timeout, work).await.unwrap_or_else(|_| {
            Err(sqlx::Error::Io(std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                "the database does not answer",
            )))
        }),
    }
}
