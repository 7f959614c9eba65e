//! Wire types that several resources share.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tracewarden_model::{AttributeValue, Timestamp};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A point in time in RFC 3339 format.
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
        struct TimeVisitor;
        impl Visitor<'_> for TimeVisitor {
            type Value = Time;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 time")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Time, E> {
                Timestamp::parse(text).map(Time).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(TimeVisitor)
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(transparent)]
pub(crate) struct Attributes(BTreeMap<String, Attribute>);

impl Attributes {
    /// Whether there are no attributes.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Duplicate names are rejected, as in other objects: different parsers would use different ones of the two values.
impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AttributesVisitor;
        impl<'de> Visitor<'de> for AttributesVisitor {
            type Value = Attributes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of attributes")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Attributes, A::Error> {
                let mut attributes = BTreeMap::new();
                while let Some(name) = access.next_key::<String>()? {
                    let value =
                        access.next_value_seed(UniqueAttributeSeed { name: &name, before: &attributes })?;
                    attributes.insert(name, value);
                }
                Ok(Attributes(attributes))
            }
        }
        deserializer.deserialize_map(AttributesVisitor)
    }
}

/// Deserialises the value of a name that did not occur before. The check is part of deserialising the value, so the error points
/// at it.
struct UniqueAttributeSeed<'a> {
    name: &'a str,
    before: &'a BTreeMap<String, Attribute>,
}

impl<'de> DeserializeSeed<'de> for UniqueAttributeSeed<'_> {
    type Value = Attribute;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Attribute, D::Error> {
        if self.before.contains_key(self.name) {
            return Err(D::Error::custom(format_args!("duplicate field `{}`", self.name)));
        }
        Attribute::deserialize(deserializer)
    }
}

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

/// Converts attributes from the wire format.
pub(crate) fn to_values(attributes: Attributes) -> BTreeMap<String, AttributeValue> {
    attributes.0.into_iter().map(|(name, value)| (name, value.into())).collect()
}

/// Converts attributes to the wire format.
pub(crate) fn to_wire(attributes: BTreeMap<String, AttributeValue>) -> Attributes {
    Attributes(attributes.into_iter().map(|(name, value)| (name, value.into())).collect())
}
