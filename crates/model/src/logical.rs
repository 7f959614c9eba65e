//! Logical types, and numbers as spans hold them.

use std::fmt;

use crate::decimal::Decimal;
use crate::spelling::spelled;

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

spelled!(LogicalType, "The logical type of a field.", {
    String = "string",
    StringArray = "string_array",
    Boolean = "boolean",
    Number = "number",
});

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
