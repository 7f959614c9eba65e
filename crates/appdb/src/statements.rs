//! Runs statements on a connection: limits their duration and records failures.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use prometheus_client::metrics::counter::Counter;
use sqlx::any::{AnyQueryResult, AnyRow, AnyStatement, AnyTypeInfo};
use sqlx::{Any, AnyConnection, Either, Execute, Executor, SqlStr};
use tokio::time::timeout;

/// A connection for one statement.
#[derive(Debug)]
pub(crate) struct Statements<'c> {
    pub(crate) connection: &'c mut AnyConnection,
    /// Cleared while a statement runs and after one failed. After a failure PostgreSQL ignores further statements,
    /// answers `COMMIT` with a rollback and reports success; SQLite continues and commits the rest. Neither may be
    /// taken for a successful commit of the whole change.
    pub(crate) sound: &'c mut bool,
    /// Time-out: a server that vanished without closing the connection never answers.
    pub(crate) limit: Option<Duration>,
    /// Number of statements: on a server each one is a round trip.
    pub(crate) executed: &'c Counter,
}

async fn limited<T>(
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, sqlx::Error>> + Send,
) -> Result<T, sqlx::Error> {
    match limit {
        None => work.await,
        Some(limit) => timeout(limit, work).await.unwrap_or_else(|_| {
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
        let Self { connection, sound, limit, executed } = self;
        executed.inc();
        let was_sound = std::mem::replace(sound, false);
        let answers = connection.fetch_many(query);
        stream::unfold(Some((answers, sound)), move |state| async move {
            let (mut answers, sound) = state?;
            match limited(limit, async { answers.next().await.transpose() }).await {
                Ok(Some(answer)) => Some((Ok(answer), Some((answers, sound)))),
                Ok(None) => {
                    *sound = was_sound;
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
        let Self { connection, sound, limit, executed } = self;
        executed.inc();
        let was_sound = std::mem::replace(sound, false);
        let answer = connection.fetch_optional(query);
        Box::pin(async move {
            let row = limited(limit, answer).await?;
            *sound = was_sound;
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
