//! The kinds of databases and their addresses.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::DbError;
use crate::{postgres, sqlite};

/// The kind of database. Both run the same statements; they differ in how to connect, how a transaction begins, and in
/// a few migrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Sqlite,
    Postgres,
}

impl Backend {
    /// Returns the time-out for the beginning of a transaction.
    pub(crate) fn timeout(self) -> Duration {
        match self {
            Self::Sqlite => sqlite::TIMEOUT,
            Self::Postgres => postgres::TIMEOUT,
        }
    }

    /// Returns the time-out for the response to a statement.
    pub(crate) fn response_timeout(self) -> Option<Duration> {
        match self {
            // A file has no network that can fail, and a statement that waits for a lock has its own limit.
            Self::Sqlite => None,
            Self::Postgres => Some(postgres::RESPONSE_TIMEOUT),
        }
    }
}

/// The address of a database.
pub(crate) enum Address {
    Sqlite(PathBuf),
    Postgres(String),
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, DbError> {
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
