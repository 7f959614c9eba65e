//! Failures of commands: error messages and exit statuses.

/// Exit status when policies or a file are not valid, a test failed, or the operator declined.
pub(crate) const EXIT_FAILED: u8 = 1;
/// Exit status when the command could not do its work, or its outcome is unknown.
pub(crate) const EXIT_ERROR: u8 = 2;

/// Why a command ended without success.
#[derive(Debug)]
pub(crate) struct ErrorReport {
    pub(crate) status: u8,
    pub(crate) lines: Vec<Line>,
}

/// One message of it.
#[derive(Debug)]
pub(crate) enum Line {
    /// A message, with file and position if known.
    Message(String),
    /// A rendered diagnostic.
    Rendered(String),
}

impl ErrorReport {
    /// A report with the status [`EXIT_ERROR`].
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        [Line::Message(message.into())].into_iter().collect()
    }

    /// Changes the status to [`EXIT_FAILED`].
    pub(crate) fn rejected(self) -> Self {
        Self { status: EXIT_FAILED, ..self }
    }
}

impl FromIterator<Line> for ErrorReport {
    fn from_iter<T: IntoIterator<Item = Line>>(lines: T) -> Self {
        Self { status: EXIT_ERROR, lines: lines.into_iter().collect() }
    }
}
