//! Size limits against hostile text, applied before the CEL parser reads it.
//!
//! The parser is recursive: 6 KB of `a.b.b…` or `1+1+…` abort a process with an ordinary stack. So the text is first
//! split into tokens here, in time and memory linear in its length, and rejected if it has too many tokens or nests
//! too deeply.

use crate::diagnostics::{Diagnostic, Span};

/// Maximum length of the text, in bytes.
pub const MAX_BYTES: usize = 8 * 1024;
/// Maximum number of tokens.
pub const MAX_TOKENS: usize = 1_000;
/// Maximum nesting depth: of brackets here, and of the syntax tree after parsing.
pub const MAX_DEPTH: usize = 64;

/// Splits text into byte ranges of tokens, without white space and comments.
///
/// # Errors
/// If a limit is exceeded.
pub(crate) fn tokens(text: &str) -> Result<Vec<Span>, Diagnostic> {
    if text.len() > MAX_BYTES {
        let message = format!("a policy has at most {MAX_BYTES} bytes, this one has {}", text.len());
        return Err(Diagnostic::new(text, Span::new(0, 0), "too_long", message)
            .with_hint("put long lists into a user attribute, or split the policy in two"));
    }
    if let Some(at) = text.find('\0') {
        // Not every database can store it, and it is invisible.
        let message = "a policy must not contain the character U+0000";
        return Err(Diagnostic::new(text, Span::new(at, at + 1), "syntax", message)
            .with_hint("in a string write `\\u0000`"));
    }
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let end = match byte {
            b' ' | b'\t' | b'\r' | b'\n' | b'\x0c' => {
                at += 1;
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at = bytes
                    .iter()
                    .skip(at)
                    .position(|byte| *byte == b'\n')
                    .map_or(bytes.len(), |line| at + line);
                continue;
            }
            b'"' | b'\'' => string_end(bytes, at, false),
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                let end = run(bytes, at, |byte| byte == b'_' || byte.is_ascii_alphanumeric());
                let prefix = bytes.get(at..end).unwrap_or_default();
                let quoted = matches!(bytes.get(end), Some(b'"' | b'\''));
                if quoted && prefix.len() <= 2 && prefix.iter().all(|byte| b"rRbB".contains(byte)) {
                    string_end(bytes, end, prefix.iter().any(|byte| b"rR".contains(byte)))
                } else {
                    end
                }
            }
            b'0'..=b'9' => {
                let end = run(bytes, at, |byte| byte.is_ascii_alphanumeric());
                let fraction =
                    bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
                if fraction { run(bytes, end + 1, |byte| byte.is_ascii_alphanumeric()) } else { end }
            }
            b'&' | b'|' | b'=' | b'!' | b'<' | b'>'
                if matches!(bytes.get(at + 1), Some(b'&' | b'|' | b'=')) =>
            {
                at + 2
            }
            // A non-ASCII character stays whole, so that every span lies on character boundaries.
            0x80.. => run(bytes, at + 1, |byte| (0x80..0xc0).contains(&byte)),
            _ => at + 1,
        };
        let span = Span::new(at, end);
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(too_deep(text, span));
        }
        found.push(span);
        if found.len() > MAX_TOKENS {
            let message = format!("a policy has at most {MAX_TOKENS} tokens");
            return Err(Diagnostic::new(text, span, "too_many_tokens", message)
                .with_hint("put long lists into a user attribute, or split the policy in two"));
        }
        at = end;
    }
    Ok(found)
}

/// Returns the error for text that nests too deeply at `span`.
pub(crate) fn too_deep(text: &str, span: Span) -> Diagnostic {
    let message = format!("a policy nests at most {MAX_DEPTH} levels deep");
    Diagnostic::new(text, span, "too_deep", message).with_hint("split the policy in several")
}

fn run(bytes: &[u8], from: usize, belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().skip(from).position(|byte| !belongs(*byte)).map_or(bytes.len(), |length| from + length)
}

/// Returns the end of the string literal whose opening quote is at `open`; the end of the text if it is not closed.
fn string_end(bytes: &[u8], open: usize, raw: bool) -> usize {
    let quote = bytes.get(open).copied().unwrap_or(b'"');
    let triple = bytes.get(open..open + 3).is_some_and(|three| three.iter().all(|byte| *byte == quote));
    let width = if triple { 3 } else { 1 };
    let mut at = open + width;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'\\' && !raw {
            at += 2;
        } else if byte == quote
            && bytes.get(at..at + width).is_some_and(|end| end.iter().all(|byte| *byte == quote))
        {
            return at + width;
        } else if byte == b'\n' && !triple {
            return at;
        } else {
            at += 1;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<&str> {
        tokens(text).unwrap().into_iter().map(|span| &text[span.start..span.end]).collect()
    }

    #[test]
    fn tokens_are_those_of_cel() {
        assert_eq!(
            split("a.b[\"x\\\"]\"] != r'\\' && // no\n !size(größe)<=1.5"),
            [
                "a",
                ".",
                "b",
                "[",
                "\"x\\\"]\"",
                "]",
                "!=",
                "r'\\'",
                "&&",
                "!",
                "size",
                "(",
                "gr",
                "ö",
                "ß",
                "e",
                ")",
                "<=",
                "1.5"
            ]
        );
        assert_eq!(split("'''a'b''' 'open"), ["'''a'b'''", "'open"]);
        assert_eq!(split("'ends in backslash\\"), ["'ends in backslash\\"]);
    }

    #[test]
    fn limits_are_enforced() {
        assert_eq!(tokens(&"x".repeat(MAX_BYTES + 1)).unwrap_err().code, "too_long");
        assert_eq!(tokens(&"1+".repeat(MAX_TOKENS)).unwrap_err().code, "too_many_tokens");
        assert_eq!(tokens(&"(".repeat(MAX_DEPTH + 1)).unwrap_err().code, "too_deep");
    }
}
