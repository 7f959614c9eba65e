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

    pub(super) fn block_comment(&self, at: usize) -> Option<Correction> {
        let underline = self.span(at, at + 1);
        let rest = self.text.get(underline.end..)?;
        let length = rest.find("*/")?;
        let span = Span::new(underline.start, underline.end + length + 2);
        let hint = "a comment begins with `//` and goes to the end of its line".to_owned();
        let message = self.not_allowed(at, at + 1);
        Some(Correction { hint, ..Correction::write(span, underline, " ".to_owned(), message) })
    }

    /// Replaces escapes of JSON and JavaScript in a string: `\ud83d\ude00` and `\u{1F600}` by `\U0001F600`.
    pub(super) fn surrogates(&self, at: usize) -> Option<Correction> {
        let written = self.token(at);
        if !written.starts_with(['"', '\'']) {
            return None;
        }
        let mut replacement = String::with_capacity(written.len());
        let mut first: Option<(usize, usize, bool)> = None;
        let mut rest = written;
        while let Some(escape) = rest.find('\\') {
            let (before, escaped) = rest.split_at(escape);
            replacement.push_str(before);
            let foreign = foreign_escape(escaped);
            let plain = || escaped.chars().take(2).map(char::len_utf8).sum();
            let length = foreign.map_or_else(plain, |(length, _)| length);
            let (same, remainder) = escaped.split_at_checked(length)?;
            match foreign {
                None => replacement.push_str(same),
                Some((_, Some(character))) => {
                    replacement.push_str(&format!("\\U{:08X}", u32::from(character)))
                }
                Some((_, None)) => replacement.push_str("\\uFFFD"),
            }
            if let Some((_, character)) = foreign
                && first.is_none_or(|(_, _, whole)| whole && character.is_none())
            {
                first = Some((written.len() - rest.len() + escape, length, character.is_some()));
            }
            rest = remainder;
        }
        replacement.push_str(rest);
        let (offset, length, is_whole) = first?;
        let start = self.tokens.get(at)?.start + offset;
        let shown = written.get(offset..offset + length)?;
        let (message, hint) = if is_whole {
            (
                format!("`{shown}` is not an escape of CEL"),
                format!("write the character with eight digits: `{replacement}`"),
            )
        } else {
            let message = format!("`{shown}` is half of a surrogate pair");
            (message, "write the whole character, with eight digits: `\"\\U0001F600\"`".to_owned())
        };
        let underline = Span::new(start, start + length);
        let correction = Correction::write(self.span(at, at), underline, replacement, message);
        Some(Correction { hint, preserves_meaning: is_whole, ..correction })
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
                if !"abfnrtv?`xXuU01234567".contains(escaped) && unknown.is_none() {
                    unknown = Some((offset, escaped));
                }
            }
        }
        let (offset, escaped) = unknown?;
        let start = self.tokens.get(at)?.start + offset;
        let replacement = format!("r{written}");
        let hint = format!("in a raw string, a backslash stands for itself: write `{replacement}`");
        let underline = Span::new(start, start + 1 + escaped.len_utf8());
        let message = format!("`\\{}` is not an escape of CEL", escape_invisible(&escaped.to_string()));
        Some(Correction { hint, ..Correction::write(self.span(at, at), underline, replacement, message) })
    }
}

/// Parses an escape of JSON or JavaScript that CEL does not have, at the beginning of `text`. Returns its length and
/// its character; half of a surrogate pair has no character.
fn foreign_escape(text: &str) -> Option<(usize, Option<char>)> {
    let unit = |text: &str| u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    if let Some(braced) = text.strip_prefix("\\u{") {
        let digits = braced.get(..braced.find('}')?)?;
        return Some((digits.len() + 4, char::from_u32(u32::from_str_radix(digits, 16).ok()?)));
    }
    let first = unit(text)?;
    if !(0xd800..0xe000).contains(&first) {
        return None;
    }
    let second = text.get(6..).and_then(unit).filter(|second| (0xdc00..0xe000).contains(second));
    match second {
        Some(second) if first < 0xdc00 => {
            Some((12, char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))))
        }
        _ => Some((6, None)),
    }
}
