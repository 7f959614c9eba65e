//! Errors of the commands.

use crate::policy::ErrorReport;

/// Why a command ended without success.
#[derive(Debug)]
pub(super) enum CommandError {
    /// The file is not valid, a test fails, or the operator declined.
    Rejected(ErrorReport),
    /// The command failed, or its outcome is unknown.
    Failed(ErrorReport),
}

impl CommandError {
    pub(super) fn rejected(message: impl Into<String>) -> Self {
        Self::Rejected(ErrorReport::from_message(message))
    }

    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::Failed(ErrorReport::from_message(message))
    }
}

impl From<ErrorReport> for CommandError {
    fn from(error_report: ErrorReport) -> Self {
        Self::Failed(error_report)
    }
}
