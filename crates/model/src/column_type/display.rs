//! Writes type names in ClickHouse's notation.

use std::fmt;

use super::ColumnType;
use crate::field::is_identifier;

impl fmt::Display for ColumnType {
    /// Writes the type as ClickHouse does, with three differences: an enumeration is `Enum('a', 'b')` without numbers,
    /// a time has no zone, and a JSON type has only its declared paths. [`ColumnType::parse`] reads the text back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = |f: &mut fmt::Formatter<'_>, members: &[(String, Self)]| {
            for (at, (name, member)) in members.iter().enumerate() {
                let separator = if at == 0 { "" } else { ", " };
                write!(f, "{separator}{} {member}", quoted(name, '`'))?;
            }
            Ok(())
        };
        match self {
            Self::String => f.write_str("String"),
            Self::FixedString { bytes } => write!(f, "FixedString({bytes})"),
            Self::Enum { names } => {
                let names: Vec<String> = names.iter().map(|name| quoted(name, '\'')).collect();
                write!(f, "Enum({})", names.join(", "))
            }
            Self::Uuid => f.write_str("UUID"),
            Self::Bool => f.write_str("Bool"),
            Self::Integer { bits, signed: true } => write!(f, "Int{bits}"),
            Self::Integer { bits, signed: false } => write!(f, "UInt{bits}"),
            Self::Float { bits } => write!(f, "Float{bits}"),
            Self::Decimal { precision, scale } => write!(f, "Decimal({precision}, {scale})"),
            Self::DateTime => f.write_str("DateTime"),
            Self::DateTime64 { precision } => write!(f, "DateTime64({precision})"),
            Self::LowCardinality(inner) => write!(f, "LowCardinality({inner})"),
            Self::Nullable(inner) => write!(f, "Nullable({inner})"),
            Self::Array(inner) => write!(f, "Array({inner})"),
            Self::Map(key, value) => write!(f, "Map({key}, {value})"),
            Self::Nested(inner) => {
                f.write_str("Nested(")?;
                members(f, inner)?;
                f.write_str(")")
            }
            Self::Json { typed } if typed.is_empty() => f.write_str("JSON"),
            Self::Json { typed } => {
                f.write_str("JSON(")?;
                members(f, typed)?;
                f.write_str(")")
            }
            Self::Dynamic => f.write_str("Dynamic"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// Quotes a name; with backquotes only if the name needs them.
fn quoted(name: &str, quote: char) -> String {
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
