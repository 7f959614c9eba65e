//! What can go wrong with the service's own data.

/// A failure of the service's own database.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// The database cannot be reached, is locked for too long, or fails at a statement.
    #[error("own database unavailable: {0}")]
    Unavailable(String),
    /// A unique name or version exists already.
    #[error("duplicate key in the own database: {0}")]
    Conflict(String),
    /// A stored row cannot be read as what it should be.
    #[error("unreadable row in the own database: {0}")]
    Corrupt(String),
    /// The schema is not the one that this program knows.
    #[error("own database schema: {0}")]
    Migration(String),
    /// The database's address or file cannot be used.
    #[error("own database: {0}")]
    Configuration(String),
}

impl From<sqlx::Error> for DbError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(inner) if inner.is_unique_violation() => Self::Conflict(error.to_string()),
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::TypeNotFound { .. }
            | sqlx::Error::Decode(_) => Self::Corrupt(error.to_string()),
            sqlx::Error::Configuration(_) => Self::Configuration(error.to_string()),
            _ => Self::Unavailable(error.to_string()),
        }
    }
}
