//! Colours, on terminals only, and text without control characters.

use std::fmt::Display;
use std::io::{self, IsTerminal};

use anstyle::{AnsiColor, Style};

pub(super) use crate::policy::files::sanitize;

/// Whether output is coloured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint(bool);

impl Paint {
    /// Colours for the standard output, if it is a capable terminal and `NO_COLOR` is not set (no-color.org).
    pub(super) fn for_stdout() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let capable = set("TERM").is_some_and(|terminal| terminal != "dumb");
        Self(io::stdout().is_terminal() && capable && set("NO_COLOR").is_none())
    }

    /// No colours.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self(false)
    }

    pub(super) fn heading(self, text: impl Display) -> String {
        self.styled(Style::new().bold(), text)
    }

    pub(super) fn added(self, text: impl Display) -> String {
        self.styled(AnsiColor::Green.on_default(), text)
    }

    pub(super) fn removed(self, text: impl Display) -> String {
        self.styled(AnsiColor::Red.on_default(), text)
    }

    pub(super) fn changed(self, text: impl Display) -> String {
        self.styled(AnsiColor::Yellow.on_default(), text)
    }

    fn styled(self, style: Style, text: impl Display) -> String {
        if self.0 { format!("{style}{text}{style:#}") } else { text.to_string() }
    }
}

/// Formats a time without its fraction.
pub(super) fn seconds(at: &str) -> String {
    sanitize(&at.split_once('.').map_or_else(|| at.to_owned(), |(seconds, _)| format!("{seconds}Z")))
}
