//! Serialised forms of results that transports return as they are.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use tracewarden_model::{AttributeValue, Timestamp};
use utoipa::ToSchema;

/// Deserialises a member that may be absent but not null, where its presence has a meaning.
///
/// # Errors
/// When the value is null, or not a `T`.
pub fn present<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Time range around the window from which a search read the spans of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct SearchedAround {
    /// Start, inclusive.
    pub from: Timestamp,
    /// End, exclusive.
    pub to: Timestamp,
}

impl From<(Timestamp, Timestamp)> for SearchedAround {
    fn from((from, to): (Timestamp, Timestamp)) -> Self {
        Self { from, to }
    }
}

/// A user's attributes by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(transparent)]
pub struct Attributes(
    /// The values by name.
    pub BTreeMap<String, AttributeValue>,
);

impl Attributes {
    /// Whether there are no attributes.
    pub fn is_empty(&self) -> bool {
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
    before: &'a BTreeMap<String, AttributeValue>,
}

impl<'de> DeserializeSeed<'de> for UniqueAttributeSeed<'_> {
    type Value = AttributeValue;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<AttributeValue, D::Error> {
        if self.before.contains_key(self.name) {
            return Err(D::Error::custom(format_args!("duplicate field `{}`", self.name)));
        }
        AttributeValue::deserialize(deserializer)
    }
}
