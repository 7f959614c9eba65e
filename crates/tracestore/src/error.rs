//! What can go wrong with the trace store.

use crate::fields::ChangedField;

fn named(changed: &[ChangedField]) -> String {
    let named = |changed: &ChangedField| format!("`{}` is {}", changed.field.field, changed.now);
    changed.iter().map(named).collect::<Vec<_>>().join("; ")
}

/// A failure of the trace store. Texts are for the log: they may hold SQL and span data, and never go to a client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No endpoint could be reached.
    #[error("the trace store cannot be reached: {0}")]
    Unavailable(String),
    /// The statement ran into its time limit.
    #[error("the query ran into its time limit: {0}")]
    Timeout(String),
    /// The store refused a statement or failed while answering it.
    #[error("the trace store failed{}: {message}", code.map_or(String::new(), |code| format!(" with code {code}")))]
    Store {
        /// ClickHouse's code, where it gave one.
        code: Option<i32>,
        /// Its message.
        message: String,
    },
    /// An answer ended early, or held less than it must.
    #[error("the trace store's answer is not complete: {0}")]
    Short(String),
    /// A column that the bound table lacks.
    #[error("the bound table has no column `{name}`")]
    UnknownColumn {
        /// The name.
        name: String,
        /// Columns that resemble it.
        nearest: Vec<String>,
    },
    /// What a policy or a filter looks at is no longer what it was when it was marked. Never empty.
    #[error("marked fields are of other types in the bound table now: {}", named(.0))]
    FieldsChanged(Vec<ChangedField>),
    /// A fault of ours.
    #[error("{0}")]
    Internal(String),
}

impl StoreError {
    /// Whether the server refused to have `readonly` set, because the user's own profile has it.
    pub(crate) fn refuses_readonly(&self) -> bool {
        // READONLY; other settings are refused with the same code.
        matches!(self, Self::Store { code: Some(164), message } if message.contains("'readonly'"))
    }

    /// Whether the statement would have read more rows than it may.
    pub(crate) fn is_too_many_rows(&self) -> bool {
        // TOO_MANY_ROWS
        matches!(self, Self::Store { code: Some(158), .. })
    }

    /// From ClickHouse's code and message.
    pub(crate) fn from_exception(code: Option<i32>, message: String) -> Self {
        match code {
            // TIMEOUT_EXCEEDED, TOO_SLOW
            Some(159 | 160) => Self::Timeout(message),
            _ => Self::Store { code, message },
        }
    }
}
