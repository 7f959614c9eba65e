//! Spans, with the values of their columns.

use std::collections::BTreeMap;

use tracewarden_model::{MarkedField, Number};

/// One span, by column. A missing column counts as NULL, a missing map as empty.
pub type Span = BTreeMap<String, FieldValue>;

/// The value of one column of a span. Strings are bytes: a span's text need not be UTF-8.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    /// NULL.
    Null,
    /// A string, the name of an enum value, or a UUID.
    String(Vec<u8>),
    /// A boolean.
    Bool(bool),
    /// A number, or a time in seconds since the epoch. Only filters compare it, with decimal operands.
    Number(Number),
    /// An array.
    Array(Vec<FieldValue>),
    /// A map in the order of the column, possibly with repeated keys. Also the content of a JSON column, with each
    /// value under its path: names joined by dots.
    Map(Vec<(Vec<u8>, FieldValue)>),
    /// A value of a type that fields cannot have, such as a date or a number inside JSON where a string is expected;
    /// as JSON.
    Other(String),
}

impl FieldValue {
    /// Creates a string.
    pub fn text(text: impl Into<String>) -> Self {
        Self::String(text.into().into_bytes())
    }

    /// Creates an array of strings.
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::Array(texts.into_iter().map(Self::text).collect())
    }

    /// Returns the value of a key of a map, or at a path of a JSON column. If a map contains a key twice, returns the
    /// first value.
    pub fn value_of_key(&self, key: &[u8]) -> Option<&Self> {
        match self {
            Self::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }
}

/// Returns the value of a field on the span; `None` if it is absent.
pub(super) fn value_of<'a>(field: &MarkedField, span: &'a Span) -> Option<&'a FieldValue> {
    match &field.field.map {
        None => span.get(&field.field.name),
        Some(map) => span.get(map)?.value_of_key(field.field.name.as_bytes()),
    }
}
