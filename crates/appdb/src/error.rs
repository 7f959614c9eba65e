//! Errors of the application database.

use std::borrow::Cow;

/// An error of the application database.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DbError {
    /// The database cannot be reached, is locked for too long, or fails to run a statement.
    #[error("application database unavailable: {0}")]
    Unavailable(String),
    /// The connection or the disk failed during a commit. Either all changes or none were made, and it is unknown
    /// which.
    #[error(
        "application database unavailable during a commit, so it is unknown whether the change was made: {0}"
    )]
    OutcomeUnknown(String),
    /// A unique name or version already exists.
    #[error("duplicate key in the application database: {0}")]
    Conflict(String),
    /// The database cannot store a value, such as a text with U+0000 on PostgreSQL.
    #[error("the application database cannot store the value: {0}")]
    Value(String),
    /// A stored row cannot be decoded.
    #[error("unreadable row in the application database: {0}")]
    Corrupt(String),
    /// The schema is not the one that this program expects.
    #[error("application database schema: {0}")]
    Migration(String),
    /// The address, file or server of the database cannot be used.
    #[error("application database: {0}")]
    Configuration(String),
}

impl From<sqlx::Error> for DbError {
    fn from(error: sqlx::Error) -> Self {
        let text = message(&error);
        match &error {
            sqlx::Error::Database(inner) if inner.is_unique_violation() => Self::Conflict(text),
            sqlx::Error::Database(_) => match sqlstate(&error).as_deref() {
                // Class 22, "data exception".
                Some(code) if code.starts_with("22") => Self::Value(text),
                // `insufficient_privilege` or `invalid_schema_name`: waiting does not help.
                Some("42501" | "3F000") => {
                    Self::Configuration(format!("{text}; `tracewarden check-config` says what to grant"))
                }
                _ => Self::Unavailable(text),
            },
            sqlx::Error::Encode(_) => Self::Value(text),
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::TypeNotFound { .. }
            | sqlx::Error::Decode(_)
            // Returned only by queries for rows that always exist.
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
    /// Converts the error of a failed `COMMIT` on a server, which may have committed before its response was lost.
    pub(crate) fn from_commit(error: sqlx::Error) -> Self {
        // Class 23 (constraint violation) or 40 (transaction rollback): the server confirms that nothing has changed.
        match code(&error).as_deref().and_then(|code| code.get(..2)) {
            Some("23" | "40") => Self::from(error),
            _ => Self::OutcomeUnknown(message(&error)),
        }
    }

    /// Converts the error of a failed `COMMIT` on SQLite. If the change is in the file and only its sync or a later
    /// step failed, the change is lost for this process, but visible to the next process that opens the file after a
    /// crash.
    pub(crate) fn from_commit_to_file(error: sqlx::Error) -> Self {
        /// `SQLITE_IOERR` and `SQLITE_FULL`.
        const IO_ERROR: u32 = 10;
        const FULL: u32 = 13;
        match sqlite_code(&error) {
            Some(IO_ERROR | FULL) => Self::OutcomeUnknown(message(&error)),
            _ => Self::from(error),
        }
    }
}

/// Returns the message of the database. The driver appends "at line N" to PostgreSQL's messages. That is a line of the
/// server's source code, but operators would take it for a line of one of their files.
pub(crate) fn message(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(inner) if sqlstate(error).is_some() => {
            format!("error returned from database: {}", inner.message())
        }
        other => other.to_string(),
    }
}

/// Returns the error code of the database.
pub(crate) fn code(error: &sqlx::Error) -> Option<Cow<'_, str>> {
    error.as_database_error()?.code()
}

/// Returns PostgreSQL's error code, which has five characters. SQLite's codes are plain numbers.
fn sqlstate(error: &sqlx::Error) -> Option<Cow<'_, str>> {
    code(error).filter(|code| code.len() == 5)
}

/// Returns SQLite's error code. Extended codes use the bits above the lowest byte.
pub(crate) fn sqlite_code(error: &sqlx::Error) -> Option<u32> {
    code(error)?.parse::<u32>().ok().map(|code| code & 0xFF)
}
