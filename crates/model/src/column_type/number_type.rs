//! Types whose values are numbers for filters.

use std::fmt;

/// A type whose values are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NumberType {
    /// `Int8` to `Int256`, `UInt8` to `UInt256`.
    Integer {
        /// Width in bits.
        bits: u16,
        /// Whether the type has negative numbers.
        signed: bool,
    },
    /// `Decimal(P, S)`.
    Decimal {
        /// Total number of digits, 1 to 76.
        precision: u8,
        /// Number of digits after the decimal point.
        scale: u8,
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
        /// Number of fractional digits of the second, 0 to 9.
        precision: u8,
    },
}

impl NumberType {
    pub(super) fn parse(head: &str, arguments: Option<&str>) -> Option<Self> {
        match (head, arguments) {
            ("Float32", None) => Some(Self::Float { bits: 32 }),
            ("Float64", None) => Some(Self::Float { bits: 64 }),
            ("Decimal", Some(arguments)) => {
                let (precision, scale) = arguments.split_once(',')?;
                let (precision, scale): (u8, u8) =
                    (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
                let valid = (1..=76).contains(&precision) && scale <= precision;
                valid.then_some(Self::Decimal { precision, scale })
            }
            ("DateTime", _) => Some(Self::DateTime),
            ("DateTime64", Some(arguments)) => {
                let precision = arguments.split(',').next()?.trim().parse().ok()?;
                (precision <= 9).then_some(Self::DateTime64 { precision })
            }
            (name, None) => {
                let (signed, digits) = match name.strip_prefix("UInt") {
                    Some(digits) => (false, digits),
                    None => (true, name.strip_prefix("Int")?),
                };
                let bits: u16 = digits.parse().ok()?;
                [8, 16, 32, 64, 128, 256].contains(&bits).then_some(Self::Integer { bits, signed })
            }
            _ => None,
        }
    }
}

impl fmt::Display for NumberType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer { bits, signed: true } => write!(f, "Int{bits}"),
            Self::Integer { bits, signed: false } => write!(f, "UInt{bits}"),
            Self::Decimal { precision, scale } => write!(f, "Decimal({precision}, {scale})"),
            Self::Float { bits } => write!(f, "Float{bits}"),
            Self::DateTime => f.write_str("DateTime"),
            Self::DateTime64 { precision } => write!(f, "DateTime64({precision})"),
        }
    }
}
