//! One type of each kind, with what the documentation says of it.

use tracewarden_model::{NumberType, TextType};

/// A row of the table of types in the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeDescription {
    /// The names of the type in ClickHouse, as Markdown.
    pub names: &'static str,
    /// The value of a field.
    pub value: &'static str,
    /// Where the value is an error; empty for nowhere.
    pub error: &'static str,
}

/// A number type of each kind.
pub const NUMBER_TYPES: [NumberType; 5] = [
    NumberType::Integer { bits: 64, signed: true },
    NumberType::Decimal { precision: 18, scale: 3 },
    NumberType::Float { bits: 64 },
    NumberType::DateTime,
    NumberType::DateTime64 { precision: 9 },
];

/// Returns a text type of each kind.
pub fn text_types() -> [TextType; 4] {
    let (bytes, names) = (4, vec!["a".to_owned()]);
    [TextType::String, TextType::FixedString { bytes }, TextType::Enum { names }, TextType::Uuid]
}

/// Describes a text type.
pub fn describe_text(text_type: &TextType) -> TypeDescription {
    let not_utf8 = "in `size` and `matches`, if it is not UTF-8";
    let (names, value, error) = match text_type {
        TextType::String => ("`String`", "the string; need not be UTF-8", not_utf8),
        TextType::FixedString { .. } => {
            ("`FixedString(N)`", "its bytes without trailing zero bytes", not_utf8)
        }
        TextType::Enum { .. } => ("`Enum8`, `Enum16`", "the name", ""),
        TextType::Uuid => ("`UUID`", "36 characters, lower case, with hyphens", ""),
    };
    TypeDescription { names, value, error }
}

/// Describes a number type.
pub fn describe_number(number_type: NumberType) -> TypeDescription {
    let (names, value) = match number_type {
        NumberType::Integer { .. } => ("`Int8` to `Int256`, `UInt8` to `UInt256`", "exact"),
        NumberType::Decimal { .. } => ("`Decimal(P, S)`", "exact"),
        NumberType::Float { .. } => (
            "`Float32`, `Float64`",
            "compared with the operand rounded once to the column's type; NaN is unequal to every number",
        ),
        NumberType::DateTime => ("`DateTime`", "seconds since the Unix epoch, exact"),
        NumberType::DateTime64 { .. } => {
            ("`DateTime64(P)`", "seconds since the Unix epoch, exact to the column's precision")
        }
    };
    TypeDescription { names, value, error: "" }
}
