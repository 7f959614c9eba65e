//! Errors of ClickHouse and of this crate.

use crate::client::quota::Quota;
use tracewarden_model::MarkedField;

fn named(changed: &[ChangedField]) -> String {
    let named = |changed: &ChangedField| format!("`{}` is {}", changed.field.field, changed.now);
    changed.iter().map(named).collect::<Vec<_>>().join("; ")
}

/// A marked field that has changed in the table since it was marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedField {
    /// The field.
    pub field: MarkedField,
    /// What the table has now instead, for administrators.
    pub now: String,
}

/// A result whose error is a [`ClickHouseError`] if not named.
pub(crate) type Result<T, E = ClickHouseError> = std::result::Result<T, E>;

/// A failure of a statement. The texts are for the log: they may hold SQL and span data, and must never go to a client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClickHouseError {
    /// No endpoint could be reached, or none can take a statement now.
    #[error("ClickHouse cannot be reached: {message}")]
    Unavailable {
        /// Message of the last endpoint that was tried.
        message: String,
        /// Seconds until an endpoint is retried, at least 1.
        retry_after_seconds: u64,
    },
    /// The statement ran into its time limit.
    #[error("the query exceeded its time limit: {0}")]
    Timeout(String),
    /// The statement needed more memory than it may use, or than the server had left.
    #[error("the query exceeded a memory limit: {0}")]
    Memory(String),
    /// The statement would have read or held more than it may.
    #[error("the query would read too much: {0}")]
    TooLarge(String),
    /// ClickHouse refused the statement, or failed while answering it.
    #[error("ClickHouse failed{}: {message}", code.map_or(String::new(), |code| format!(" with code {code}")))]
    Exception {
        /// ClickHouse's error code, if it sent one.
        code: Option<i32>,
        /// Its message.
        message: String,
    },
    /// Answers of the server cannot be trusted: it is too old, or servers of its cluster change the settings that are sent to
    /// them. The text is for administrators.
    #[error("ClickHouse is not usable: {0}")]
    Unusable(String),
    /// The bound table is gone, or its structural columns have changed since it was bound. The text is for administrators.
    #[error("{0}")]
    TableChanged(String),
    /// An answer ended early, or holds less than it must.
    #[error("the response of ClickHouse is incomplete: {0}")]
    IncompleteResponse(String),
    /// A column that the bound table lacks.
    #[error("the bound table has no column `{name}`")]
    UnknownColumn {
        /// The name.
        name: String,
        /// Columns that resemble it.
        nearest: Vec<String>,
    },
    /// Members of a binding are invalid, each with the reason. The text is for administrators.
    #[error("the binding is invalid: {0:?}")]
    InvalidBinding(Vec<(&'static str, String)>),
    /// A field of a policy or a filter has changed since it was marked. Never empty.
    #[error("marked fields have changed in the bound table: {}", named(.0))]
    FieldsChanged(Vec<ChangedField>),
    /// A fault of this program.
    #[error("{0}")]
    Internal(String),
}

impl ClickHouseError {
    /// The error of an answer that holds less than it must.
    pub(crate) fn incomplete(cause: &str) -> Self {
        Self::IncompleteResponse(cause.to_owned())
    }

    /// The error of a statement that failed without a code of ClickHouse.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Exception { code: None, message: message.into() }
    }

    /// ClickHouse's code for a setting that it does not have.
    pub(crate) const UNKNOWN_SETTING: i32 = 115;

    /// Whether `throwIf` in the statement raised this error, with a message that contains this text.
    pub(crate) fn is_throw_if(&self, text: &str) -> bool {
        // FUNCTION_THROW_IF_VALUE_IS_NON_ZERO
        matches!(self, Self::Exception { code: Some(395), message } if message.contains(text))
    }

    /// Whether the server does not have a setting that came with the statement.
    pub(crate) fn is_unknown_setting(&self) -> bool {
        matches!(self, Self::Exception { code: Some(Self::UNKNOWN_SETTING), .. })
    }

    /// Adds to an unknown setting that the server is too old. For a statement with only the settings that every supported
    /// version has.
    pub(crate) fn with_old_server_hint(mut self) -> Self {
        if let Self::Exception { code: Some(Self::UNKNOWN_SETTING), message } = &mut self {
            *message = format!("the server is too old: {message}");
        }
        self
    }

    /// Whether the server refused to set `readonly` because the user's own profile fixes it.
    pub(crate) fn refuses_readonly(&self) -> bool {
        // READONLY. Other settings are refused with the same code.
        matches!(self, Self::Exception { code: Some(164), message } if message.contains("'readonly'"))
    }

    /// Whether a quota of the service's user is exhausted.
    pub fn is_quota_exceeded(&self) -> bool {
        matches!(self, Self::Unavailable { message, .. } if message.contains(Quota::EXCEEDED_TEXT))
    }

    /// Whether a retry of the statement cannot succeed until one of these changes: tables, columns, grants, settings, the
    /// service itself.
    pub fn is_permanent(&self) -> bool {
        // NO_SUCH_COLUMN_IN_TABLE, UNKNOWN_FUNCTION, UNKNOWN_IDENTIFIER, TYPE_MISMATCH, UNKNOWN_TABLE, SYNTAX_ERROR,
        // UNKNOWN_DATABASE, DATABASE_ACCESS_DENIED, CLUSTER_DOESNT_EXIST, ILLEGAL_TYPE_OF_ARGUMENT, ILLEGAL_COLUMN,
        // UNKNOWN_SETTING, READONLY, UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, SETTING_CONSTRAINT_VIOLATION,
        // ACCESS_DENIED, AUTHENTICATION_FAILED
        const PERMANENT: [i32; 19] =
            [16, 43, 44, 46, 47, 53, 60, 62, 81, 115, 164, 192, 193, 194, 291, 452, 497, 516, 701];
        match self {
            Self::Unusable(_) | Self::TableChanged(_) => true,
            Self::Exception { code: Some(code), .. } => PERMANENT.contains(code),
            _ => false,
        }
    }

    /// Whether the statement was ended because it costs too much.
    pub fn is_over_limit(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Memory(_) | Self::TooLarge(_))
    }

    /// Whether ClickHouse cannot answer this statement, but may answer others.
    pub(crate) fn is_refusal(&self) -> bool {
        self.is_over_limit() || matches!(self, Self::Exception { .. })
    }

    /// Converts ClickHouse's code and message.
    pub(crate) fn from_exception(code: Option<i32>, message: String) -> Self {
        match code {
            // TIMEOUT_EXCEEDED, TOO_SLOW
            Some(159 | 160) => Self::Timeout(message),
            // MEMORY_LIMIT_EXCEEDED, CANNOT_ALLOCATE_MEMORY
            Some(241 | 173) => Self::Memory(message),
            // TOO_MANY_ROWS, TOO_MANY_BYTES, TOO_MANY_ROWS_OR_BYTES, SET_SIZE_LIMIT_EXCEEDED
            Some(158 | 307 | 396 | 191) => Self::TooLarge(message),
            // The quota counts all statements of the user: this one is not at fault.
            Some(Quota::EXCEEDED) => {
                let retry_after_seconds = Quota::default().seconds_until_reset(&message);
                Self::Unavailable { message, retry_after_seconds }
            }
            // TOO_MANY_SIMULTANEOUS_QUERIES: this statement is not at fault, and was not begun.
            Some(202) => Self::Unavailable { message, retry_after_seconds: 1 },
            _ => Self::Exception { code, message },
        }
    }
}
