//! What is wrong with a policy's text, and where.

/// An error or a warning about a policy, with its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Line, from 1.
    pub line: u32,
    /// Column in code points, from 1.
    pub column: u32,
    /// Length in code points, at least 1; may run over line ends.
    pub length: u32,
    /// Stable, machine-readable kind, such as `unknown_field`.
    pub code: &'static str,
    /// Lower case, no final period, names in backticks.
    pub message: String,
    /// How to write it instead.
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
}

impl Diagnostic {
    pub(crate) fn new(text: &str, span: Span, code: &'static str, message: impl Into<String>) -> Self {
        let before = text.get(..span.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let length = text.get(span.start..span.end).map_or(1, |covered| covered.chars().count()).max(1);
        let bounded = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            line: bounded(line),
            column: bounded(column),
            length: bounded(length),
            code,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_code_points() {
        let text = "true &&\n \"größe\" == x";
        let at = text.find('x').unwrap();
        let found = Diagnostic::new(text, Span::new(at, at + 1), "c", "m");
        assert_eq!((found.line, found.column, found.length), (2, 13, 1));
    }
}
