//! Lists of arguments and quoted names in type names.

use crate::field::is_identifier;

/// Splits at commas outside parentheses and quotes; `None` if these are unbalanced.
pub(super) fn split(arguments: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let (mut depth, mut quote, mut start) = (0_u32, None, 0);
    let mut characters = arguments.char_indices();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (Some(_), '\\') => {
                characters.next()?;
            }
            (Some(open), close) if open == close => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '`') => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.checked_sub(1)?,
            (None, ',') if depth == 0 => {
                parts.push(arguments.get(start..at)?);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(arguments.get(start..)?);
    (depth == 0 && quote.is_none()).then_some(parts)
}

/// Parses a quoted name or literal as ClickHouse writes it; returns it with the rest of the text.
pub fn unquote(text: &str, quote: char) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.strip_prefix(quote)?.chars();
    loop {
        match characters.next()? {
            '\\' => name.push(match characters.next()? {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                same @ ('\\' | '\'' | '`' | '"') => same,
                // Possibly bytes that are not UTF-8: names that cannot be read exactly are rejected.
                _ => return None,
            }),
            end if end == quote => return Some((name, characters.as_str())),
            other => name.push(other),
        }
    }
}

/// Quotes a name; with backquotes only if the name needs them.
pub(super) fn quoted(name: &str, quote: char) -> String {
    // `SKIP` begins another kind of argument.
    if quote == '`' && name != "SKIP" && name.split('.').all(is_identifier) {
        return name.to_owned();
    }
    let mut text = String::from(quote);
    for character in name.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\0' => text.push_str("\\0"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            same if same == quote => text.extend(['\\', same]),
            other => text.push(other),
        }
    }
    text.push(quote);
    text
}
