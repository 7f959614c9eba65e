//! Logical types, their operators, and numbers as spans hold them.

use std::fmt;

use crate::decimal::Decimal;

/// The type of a field in filters and policies, independent of its column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogicalType {
    /// A string.
    String,
    /// An array of strings.
    StringArray,
    /// `true` or `false`.
    Boolean,
    /// An integer or a floating-point number. Filters only; policies reject it.
    Number,
}

impl LogicalType {
    /// All logical types.
    pub const ALL: [Self; 4] = [Self::String, Self::StringArray, Self::Boolean, Self::Number];

    /// Returns the wire spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::StringArray => "string_array",
            Self::Boolean => "boolean",
            Self::Number => "number",
        }
    }

    /// Parses the wire spelling.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|logical| logical.as_str() == text)
    }

    /// Returns the operators that filters may use on a field of this type, in display order.
    pub fn operators(self) -> &'static [Operator] {
        use Operator::*;
        match self {
            Self::String => &[Eq, Ne, In, NotIn, Prefix, Exists, NotExists],
            Self::StringArray => &[Has, HasAny, HasAll],
            Self::Boolean => &[Eq, Ne],
            Self::Number => &[Eq, Ne, Gt, Gte, Lt, Lte, Between],
        }
    }
}

impl fmt::Display for LogicalType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A filter operator. The spellings are part of the wire format and of cursors and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// Exact match.
    Eq,
    /// Present and not an exact match.
    Ne,
    /// One of a list of strings.
    In,
    /// Present and none of a list of strings.
    NotIn,
    /// Begins with.
    Prefix,
    /// The key is present, with any value.
    Exists,
    /// The key is absent.
    NotExists,
    /// The array contains the value.
    Has,
    /// The array contains at least one of the values.
    HasAny,
    /// The array contains all of the values.
    HasAll,
    /// Greater than.
    Gt,
    /// Greater than or equal.
    Gte,
    /// Less than.
    Lt,
    /// Less than or equal.
    Lte,
    /// Within a closed range.
    Between,
}

impl Operator {
    /// Returns the wire spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Eq => "eq",
            Self::Ne => "ne",
            Self::In => "in",
            Self::NotIn => "not_in",
            Self::Prefix => "prefix",
            Self::Exists => "exists",
            Self::NotExists => "not_exists",
            Self::Has => "has",
            Self::HasAny => "has_any",
            Self::HasAll => "has_all",
            Self::Gt => "gt",
            Self::Gte => "gte",
            Self::Lt => "lt",
            Self::Lte => "lte",
            Self::Between => "between",
        }
    }

    /// Parses the wire spelling.
    pub fn parse(text: &str) -> Option<Self> {
        let mut known = LogicalType::ALL.into_iter().flat_map(LogicalType::operators).copied();
        known.find(|operator| operator.as_str() == text)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A number in a span. Filters compare it with a [`Decimal`].
#[derive(Debug, Clone, PartialEq)]
pub enum Number {
    /// An integer.
    Int(i64),
    /// An integer that may be above `i64::MAX`.
    UInt(u64),
    /// A binary floating-point number, possibly NaN or infinite.
    Float(f64),
    /// A time, or a number of a decimal column.
    Decimal(Decimal),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::UInt(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Decimal(value) => value.fmt(f),
        }
    }
}
