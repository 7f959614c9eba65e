//! `LIKE` and its patterns.

use tracewarden_model::field::escape;

use super::{Correction, MistakeFinder};

impl MistakeFinder<'_> {
    /// Replaces `x LIKE "a%"`. `pattern` is the token of the pattern.
    pub(super) fn like(&self, at: usize, pattern: usize, negated: bool) -> Option<Correction> {
        let first = self.operand_before(at.checked_sub(1)?)?;
        let written = self.token(pattern);
        let inner = written.strip_prefix(['"', '\''])?.strip_suffix(['"', '\''])?;
        if inner.starts_with(['"', '\'']) {
            return None;
        }
        let subject = self.part(first, at - 1);
        let folded = self.part(at, pattern - 1).to_ascii_lowercase().contains("ilike");
        let Some(call) = like_as_call(subject, inner, folded) else {
            return Some(Correction {
                span: self.span(first, pattern),
                replacement: (!negated).to_string(),
                underline: self.span(at, pattern),
                message: self.not_allowed(at, pattern),
                hint: "every string matches this: leave the condition out".to_owned(),
                preserves_meaning: false,
            });
        };
        let replacement = match (negated, call.contains(" == ")) {
            (true, true) => format!("!({call})"),
            (true, false) => format!("!{call}"),
            _ => call,
        };
        let (underline, message) = (self.span(at, pattern - 1), self.not_allowed(at, pattern - 1));
        Some(Correction::write(self.span(first, pattern), underline, replacement, message))
    }
}

/// Converts a `LIKE` pattern to functions of policies; `None` if every text matches. In the pattern `%` matches any
/// text, `_` any character, and a backslash escapes the next character.
pub(crate) fn like_as_call(subject: &str, pattern: &str, folded: bool) -> Option<String> {
    enum Piece {
        Plain(char),
        AnyText,
        AnyCharacter,
    }
    let mut pieces = Vec::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        pieces.push(match character {
            '%' => Piece::AnyText,
            '_' => Piece::AnyCharacter,
            '\\' => Piece::Plain(characters.next().unwrap_or('\\')),
            other => Piece::Plain(other),
        });
    }
    let begins = !matches!(pieces.first(), Some(Piece::AnyText));
    let ends = !matches!(pieces.last(), Some(Piece::AnyText));
    let from = pieces.iter().position(|piece| !matches!(piece, Piece::AnyText));
    let Some(from) = from else {
        return pieces.is_empty().then(|| format!("{subject} == \"\""));
    };
    let to = pieces.iter().rposition(|piece| !matches!(piece, Piece::AnyText)).unwrap_or(from);
    let core = pieces.get(from..=to).unwrap_or_default();
    let plain: Option<String> = core
        .iter()
        .map(|piece| match piece {
            Piece::Plain(character) => Some(*character),
            _ => None,
        })
        .collect();
    if let Some(plain) = plain.filter(|_| !folded) {
        let plain = escape(&plain);
        return Some(match (begins, ends) {
            (false, false) => format!("{subject}.contains(\"{plain}\")"),
            (true, false) => format!("{subject}.startsWith(\"{plain}\")"),
            (false, true) => format!("{subject}.endsWith(\"{plain}\")"),
            (true, true) => format!("{subject} == \"{plain}\""),
        });
    }
    let mut written = String::new();
    written.push_str(if folded { "(?i)" } else { "" });
    written.push_str(if begins { "^" } else { "" });
    for piece in core {
        match piece {
            Piece::Plain(character) => written.push_str(&regex_syntax::escape(&character.to_string())),
            Piece::AnyText => written.push_str(".*"),
            Piece::AnyCharacter => written.push('.'),
        }
    }
    written.push_str(if ends { "$" } else { "" });
    // A raw string does not need escaped backslashes.
    let raw = written.contains('\\') && !written.contains('"') && !written.contains(char::is_control);
    Some(match raw {
        true => format!("{subject}.matches(r\"{written}\")"),
        false => format!("{subject}.matches(\"{}\")", escape(&written)),
    })
}
