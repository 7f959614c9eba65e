//! Failures of commands: error messages and exit statuses.

/// Exit status when policies are not valid, or a test failed.
pub(crate) const EXIT_FAILED: u8 = 1;
/// Exit status when the command could not do its work.
pub(crate) const EXIT_ERROR: u8 = 2;

/// Why a command could not do its work.
#[derive(Debug, Default)]
pub(crate) struct ErrorReport(pub(crate) Vec<Line>);

/// One message of it.
#[derive(Debug)]
pub(crate) enum Line {
    /// A message, with file and position if known.
    Message(String),
    /// A rendered diagnostic.
    Rendered(String),
}

impl ErrorReport {
    pub(crate) fn from_message(message: impl Into<String>) -> Self {
        Self(vec![Line::Message(message.into())])
    }
}
