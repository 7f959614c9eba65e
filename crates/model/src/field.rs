//! References to fields, as users write them, and the location of their values in a row.

use std::fmt;

use crate::spelling::spelled;

/// A column, one key of a map column, or one path of a JSON column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldRef {
    /// The map column of the key, or the JSON column of the path; `None` for a column.
    pub map: Option<String>,
    /// The key within `map`, the path with its names joined by dots, or the column's name. The name of a nested column
    /// contains its dot: `Events.Name`.
    pub name: String,
}

impl FieldRef {
    /// Creates a reference to a column.
    pub fn column(name: impl Into<String>) -> Self {
        Self { map: None, name: name.into() }
    }

    /// Creates a reference to a key of a map column.
    pub fn key(map: impl Into<String>, key: impl Into<String>) -> Self {
        Self { map: Some(map.into()), name: key.into() }
    }
}

/// Whether the text is an identifier of CEL, and needs no quotes in ClickHouse.
pub(crate) fn is_identifier(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first == '_' || first.is_ascii_alphabetic())
        && characters.all(|other| other == '_' || other.is_ascii_alphanumeric())
}

/// Whether CEL reserves the word.
pub fn is_reserved(word: &str) -> bool {
    const RESERVED: &str = "true false null in as break const continue else for function if import let loop \
                            package namespace return var void while";
    RESERVED.split(' ').any(|reserved| reserved == word)
}

impl FieldRef {
    /// Whether policies can name the field: its column is a CEL identifier, or several joined by dots, and CEL gives it
    /// no other meaning.
    pub fn can_be_named(&self) -> bool {
        let column = self.map.as_deref().unwrap_or(&self.name);
        column.split('.').all(|segment| is_identifier(segment) && !is_reserved(segment))
            && column.split('.').next() != Some("user")
    }

    /// Parses a reference as [`FieldRef`] displays it: `Map["key"]`, with the key escaped as in CEL or JSON and in
    /// single or double quotes, or a column. Any other text is the name of a column.
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

/// Unescapes a quoted string literal as [`escape`], JSON and CEL write it; `None` if it is not one.
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

/// Reads the given number of hexadecimal digits.
fn code(characters: &mut std::str::Chars<'_>, digits: usize) -> Option<u32> {
    (0..digits).try_fold(0_u32, |code, _| Some(code << 4 | characters.next()?.to_digit(16)?))
}

impl fmt::Display for FieldRef {
    /// Writes `ServiceName`, or `SpanAttributes["tenant.id"]` with the key escaped as in CEL, so that users can paste
    /// the text into a policy.
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

/// Location of a field's value in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldSource {
    /// A column of its own, or a member of a nested column.
    Column,
    /// Under a key of a map column.
    MapKey,
    /// Under a key of a map that is stored as two array columns.
    ArrayPair(ArrayPair),
    /// At a path of a JSON column.
    JsonPath,
}

/// Two array columns that hold a map: its keys, and its values in the same order. The map's name is what the names of the
/// columns have in common; these are the rest of both names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::VariantArray)]
pub enum ArrayPair {
    /// `Map.key` and `Map.value`.
    NestedKeyValue,
    /// `Map.keys` and `Map.values`.
    NestedKeysValues,
    /// `Map.names` and `Map.values`.
    NestedNamesValues,
    /// `Map_keys` and `Map_values`.
    KeysValues,
    /// `Map_names` and `Map_values`.
    NamesValues,
}

impl ArrayPair {
    /// Returns the names of the columns with the keys and the values of this map.
    pub fn columns(self, map: &str) -> [String; 2] {
        self.suffixes().map(|suffix| format!("{map}{suffix}"))
    }

    /// Returns the name of the map whose keys this column holds.
    pub fn map_of_keys(self, column: &str) -> Option<&str> {
        let [keys, _] = self.suffixes();
        column.strip_suffix(keys).filter(|map| !map.is_empty())
    }

    fn suffixes(self) -> [&'static str; 2] {
        match self {
            Self::NestedKeyValue => [".key", ".value"],
            Self::NestedKeysValues => [".keys", ".values"],
            Self::NestedNamesValues => [".names", ".values"],
            Self::KeysValues => ["_keys", "_values"],
            Self::NamesValues => ["_names", "_values"],
        }
    }
}

impl FieldSource {
    /// Whether the value is under a key of a map, however the map is stored.
    pub fn is_map_key(self) -> bool {
        matches!(self, Self::MapKey | Self::ArrayPair(_))
    }
}

spelled!(FieldSource, "Where a row stores the value of a field.", {
    Column = "column",
    MapKey = "map_key",
    ArrayPair(ArrayPair::NestedKeyValue) = "nested_key_value",
    ArrayPair(ArrayPair::NestedKeysValues) = "nested_keys_values",
    ArrayPair(ArrayPair::NestedNamesValues) = "nested_names_values",
    ArrayPair(ArrayPair::KeysValues) = "keys_values",
    ArrayPair(ArrayPair::NamesValues) = "names_values",
    JsonPath = "json_path",
});

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
    fn references_round_trip() {
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
