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
        Some(Correction {
            span,
            hint: format!("put strings in straight quotes: `{replacement}`"),
            replacement,
            underline: span,
            message: "a string is written in straight quotes".to_owned(),
            preserves_meaning: true,
        })
    }

    /// Replaces a comment up to the end of the line. The tokens from `first` to `last` begin it.
    pub(super) fn line_comment(&self, first: usize, last: usize) -> Correction {
        let underline = self.span(first, last);
        let rest = self.text.get(underline.end..).unwrap_or_default();
        let rest = rest.split(['\n', '\r']).next().unwrap_or_default();
        Correction {
            span: Span::new(underline.start, underline.end + rest.len()),
            replacement: format!("//{rest}"),
            underline,
            message: format!("`{}` is not allowed here", self.part(first, last)),
            hint: "a comment begins with `//`".to_owned(),
            preserves_meaning: true,
        }
    }

    pub(super) fn block_comment(&self, at: usize) -> Option<Correction> {
        let underline = self.span(at, at + 1);
        let rest = self.text.get(underline.end..)?;
        let length = rest.find("*/")?;
        Some(Correction {
            span: Span::new(underline.start, underline.end + length + 2),
            replacement: " ".to_owned(),
            underline,
            message: "`/*` is not allowed here".to_owned(),
            hint: "a comment begins with `//` and goes to the end of its line".to_owned(),
            preserves_meaning: true,
        })
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
            let (length, character) =
                foreign_escape(escaped).unwrap_or((escaped.chars().take(2).map(char::len_utf8).sum(), None));
            let (same, remainder) = escaped.split_at_checked(length)?;
            match (foreign_escape(escaped), character) {
                (None, _) => replacement.push_str(same),
                (Some(_), Some(character)) => {
                    replacement.push_str(&format!("\\U{:08X}", u32::from(character)))
                }
                (Some(_), None) => replacement.push_str("\\uFFFD"),
            }
            if foreign_escape(escaped).is_some()
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
        Some(Correction {
            span: self.span(at, at),
            hint,
            replacement,
            underline: Span::new(start, start + length),
            message,
            preserves_meaning: is_whole,
        })
    }

    /// Replaces a string that contains an escape unknown in CEL, as in patterns.
    pub(super) fn raw_string(&self, at: usize) -> Option<Correction> {
        let written = self.token(at);
        if !written.starts_with(['"', '\'']) || !written.ends_with(['"', '\'']) || written.len() < 2 {
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
        Some(Correction {
            span: self.span(at, at),
            hint: format!("in a raw string, a backslash stands for itself: write `{replacement}`"),
            replacement,
            underline: Span::new(start, start + 1 + escaped.len_utf8()),
            message: format!("`\\{}` is not an escape of CEL", escape_invisible(&escaped.to_string())),
            preserves_meaning: true,
        })
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
