//! Runs statements on a connection: limits their duration, records failures and reads the rows.

use std::ops::DerefMut;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use prometheus_client::metrics::counter::Counter;
use sqlx::any::{AnyQueryResult, AnyRow, AnyStatement, AnyTypeInfo};
use sqlx::{Any, AnyConnection, Either, Execute, Executor, SqlSafeStr, SqlStr};
use tokio::time::timeout;

use crate::error::DbError;
use crate::metrics::TransactionMetrics;
use crate::rows::FromRow;
use crate::values::{Value, query};

/// A connection for one statement.
#[derive(Debug)]
pub(crate) struct Statements<'c> {
    connection: &'c mut AnyConnection,
    /// Cleared while a statement runs and after one failed. After a failure PostgreSQL ignores further statements,
    /// answers `COMMIT` with a rollback and reports success; SQLite continues and commits the rest. Neither may be
    /// taken for a successful commit of the whole change.
    usable: &'c mut bool,
    /// Time-out: a server that vanished without closing the connection never answers.
    response_timeout: Option<Duration>,
    /// Number of statements: on a server each one is a round trip.
    executed: &'c Counter,
}

/// A connection with the metrics and the time-out of its statements.
pub(crate) struct MeteredConnection<C> {
    pub(crate) inner: C,
    pub(crate) transaction_metrics: TransactionMetrics,
    pub(crate) response_timeout: Option<Duration>,
}

impl<C: DerefMut<Target = AnyConnection>> MeteredConnection<C> {
    pub(crate) fn statements(&mut self) -> Statements<'_> {
        let TransactionMetrics { usable, metrics, .. } = &mut self.transaction_metrics;
        let executed = &metrics.statements;
        Statements { connection: &mut self.inner, usable, response_timeout: self.response_timeout, executed }
    }

    /// Runs a statement and returns the number of rows that it changed.
    pub(crate) async fn execute(
        &mut self,
        statement: impl SqlSafeStr,
        values: impl Into<Vec<Value>>,
    ) -> Result<u64, DbError> {
        Ok(query(statement, values).execute(self.statements()).await?.rows_affected())
    }

    /// Returns the only row.
    pub(crate) async fn one<T: FromRow>(
        &mut self,
        statement: impl SqlSafeStr,
        values: impl Into<Vec<Value>>,
    ) -> Result<T, DbError> {
        T::from_row(&query(statement, values).fetch_one(self.statements()).await?)
    }

    /// Returns the row, if there is one.
    pub(crate) async fn optional<T: FromRow>(
        &mut self,
        statement: impl SqlSafeStr,
        values: impl Into<Vec<Value>>,
    ) -> Result<Option<T>, DbError> {
        let row = query(statement, values).fetch_optional(self.statements()).await?;
        row.as_ref().map(T::from_row).transpose()
    }

    /// Returns all rows.
    pub(crate) async fn all<T: FromRow>(
        &mut self,
        statement: impl SqlSafeStr,
        values: impl Into<Vec<Value>>,
    ) -> Result<Vec<T>, DbError> {
        query(statement, values).fetch_all(self.statements()).await?.iter().map(T::from_row).collect()
    }

    /// Returns the rows one by one, so that they are not all in memory.
    pub(crate) fn stream<'c, T: FromRow>(
        &'c mut self,
        statement: impl SqlSafeStr,
        values: impl Into<Vec<Value>>,
    ) -> BoxStream<'c, Result<T, DbError>> {
        query(statement, values).fetch(self.statements()).map(|row| T::from_row(&row?)).boxed()
    }
}

async fn with_timeout<T>(
    response_timeout: Option<Duration>,
    work: impl Future<Output = Result<T, sqlx::Error>> + Send,
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

impl<'c> Executor<'c> for Statements<'c> {
    type Database = Any;

    fn fetch_many<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxStream<'e, Result<Either<AnyQueryResult, AnyRow>, sqlx::Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        let Self { connection, usable, response_timeout, executed } = self;
        executed.inc();
        let was_usable = std::mem::replace(usable, false);
        let results = connection.fetch_many(query);
        stream::unfold(Some((results, usable)), move |state| async move {
            let (mut results, usable) = state?;
            match with_timeout(response_timeout, async { results.next().await.transpose() }).await {
                Ok(Some(result)) => Some((Ok(result), Some((results, usable)))),
                Ok(None) => {
                    *usable = was_usable;
                    None
                }
                Err(error) => Some((Err(error), None)),
            }
        })
        .boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<AnyRow>, sqlx::Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        let Self { connection, usable, response_timeout, executed } = self;
        executed.inc();
        let was_usable = std::mem::replace(usable, false);
        let result = connection.fetch_optional(query);
        Box::pin(async move {
            let row = with_timeout(response_timeout, result).await?;
            *usable = was_usable;
            Ok(row)
        })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [AnyTypeInfo],
    ) -> BoxFuture<'e, Result<AnyStatement, sqlx::Error>>
    where
        'c: 'e,
    {
        self.connection.prepare_with(sql, parameters)
    }
}
