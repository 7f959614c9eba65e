//! ClickHouse column types, as far as fields can be made of them.

use std::fmt;

use crate::logical::LogicalType;

/// A ClickHouse type, parsed from its name as `system.columns` gives it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// `String`.
    String,
    /// `Bool`.
    Bool,
    /// `Int8` to `Int256`, `UInt8` to `UInt256`.
    Integer {
        /// Width in bits.
        bits: u16,
        /// Whether negative numbers exist.
        signed: bool,
    },
    /// `Float32`, `Float64`.
    Float {
        /// Width in bits.
        bits: u16,
    },
    /// `DateTime`, with or without a time zone.
    DateTime,
    /// `DateTime64`, with or without a time zone.
    DateTime64 {
        /// Digits after the second, 0 to 9.
        precision: u8,
    },
    /// `LowCardinality(T)`.
    LowCardinality(Box<ColumnType>),
    /// `Nullable(T)`.
    Nullable(Box<ColumnType>),
    /// `Array(T)`.
    Array(Box<ColumnType>),
    /// `Map(K, V)`.
    Map(Box<ColumnType>, Box<ColumnType>),
    /// Any type that no field is made of.
    Other(String),
}

impl ColumnType {
    /// Reads a type name. Never fails: what is not known is [`ColumnType::Other`].
    pub fn parse(text: &str) -> Self {
        Self::parse_at(text, 0)
    }

    fn parse_at(text: &str, depth: u8) -> Self {
        let text = text.trim();
        let other = || Self::Other(text.to_owned());
        // Names come from the trace store; a hostile one must not exhaust the stack.
        if depth > 16 {
            return other();
        }
        let (head, arguments) = match text.split_once('(') {
            Some((head, rest)) => match rest.strip_suffix(')') {
                Some(arguments) => (head, Some(arguments)),
                None => return other(),
            },
            None => (text, None),
        };
        let inner = |arguments: &str| Box::new(Self::parse_at(arguments, depth + 1));
        match (head, arguments) {
            ("String", None) => Self::String,
            ("Bool", None) => Self::Bool,
            ("Float32", None) => Self::Float { bits: 32 },
            ("Float64", None) => Self::Float { bits: 64 },
            ("DateTime", _) => Self::DateTime,
            ("DateTime64", Some(arguments)) => {
                let digits = arguments.split(',').next().unwrap_or_default().trim();
                match digits.parse::<u8>() {
                    Ok(precision) if precision <= 9 => Self::DateTime64 { precision },
                    _ => other(),
                }
            }
            ("LowCardinality", Some(arguments)) => Self::LowCardinality(inner(arguments)),
            ("Nullable", Some(arguments)) => Self::Nullable(inner(arguments)),
            ("Array", Some(arguments)) => Self::Array(inner(arguments)),
            ("Map", Some(arguments)) => match split_top_level_comma(arguments) {
                Some((key, value)) => Self::Map(inner(key), inner(value)),
                None => other(),
            },
            (name, None) => integer(name).unwrap_or_else(other),
            _ => other(),
        }
    }

    /// Without `LowCardinality` and `Nullable` around it.
    pub fn bare(&self) -> &Self {
        match self {
            Self::LowCardinality(inner) | Self::Nullable(inner) => inner.bare(),
            other => other,
        }
    }

    /// Whether a value can be NULL.
    pub fn is_nullable(&self) -> bool {
        match self {
            Self::Nullable(_) => true,
            Self::LowCardinality(inner) => inner.is_nullable(),
            _ => false,
        }
    }

    /// Whether this is a string, perhaps nullable or of low cardinality.
    pub fn is_string(&self) -> bool {
        matches!(self.bare(), Self::String)
    }

    /// The logical types that a column of this type can be marked as; the first is the natural one.
    pub fn logical_types(&self) -> &'static [LogicalType] {
        match self.bare() {
            Self::String => &[LogicalType::String],
            Self::Bool => &[LogicalType::Boolean],
            Self::Integer { bits, .. } if *bits <= 64 => &[LogicalType::Number],
            Self::Float { .. } | Self::DateTime | Self::DateTime64 { .. } => &[LogicalType::Number],
            Self::Array(element) if element.is_string() && !element.is_nullable() => {
                &[LogicalType::StringArray]
            }
            _ => &[],
        }
    }

    /// For a map with string keys and string values, the logical types that a key can be marked as, else none.
    pub fn map_key_logical_types(&self) -> &'static [LogicalType] {
        match self {
            Self::Map(key, value) if key.is_string() && value.is_string() => {
                &[LogicalType::String, LogicalType::Number, LogicalType::Boolean, LogicalType::StringArray]
            }
            _ => &[],
        }
    }

    /// The type of a map's values.
    pub fn map_value(&self) -> Option<&Self> {
        match self {
            Self::Map(_, value) => Some(value),
            _ => None,
        }
    }
}

fn integer(name: &str) -> Option<ColumnType> {
    let (signed, digits) = match name.strip_prefix("UInt") {
        Some(digits) => (false, digits),
        None => (true, name.strip_prefix("Int")?),
    };
    let bits: u16 = digits.parse().ok()?;
    [8, 16, 32, 64, 128, 256].contains(&bits).then_some(ColumnType::Integer { bits, signed })
}

fn split_top_level_comma(arguments: &str) -> Option<(&str, &str)> {
    let mut depth = 0_u32;
    for (at, character) in arguments.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => return Some((arguments.get(..at)?, arguments.get(at + 1..)?)),
            _ => {}
        }
    }
    None
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String => f.write_str("String"),
            Self::Bool => f.write_str("Bool"),
            Self::Integer { bits, signed: true } => write!(f, "Int{bits}"),
            Self::Integer { bits, signed: false } => write!(f, "UInt{bits}"),
            Self::Float { bits } => write!(f, "Float{bits}"),
            Self::DateTime => f.write_str("DateTime"),
            Self::DateTime64 { precision } => write!(f, "DateTime64({precision})"),
            Self::LowCardinality(inner) => write!(f, "LowCardinality({inner})"),
            Self::Nullable(inner) => write!(f, "Nullable({inner})"),
            Self::Array(inner) => write!(f, "Array({inner})"),
            Self::Map(key, value) => write!(f, "Map({key}, {value})"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_survive_a_round_trip() {
        for text in [
            "String",
            "LowCardinality(Nullable(String))",
            "Map(LowCardinality(String), String)",
            "Array(Map(LowCardinality(String), String))",
            "UInt64",
            "Int128",
            "DateTime64(9)",
            "Array(LowCardinality(String))",
        ] {
            assert_eq!(ColumnType::parse(text).to_string(), text);
        }
        assert_eq!(
            ColumnType::parse("DateTime64(3, 'Europe/Berlin')"),
            ColumnType::DateTime64 { precision: 3 }
        );
        assert_eq!(ColumnType::parse("DateTime('UTC')"), ColumnType::DateTime);
    }

    #[test]
    fn what_is_not_known_makes_no_field() {
        for text in
            ["", "Int7", "Map(String)", "Array(", "Enum8('a' = 1)", "Tuple(a String)", "DateTime64(12)"]
        {
            assert!(ColumnType::parse(text).logical_types().is_empty(), "{text}");
        }
        let deep = "Array(".repeat(10_000) + "String" + &")".repeat(10_000);
        assert!(ColumnType::parse(&deep).logical_types().is_empty());
    }
}
