//! Values of expressions, and the values of a span's fields.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use tracewarden_model::{AttributeValue, ColumnType, FieldSource, LogicalType, MarkedField};

use crate::evaluate::field_value::value_of;
use crate::evaluate::{FieldValue, Span};
use crate::expression::Constant;
use crate::predicate::TextFunction;

/// The value of an expression. Clones share the content, because macros bind each element of a list.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Int(i64),
    /// Bytes: a span's text need not be UTF-8.
    Text(Arc<[u8]>),
    List(Arc<[Value]>),
}

impl Value {
    pub(super) fn text(text: impl AsRef<[u8]>) -> Self {
        Self::Text(text.as_ref().into())
    }

    pub(super) fn texts<'a>(texts: impl IntoIterator<Item = &'a String>) -> Self {
        Self::List(texts.into_iter().map(Self::text).collect())
    }

    /// Returns a string; `None` if it is not UTF-8, or the value is not a string.
    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Returns the value as an attribute; `None` if it is an integer, or a list with other elements than strings.
    pub(super) fn to_attribute(&self) -> Option<AttributeValue> {
        let text = |value: &Self| value.as_str().map(str::to_owned);
        Some(match self {
            Self::Bool(value) => AttributeValue::Bool(*value),
            Self::Text(_) => AttributeValue::String(text(self)?),
            Self::List(elements) => {
                AttributeValue::Strings(elements.iter().map(text).collect::<Option<_>>()?)
            }
            Self::Int(_) => return None,
        })
    }

    pub(super) fn is_invalid_utf8(&self) -> bool {
        matches!(self, Self::Text(_)) && self.as_str().is_none()
    }

    /// Returns the order of two values; `None` if they have none.
    pub(super) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(left), Self::Bool(right)) => Some(left.cmp(right)),
            (Self::Int(left), Self::Int(right)) => Some(left.cmp(right)),
            _ => Some(self.as_str()?.cmp(other.as_str()?)),
        }
    }

    /// Returns the number of characters or elements; `None` if there is none.
    pub(super) fn size(&self) -> Option<i64> {
        let size = match self {
            Self::List(elements) => elements.len(),
            _ => self.as_str()?.chars().count(),
        };
        i64::try_from(size).ok()
    }

    /// Whether a prefix, suffix or substring test holds; `None` if a value is not a string. If one string is not UTF-8,
    /// bytes are compared: `\x80` is a suffix of `\u{10FF80}`, as it is in ClickHouse.
    pub(super) fn text_call(&self, function: TextFunction, argument: &Self) -> Option<bool> {
        if let (Some(text), Some(argument)) = (self.as_str(), argument.as_str()) {
            return Some(function.holds(text, argument));
        }
        let (Self::Text(text), Self::Text(argument)) = (self, argument) else { return None };
        let bytewise = |bytes: &[u8]| bytes.iter().copied().map(char::from).collect::<String>();
        Some(function.holds(&bytewise(text), &bytewise(argument)))
    }
}

impl From<&Constant> for Value {
    fn from(constant: &Constant) -> Self {
        match constant {
            Constant::Bool(value) => Self::Bool(*value),
            Constant::Int(value) => Self::Int(*value),
            Constant::Text(text) => Self::text(text),
            Constant::List(elements) => Self::List(elements.iter().map(Self::from).collect()),
        }
    }
}

impl From<&AttributeValue> for Value {
    fn from(value: &AttributeValue) -> Self {
        match value {
            AttributeValue::String(text) => Self::text(text),
            AttributeValue::Bool(value) => Self::Bool(*value),
            AttributeValue::Strings(list) => Self::texts(list),
        }
    }
}

/// A field on one span.
pub(super) struct SpanField {
    pub(super) is_present: bool,
    /// Its value; `None` if it has none of the field's logical type.
    pub(super) value: Option<Value>,
}

impl SpanField {
    /// Reads a field. NULL under a key of a map is present but has no type. In a column and at a path, NULL means
    /// absent.
    pub(super) fn new(field: &MarkedField, span: &Span) -> Self {
        let is_present = |value: &&FieldValue| **value != FieldValue::Null || field.source.is_map_key();
        let stored = value_of(field, span).filter(is_present).map(Cow::Borrowed);
        let value = stored.or_else(|| missing_path_value(field).map(Cow::Owned));
        Self { is_present: value.is_some(), value: value.and_then(|value| typed(field, &value)) }
    }
}

/// Converts a value of the field's logical type; `None` for any other value.
fn typed(field: &MarkedField, value: &FieldValue) -> Option<Value> {
    let column_type = &field.column_type;
    // A string in a map can represent a value of another type.
    let parsed = field.source.is_map_key() && column_type.is_text();
    match (field.logical, value) {
        (LogicalType::String, FieldValue::String(bytes)) => {
            Some(Value::text(normalize_string(column_type, bytes)))
        }
        (LogicalType::Boolean, FieldValue::Bool(value)) => Some(Value::Bool(*value)),
        (LogicalType::Boolean, FieldValue::String(bytes)) if parsed => {
            match normalize_string(column_type, bytes).as_ref() {
                b"true" => Some(Value::Bool(true)),
                b"false" => Some(Value::Bool(false)),
                _ => None,
            }
        }
        (LogicalType::StringArray, FieldValue::String(bytes)) if parsed => {
            let bytes = normalize_string(column_type, bytes);
            Some(Value::texts(&string_array(std::str::from_utf8(&bytes).ok()?)?))
        }
        (LogicalType::StringArray, FieldValue::Array(elements)) => {
            let element_type = match column_type.bare() {
                ColumnType::Array(element) => element,
                other => other,
            };
            let text = |element: &FieldValue| match element {
                FieldValue::String(bytes) => Some(Value::text(normalize_string(element_type, bytes))),
                _ => None,
            };
            elements.iter().map(text).collect::<Option<_>>().map(Value::List)
        }
        _ => None,
    }
}

/// Returns the value of a path that a document lacks: no value, unless the path's declared type is not Nullable. Then
/// ClickHouse returns the type's default.
fn missing_path_value(field: &MarkedField) -> Option<FieldValue> {
    if field.source != FieldSource::JsonPath || field.column_type.is_nullable() {
        return None;
    }
    Some(match field.column_type.bare() {
        ColumnType::Text(text_type) => FieldValue::text(text_type.default_value()?),
        ColumnType::Bool => FieldValue::Bool(false),
        ColumnType::Array(_) => FieldValue::Array(Vec::new()),
        _ => FieldValue::text(""),
    })
}

/// Returns a string as a column of this type returns it.
fn normalize_string<'a>(column_type: &ColumnType, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    match column_type.bare() {
        ColumnType::Text(text_type) => text_type.normalize(bytes),
        _ => Cow::Borrowed(bytes),
    }
}

/// Parses a JSON array of strings; `None` for any other text.
pub(crate) fn string_array(text: &str) -> Option<Vec<String>> {
    serde_json::from_str(text).ok()
}
