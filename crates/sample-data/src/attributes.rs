//! Attributes of spans, resources and events.

use std::borrow::Cow;

/// Attributes in the order in which they were set; keys are unique.
pub type Attributes = Vec<(&'static str, Value)>;

/// An attribute's value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A string.
    Text(Cow<'static, str>),
    /// A boolean.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Number(f64),
    /// A list of strings.
    List(Vec<Cow<'static, str>>),
}

impl Value {
    /// Returns the text that the OpenTelemetry exporter for ClickHouse stores: strings unchanged, other values as JSON.
    pub fn as_exported(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Boolean(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
            Self::Integer(value) => Cow::Owned(value.to_string()),
            Self::Number(value) => Cow::Owned(serde_json::json!(value).to_string()),
            Self::List(values) => Cow::Owned(serde_json::json!(values).to_string()),
        }
    }
}

impl From<&'static str> for Value {
    fn from(value: &'static str) -> Self {
        Self::Text(Cow::Borrowed(value))
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(Cow::Owned(value))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}
