//! Findings of the checks: the lines of the report.

use std::fmt;

/// Document that explains the advice in the findings.
pub(super) const GUIDE: &str = "docs/operations.md";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Ok,
    Warning,
    Error,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) level: Level,
    text: String,
}

impl Finding {
    pub(super) fn ok(text: impl Into<String>) -> Self {
        Self { level: Level::Ok, text: text.into() }
    }

    pub(super) fn warning(text: impl Into<String>) -> Self {
        Self { level: Level::Warning, text: text.into() }
    }

    pub(super) fn error(text: impl Into<String>) -> Self {
        Self { level: Level::Error, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Error => "error",
        };
        // A server's message may have several lines; a finding is one line.
        let text: Vec<&str> = self.text.split_whitespace().collect();
        write!(f, "{level:<8} {}", text.join(" "))
    }
}
