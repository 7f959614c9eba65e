//! Wire forms that several resources share.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tracewarden_model::{AttributeValue, Timestamp};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A point in time as RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Timestamp);

impl From<Timestamp> for Time {
    fn from(timestamp: Timestamp) -> Self {
        Self(timestamp)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Time;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 time")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Time, E> {
                Timestamp::parse(text).map(Time).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("RFC 3339, with at most nine fractional digits"))
            .examples(["2026-11-21T07:33:26.123456789Z"])
            .into()
    }
}

impl ToSchema for Time {
    fn name() -> Cow<'static, str> {
        "Time".into()
    }
}

/// The value of a user's attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a string, a boolean or a list of strings")]
pub(crate) enum Attribute {
    /// A string.
    String(String),
    /// A boolean.
    Boolean(bool),
    /// A list of strings.
    Strings(Vec<String>),
}

/// A user's attributes by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub(crate) struct Attributes(BTreeMap<String, Attribute>);

impl From<Attribute> for AttributeValue {
    fn from(attribute: Attribute) -> Self {
        match attribute {
            Attribute::String(text) => Self::String(text),
            Attribute::Boolean(value) => Self::Bool(value),
            Attribute::Strings(list) => Self::Strings(list),
        }
    }
}

impl From<AttributeValue> for Attribute {
    fn from(value: AttributeValue) -> Self {
        match value {
            AttributeValue::String(text) => Self::String(text),
            AttributeValue::Bool(value) => Self::Boolean(value),
            AttributeValue::Strings(list) => Self::Strings(list),
        }
    }
}

/// Attributes from the wire.
pub(crate) fn to_values(attributes: Attributes) -> BTreeMap<String, AttributeValue> {
    attributes.0.into_iter().map(|(name, value)| (name, value.into())).collect()
}

/// Attributes for the wire.
pub(crate) fn to_wire(attributes: BTreeMap<String, AttributeValue>) -> Attributes {
    Attributes(attributes.into_iter().map(|(name, value)| (name, value.into())).collect())
}
