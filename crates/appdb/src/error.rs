//! What can go wrong with the service's own data.

use sqlx::error::DatabaseError;

/// A failure of the service's own database.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// The database cannot be reached, is locked for too long, or fails at a statement.
    #[error("own database unavailable: {0}")]
    Unavailable(String),
    /// The connection, or the disk, failed during a commit: the change holds in full or not at all, and nobody knows which.
    #[error("own database unavailable during a commit, so that it is unknown whether the change holds: {0}")]
    OutcomeUnknown(String),
    /// A unique name or version exists already.
    #[error("duplicate key in the own database: {0}")]
    Conflict(String),
    /// A value that the database cannot store, such as a text with U+0000 on PostgreSQL.
    #[error("the own database cannot store the value: {0}")]
    Value(String),
    /// A stored row cannot be read as what it should be.
    #[error("unreadable row in the own database: {0}")]
    Corrupt(String),
    /// The schema is not the one that this program knows.
    #[error("own database schema: {0}")]
    Migration(String),
    /// The database's address, file or server cannot be used.
    #[error("own database: {0}")]
    Configuration(String),
}

impl From<sqlx::Error> for DbError {
    fn from(error: sqlx::Error) -> Self {
        let text = message(&error);
        match &error {
            sqlx::Error::Database(inner) if inner.is_unique_violation() => Self::Conflict(text),
            // Class 22, "data exception".
            sqlx::Error::Database(inner) if sqlstate(inner.as_ref()).is_some_and(|code| code.starts_with("22")) => {
                Self::Value(text)
            }
            // No right, or no schema that it may use: not mended by waiting.
            sqlx::Error::Database(inner)
                if sqlstate(inner.as_ref()).is_some_and(|code| matches!(code.as_str(), "42501" | "3F000")) =>
            {
                Self::Configuration(format!("{text}; `tracewarden check-config` says what to grant"))
            }
            sqlx::Error::Encode(_) => Self::Value(text),
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::TypeNotFound { .. }
            | sqlx::Error::Decode(_)
            // Asked for where a row exists always.
            | sqlx::Error::RowNotFound => Self::Corrupt(text),
            sqlx::Error::Configuration(_) => Self::Configuration(text),
            sqlx::Error::PoolTimedOut => {
                Self::Unavailable("no connection to the database within the time allowed".to_owned())
            }
            _ => Self::Unavailable(text),
        }
    }
}

impl DbError {
    /// What a failed `COMMIT` means on a server that may have carried it out before its answer was lost.
    pub(crate) fn from_commit(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(|inner| inner.code()).map(String::from);
        // A constraint that does not hold (23) or a conflict (40) is the server's word that nothing has changed.
        match code.as_deref().and_then(|code| code.get(..2)) {
            Some("23" | "40") => Self::from(error),
            _ => Self::OutcomeUnknown(message(&error)),
        }
    }

    /// What a failed `COMMIT` means on SQLite. When the change is in the file and only its sync, or something after it, failed,
    /// it is gone for this process and there for the next one that opens the file after a crash.
    pub(crate) fn from_commit_to_file(error: sqlx::Error) -> Self {
        /// `SQLITE_IOERR` and `SQLITE_FULL`, of which the codes are subdivided above their lowest byte.
        const IO_ERROR: u32 = 10;
        const FULL: u32 = 13;
        let code = error.as_database_error().and_then(|inner| inner.code());
        match code.and_then(|code| code.parse::<u32>().ok()).map(|code| code & 0xff) {
            Some(IO_ERROR | FULL) => Self::OutcomeUnknown(message(&error)),
            _ => Self::from(error),
        }
    }
}

/// What the database said. The driver adds "at line N" to PostgreSQL's messages, a line of the server's own source code,
/// which reads like one of the operator's files.
pub(crate) fn message(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(inner) if sqlstate(inner.as_ref()).is_some() => {
            format!("error returned from database: {}", inner.message())
        }
        other => other.to_string(),
    }
}

/// PostgreSQL's code of an error, five characters. SQLite's codes are plain numbers.
fn sqlstate(error: &dyn DatabaseError) -> Option<String> {
    error.code().filter(|code| code.len() == 5).map(String::from)
}
