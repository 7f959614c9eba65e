//! Strings and comments in the syntax of other languages and programs.

use tracewarden_model::field::escape;

use super::{Correction, MistakeFinder};
use crate::diagnostics::Span;
use crate::syntax_errors::escape_invisible;

impl MistakeFinder<'_> {
    /// Replaces typographic quotes.
    pub(super) fn curly_string(&self, open: Span) -> Option<Correction> {
        let closing: &[char] = match self.text.get(open.start..open.end)? {
            "\u{2018}" | "\u{2019}" | "\u{201a}" => &['\u{2019}', '\u{2018}'],
            "\u{ab}" => &['\u{bb}'],
            "\u{bb}" => &['\u{ab}', '\u{bb}'],
            _ => &['\u{201d}', '\u{201c}'],
        };
        let rest = self.text.get(open.end..)?.split('\n').next()?;
        let inner = rest.get(..rest.find(closing)?)?;
        let close = open.end + inner.len();
        let end = close + rest.get(inner.len()..)?.chars().next()?.len_utf8();
        let replacement = format!("\"{}\"", escape(inner));
        let span = Span::new(open.start, end);
        let hint = format!("put strings in straight quotes: `{replacement}`");
        let message = "a string is written in straight quotes".to_owned();
        Some(Correction { hint, ..Correction::write(span, span, replacement, message) })
    }

    /// Replaces a comment up to the end of the line. The tokens from `first` to `last` begin it.
    pub(super) fn line_comment(&self, first: usize, last: usize) -> Correction {
        let underline = self.span(first, last);
        let rest = self.text.get(underline.end..).unwrap_or_default();
        let rest = rest.split(['\n', '\r']).next().unwrap_or_default();
        let span = Span::new(underline.start, underline.end + rest.len());
        let hint = "a comment begins with `//`".to_owned();
        let message = self.not_allowed(first, last);
        Correction { hint, ..Correction::write(span, underline, format!("//{rest}"), message) }
    }

    /// Replaces a string that contains an escape unknown in CEL, as in patterns.
    pub(super) fn raw_string(&self, at: usize) -> Option<Correction> {
        let written = self.token(at);
        if !written.starts_with(['"', '\'']) {
            return None;
        }
        let mut characters = written.char_indices();
        let mut unknown = None;
        while let Some((offset, character)) = characters.next() {
            if character == '\\'
                && let Some((_, escaped)) = characters.next()
            {
                if matches!(escaped, '"' | '\'' | '\\') {
                    return None;
                }
                // Half of a character, as JSON and JavaScript escape it.
                let is_half = escaped == 'u'
                    && matches!(
                        written.as_bytes().get(offset + 2..offset + 4),
                        Some([b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F'])
                    );
                if (is_half || !"abfnrtv?`xXuU01234567".contains(escaped)) && unknown.is_none() {
                    unknown = Some((offset, escaped));
                }
            }
        }
        let (offset, escaped) = unknown?;
        let start = self.tokens.get(at)?.start + offset;
        let replacement = format!("r{written}");
        let hint = match escaped {
            'u' => "write the character itself".to_owned(),
            _ => format!("in a raw string, a backslash stands for itself: write `{replacement}`"),
        };
        let underline = Span::new(start, start + 1 + escaped.len_utf8());
        let message = format!("`\\{}` is not an escape of CEL", escape_invisible(&escaped.to_string()));
        let correction = Correction::write(self.span(at, at), underline, replacement, message);
        Some(Correction { hint, preserves_meaning: escaped != 'u', ..correction })
    }
}
