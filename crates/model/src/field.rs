//! References to fields, as people write them.

use std::fmt;

/// A column, one key of a map column, or one path of a JSON column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldRef {
    /// The map column that holds the key, or the JSON column that holds the path; `None` for a column of its own.
    pub map: Option<String>,
    /// The key within `map`, the path with its names joined by dots, or the column's name. A nested column's name holds
    /// its dot: `Events.Name`.
    pub name: String,
}

impl FieldRef {
    /// A column of its own.
    pub fn column(name: impl Into<String>) -> Self {
        Self { map: None, name: name.into() }
    }

    /// A key of a map column.
    pub fn key(map: impl Into<String>, key: impl Into<String>) -> Self {
        Self { map: Some(map.into()), name: key.into() }
    }
}

/// Words that CEL keeps for itself.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

impl FieldRef {
    /// Whether a policy can name the field: its column is an identifier of CEL, or several joined by dots, and does not
    /// mean something else there.
    pub fn can_be_named(&self) -> bool {
        let column = self.map.as_deref().unwrap_or(&self.name);
        let identifier = |segment: &str| {
            let mut characters = segment.chars();
            characters.next().is_some_and(|first| first == '_' || first.is_ascii_alphabetic())
                && characters.all(|other| other == '_' || other.is_ascii_alphanumeric())
                && !RESERVED.contains(&segment)
        };
        column.split('.').all(identifier) && column.split('.').next() != Some("user")
    }
}

impl FieldRef {
    /// Reads a reference as [`FieldRef`] displays it: `Map["key"]`, with the key escaped as in CEL or JSON and in quotes
    /// of either kind, or a column. Whatever else it is, it is the name of a column.
    pub fn parse(reference: &str) -> Self {
        let key = reference.strip_suffix(']').and_then(|rest| {
            rest.match_indices('[').find_map(|(at, _)| {
                let key = unescape(rest.get(at + 1..)?)?;
                Some(Self::key(rest.get(..at)?, key))
            })
        });
        key.filter(|key| key.map.as_deref() != Some("")).unwrap_or_else(|| Self::column(reference))
    }
}

/// The text of a string literal with its quotes, as [`escape`] writes it, and JSON and CEL do; `None` where it is none.
fn unescape(literal: &str) -> Option<String> {
    let quote = literal.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let mut rest = literal.strip_prefix(quote)?.strip_suffix(quote)?.chars();
    let mut text = String::new();
    while let Some(character) = rest.next() {
        let unescaped = match character {
            '\\' => match rest.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'u' => match code(&mut rest, 4)? {
                    high @ 0xd800..=0xdbff => {
                        (rest.next() == Some('\\') && rest.next() == Some('u')).then_some(())?;
                        let low = code(&mut rest, 4)?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
                        char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + low)?
                    }
                    single => char::from_u32(single)?,
                },
                'U' => char::from_u32(code(&mut rest, 8)?)?,
                other @ ('"' | '\'' | '\\' | '/' | '`') => other,
                _ => return None,
            },
            other if other == quote => return None,
            other => other,
        };
        text.push(unescaped);
    }
    Some(text)
}

/// So many hexadecimal digits as a number.
fn code(characters: &mut std::str::Chars<'_>, digits: usize) -> Option<u32> {
    (0..digits).try_fold(0_u32, |code, _| Some(code << 4 | characters.next()?.to_digit(16)?))
}

impl fmt::Display for FieldRef {
    /// `ServiceName`, or `SpanAttributes["tenant.id"]` with the key escaped as CEL does, so that the text can be
    /// pasted into a policy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.map {
            None => f.write_str(&self.name),
            Some(map) => write!(f, "{map}[\"{}\"]", escape(&self.name)),
        }
    }
}

/// Escapes text for a double-quoted CEL string literal.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            other if other.is_control() => escaped.push_str(&format!("\\u{:04x}", u32::from(other))),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_name_identifiers() {
        for name in ["ServiceName", "Events.Name", "_x1"] {
            assert!(FieldRef::column(name).can_be_named(), "{name}");
        }
        assert!(FieldRef::key("SpanAttributes", "any key: \"in\" it").can_be_named());
        for name in ["user", "user.x", "my-col", "a b", "", "1x", "in", "a.", "größe"] {
            assert!(!FieldRef::column(name).can_be_named(), "{name}");
            assert!(!FieldRef::key(name, "k").can_be_named(), "{name}");
        }
    }

    #[test]
    fn references_are_read_as_they_are_shown() {
        for field in [
            FieldRef::column("ServiceName"),
            FieldRef::column("Events.Name"),
            FieldRef::column("a]"),
            FieldRef::key("SpanAttributes", "tenant.id"),
            FieldRef::key("M", ""),
            FieldRef::key("M[", "a[\"b\"]"),
            FieldRef::key("M", "a\"b\\c\n\t\r\u{1}\u{7f}\u{e9}\u{1f600}'[`"),
        ] {
            assert_eq!(FieldRef::parse(&field.to_string()), field);
        }
        let key = |key: &str| FieldRef::key("M", key);
        assert_eq!(FieldRef::parse("M['a\"b']"), key("a\"b"));
        assert_eq!(FieldRef::parse(r#"M["\ud83d\ude00\/"]"#), key("\u{1f600}/"));
        assert_eq!(FieldRef::parse(r#"M["\U0001F600"]"#), key("\u{1f600}"));
        for column in [
            "",
            "M[k]",
            "M[\"k]",
            "M[\"k\"",
            "[\"k\"]",
            "M[\"a\"b\"]",
            r#"M["\x"]"#,
            r#"M["\ud83d"]"#,
            r#"M["\u12"]"#,
        ] {
            assert_eq!(FieldRef::parse(column), FieldRef::column(column), "{column}");
        }
    }

    #[test]
    fn keys_are_escaped_as_cel_literals() {
        assert_eq!(FieldRef::column("Events.Name").to_string(), "Events.Name");
        assert_eq!(FieldRef::key("SpanAttributes", "tenant.id").to_string(), "SpanAttributes[\"tenant.id\"]");
        assert_eq!(FieldRef::key("M", "a\"b\\c\n\u{1}").to_string(), "M[\"a\\\"b\\\\c\\n\\u0001\"]");
    }
}
