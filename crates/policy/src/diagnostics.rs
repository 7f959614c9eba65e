//! Errors and warnings about a policy's text, with their positions.

use serde::Serialize;
use utoipa::ToSchema;

mod codes;
pub(crate) mod render;

use std::ops::Range;

pub use codes::{ERRORS, WARNINGS};

/// A diagnostic about a policy's expression.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Diagnostic {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in code points.
    pub column: u32,
    /// Length, in code points.
    // At least 1. May include line breaks.
    pub length: u32,
    /// Machine-readable kind.
    // Stable: one of [`ERRORS`] or [`WARNINGS`].
    pub code: &'static str,
    /// Description of the problem, as readable text.
    // In lower case, without a final period, with names in backticks.
    pub message: String,
    /// Suggested correction.
    // If possible in the policy's own words, so that it can be pasted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hint: Option<String>,
}

/// A byte range of a policy's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start, end: end.max(start) }
    }

    /// Returns the part of the text; empty if the text has no such part.
    pub(crate) fn of(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or_default()
    }

    /// Returns the part of the text if it has at most `max_chars` characters and fits on one line.
    pub(crate) fn snippet(self, text: &str, max_chars: usize) -> Option<&str> {
        let part = self.of(text);
        let short = part.chars().nth(max_chars).is_none();
        (short && !part.is_empty() && !part.contains(char::is_control)).then_some(part)
    }

    /// Returns line and column of the start, in code points from 1, and the length in code points, at least 1.
    pub(crate) fn position(self, text: &str) -> (u32, u32, u32) {
        #[cfg(test)]
        assert!(text.get(self.start..self.end).is_some(), "{self:?} is no part of {text:?}");
        let before = text.get(..self.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let length = text.get(self.start..self.end).map_or(1, |covered| covered.chars().count()).max(1);
        let bounded = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        (bounded(line), bounded(column), bounded(length))
    }
}

impl Diagnostic {
    pub(crate) fn new(text: &str, span: Span, code: &'static str, message: impl Into<String>) -> Self {
        let (line, column, length) = span.position(text);
        Self { line, column, length, code, message: message.into(), hint: None }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        self.hint = (!hint.is_empty()).then_some(hint);
        self
    }
}

/// Returns the byte range of a position in `text`, which need not be the text that was checked.
pub(crate) fn underlined(text: &str, line: u32, column: u32, length: u32) -> Range<usize> {
    let lines = (line as usize).saturating_sub(1);
    let line: usize = text.split_inclusive('\n').take(lines).map(str::len).sum();
    let columns = (column as usize).saturating_sub(1);
    let rest = text.get(line..).unwrap_or_default();
    let start = line + rest.chars().take(columns).map(char::len_utf8).sum::<usize>();
    let underlined = text.get(start..).unwrap_or_default().chars().take(length as usize);
    start..start + underlined.map(char::len_utf8).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_code_points() {
        let text = "true &&\n \"größe\" == x";
        let at = text.find('x').unwrap();
        let found = Diagnostic::new(text, Span::new(at, at + 1), "c", "m");
        assert_eq!((found.line, found.column, found.length), (2, 13, 1));
    }
}
