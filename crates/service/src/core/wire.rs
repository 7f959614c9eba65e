//! Serialised forms of types of the model, which itself has none, for results that transports return as they are.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tracewarden_model::{
    ArrayPair, AttributeValue, FieldSource, LogicalType as ModelLogicalType, MarkedField, Timestamp,
};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Implements `From` in both directions between a serialised enumeration and the enumeration of the model, whose values are
/// listed if their names differ.
macro_rules! same_values {
    ($wire:ident, $model:ident { $($variant:ident),+ }) => {
        same_values!($wire, $model { $($variant = ($model::$variant)),+ });
    };
    ($wire:ident, $model:ty { $($variant:ident = ($($value:tt)+)),+ $(,)? }) => {
        impl From<$model> for $wire {
            fn from(value: $model) -> Self {
                match value { $($($value)+ => Self::$variant),+ }
            }
        }

        impl From<$wire> for $model {
            fn from(value: $wire) -> Self {
                match value { $($wire::$variant => $($value)+),+ }
            }
        }
    };
}
pub(super) use same_values;

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

/// A point in time in RFC 3339 format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(
    /// The point in time.
    pub Timestamp,
);

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

/// Time range around the window from which a search read the spans of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct SearchedAround {
    /// Start, inclusive.
    pub from: Time,
    /// End, exclusive.
    pub to: Time,
}

impl From<(Timestamp, Timestamp)> for SearchedAround {
    fn from((from, to): (Timestamp, Timestamp)) -> Self {
        Self { from: from.into(), to: to.into() }
    }
}

/// The value of a user's attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a string, a boolean or a list of strings")]
pub enum Attribute {
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
pub struct Attributes(BTreeMap<String, Attribute>);

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

impl From<Attributes> for BTreeMap<String, AttributeValue> {
    fn from(attributes: Attributes) -> Self {
        attributes.0.into_iter().map(|(name, value)| (name, value.into())).collect()
    }
}

impl From<BTreeMap<String, AttributeValue>> for Attributes {
    fn from(attributes: BTreeMap<String, AttributeValue>) -> Self {
        Self(attributes.into_iter().map(|(name, value)| (name, value.into())).collect())
    }
}

/// The logical type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogicalType {
    /// Text.
    String,
    /// A list of strings.
    StringArray,
    /// `true` or `false`.
    Boolean,
    /// A number; filters only.
    Number,
}

same_values!(LogicalType, ModelLogicalType { String, StringArray, Boolean, Number });

/// Where a row stores the value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = FieldSource)]
pub enum WireFieldSource {
    /// In the column itself.
    Column,
    /// Under a key of a map column.
    MapKey,
    /// Under a key of a map in the array columns `Map.key` and `Map.value`.
    NestedKeyValue,
    /// Under a key of a map in the array columns `Map.keys` and `Map.values`.
    NestedKeysValues,
    /// Under a key of a map in the array columns `Map.names` and `Map.values`.
    NestedNamesValues,
    /// Under a key of a map in the array columns `Map_keys` and `Map_values`.
    KeysValues,
    /// Under a key of a map in the array columns `Map_names` and `Map_values`.
    NamesValues,
    /// At a path of a JSON column.
    JsonPath,
}

same_values!(WireFieldSource, FieldSource {
    Column = (FieldSource::Column),
    MapKey = (FieldSource::MapKey),
    NestedKeyValue = (FieldSource::ArrayPair(ArrayPair::NestedKeyValue)),
    NestedKeysValues = (FieldSource::ArrayPair(ArrayPair::NestedKeysValues)),
    NestedNamesValues = (FieldSource::ArrayPair(ArrayPair::NestedNamesValues)),
    KeysValues = (FieldSource::ArrayPair(ArrayPair::KeysValues)),
    NamesValues = (FieldSource::ArrayPair(ArrayPair::NamesValues)),
    JsonPath = (FieldSource::JsonPath),
});

/// A marked field as administrators see it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MarkedField)]
pub struct WireMarkedField {
    /// The map or JSON column; empty for a field that is a column itself.
    map: String,
    /// The key within the map, the path within the JSON column, or the column's name.
    name: String,
    /// Reference to the field in policies.
    #[serde(rename = "ref")]
    #[schema(read_only)]
    reference: String,
    /// Logical type for filters and policies.
    #[serde(rename = "type")]
    logical: LogicalType,
    /// ClickHouse type of the column, of the map's values, or of the value at the path; `Dynamic` for a path without a declared
    /// type.
    #[schema(read_only)]
    column_type: String,
    /// Where a row stores the value.
    #[schema(read_only)]
    source: WireFieldSource,
    /// Whether filters may use the field.
    filterable: bool,
    /// Whether policies may use the field.
    policy: bool,
    /// The materialized column that policies read instead of the map; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<String>,
}

impl From<&MarkedField> for WireMarkedField {
    fn from(field: &MarkedField) -> Self {
        Self {
            map: field.field.map.clone().unwrap_or_default(),
            name: field.field.name.clone(),
            reference: field.field.to_string(),
            logical: field.logical.into(),
            column_type: field.column_type.to_string(),
            source: field.source.into(),
            filterable: field.filterable,
            policy: field.policy,
            column: field.column.clone(),
        }
    }
}

/// Serialises a value as its text.
pub(crate) fn text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub(crate) fn attributes<S: Serializer>(
    attributes: &BTreeMap<String, AttributeValue>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    Attributes::from(attributes.clone()).serialize(serializer)
}
