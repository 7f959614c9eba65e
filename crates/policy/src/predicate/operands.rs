//! Operands of tests: strings, arrays and integers of a span, or literals.

use std::sync::Arc;

use tracewarden_model::MarkedField;

/// A string of the span, or a literal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Text {
    /// A literal.
    Literal(String),
    /// The value of a field of type string.
    Field(Arc<MarkedField>),
    /// An element of the array that an enclosing [`Atom::Quantified`](super::Atom::Quantified) iterates over.
    Element(u32),
}

/// An array of strings.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Array {
    /// The value of a field of type string_array.
    Field(Arc<MarkedField>),
    /// An array of these elements.
    List(Vec<Text>),
}

/// An integer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Int {
    /// A literal.
    Literal(i64),
    /// Number of code points of a string.
    TextSize(Text),
    /// Number of elements of an array.
    ArraySize(Array),
}

impl Text {
    /// Returns the weight of the string as an operand.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Literal(text) => weight(text),
            _ => 1,
        }
    }
}

/// Weight of a string: one node, and one more for every 32 bytes.
pub(super) fn weight(text: &str) -> u64 {
    1 + text.len() as u64 / 32
}
