//! Writes type names in ClickHouse's notation.

use std::fmt;

use super::ColumnType;
use super::quoting::quoted;

impl fmt::Display for ColumnType {
    /// Writes the type as ClickHouse does, with three differences: an enumeration is `Enum('a', 'b')` without numbers,
    /// a time has no zone, and a JSON type has only its declared paths. [`ColumnType::parse`] reads the text back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = |members: &[(String, Self)]| {
            let members = members.iter().map(|(name, member)| format!("{} {member}", quoted(name, '`')));
            members.collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Text(text) => text.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Bool => f.write_str("Bool"),
            Self::LowCardinality(inner) => write!(f, "LowCardinality({inner})"),
            Self::Nullable(inner) => write!(f, "Nullable({inner})"),
            Self::Array(inner) => write!(f, "Array({inner})"),
            Self::Map(key, value) => write!(f, "Map({key}, {value})"),
            Self::Nested(inner) => write!(f, "Nested({})", members(inner)),
            Self::Json { typed } if typed.is_empty() => f.write_str("JSON"),
            Self::Json { typed } => write!(f, "JSON({})", members(typed)),
            Self::Dynamic => f.write_str("Dynamic"),
            Self::Other(text) => f.write_str(text),
        }
    }
}
