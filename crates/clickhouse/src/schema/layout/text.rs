//! Parsers for texts that ClickHouse writes: expressions of columns, lists of engine arguments, queries of projections.
//!
//! ClickHouse writes a name bare or in backticks, and a key literal can hold anything. A comparison of texts would depend on
//! both; parsing does not.

use tracewarden_model::unquote;

/// Parses a text from its beginning. A method that finds something else consumes nothing.
pub(super) struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// Whether the whole text is consumed.
    pub(super) fn at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Consumes exactly this text.
    pub(super) fn exact(&mut self, exact: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(exact)?;
        Some(())
    }

    /// Consumes a name, bare or in backticks.
    pub(super) fn name(&mut self) -> Option<String> {
        if self.rest.starts_with('`') {
            return self.quoted('`');
        }
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let (name, rest) = self.rest.split_at_checked(end.unwrap_or(self.rest.len()))?;
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.rest = rest;
        Some(name.to_owned())
    }

    /// Consumes a string literal.
    pub(super) fn literal(&mut self) -> Option<String> {
        self.quoted('\'')
    }

    fn quoted(&mut self, quote: char) -> Option<String> {
        let (text, rest) = unquote(self.rest, quote)?;
        self.rest = rest;
        Some(text)
    }
}

/// Parses a name and nothing else.
pub(crate) fn only_name(text: &str) -> Option<String> {
    let mut scanner = Scanner::new(text);
    let name = scanner.name()?;
    scanner.at_end().then_some(name)
}

/// Splits a list at commas that are neither in quotes nor in brackets.
pub(crate) fn split_list(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((part, after)) = split_outside(rest, ",") {
        parts.push(part.trim());
        rest = after;
    }
    if !rest.trim().is_empty() {
        parts.push(rest.trim());
    }
    parts
}

/// Splits at the first `mark` that is neither in quotes nor in brackets.
pub(crate) fn split_outside<'a>(text: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    let mut quote = None;
    let mut depth = 0_u32;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        if let Some(end) = quote {
            match character {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if character == end => quote = None,
                _ => {}
            }
            continue;
        }
        if depth == 0
            && let Some(after) = text.get(at..).and_then(|rest| rest.strip_prefix(mark))
        {
            return Some((text.get(..at)?, after));
        }
        match character {
            '`' | '\'' | '"' => quote = Some(character),
            '(' | '[' => depth = depth.saturating_add(1),
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_literals_are_parsed_exactly() {
        assert_eq!(only_name("SpanAttributes").as_deref(), Some("SpanAttributes"));
        assert_eq!(only_name("`a \\`b\\\\`").as_deref(), Some("a `b\\"));
        for no_name in ["", "1a", "a b", "`a", "lower(a)", "`a`b", "ä"] {
            assert_eq!(only_name(no_name), None, "{no_name}");
        }
        let mut scanner = Scanner::new("'it\\'s \\\\ \\n ü'rest");
        assert_eq!(scanner.literal().as_deref(), Some("it's \\ \n ü"));
        assert_eq!(scanner.exact("rest"), Some(()));
        assert!(scanner.at_end());
        assert_eq!(Scanner::new("'\\x41'").literal(), None);
    }

    #[test]
    fn lists_are_split_between_their_parts() {
        assert_eq!(
            split_list("a, `b,c`, f(x, y), m['k, l'], 'it\\', s'"),
            ["a", "`b,c`", "f(x, y)", "m['k, l']", "'it\\', s'"]
        );
        assert!(split_list("").is_empty());
    }
}
