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
    fn keys_are_escaped_as_cel_literals() {
        assert_eq!(FieldRef::column("Events.Name").to_string(), "Events.Name");
        assert_eq!(FieldRef::key("SpanAttributes", "tenant.id").to_string(), "SpanAttributes[\"tenant.id\"]");
        assert_eq!(FieldRef::key("M", "a\"b\\c\n\u{1}").to_string(), "M[\"a\\\"b\\\\c\\n\\u0001\"]");
    }
}
