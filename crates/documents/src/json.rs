//! JSON values as they were sent. Members keep their order, a name may occur twice, as when ClickHouse writes a map that holds a
//! key twice, and numbers keep every digit.

use std::{fmt, iter};

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A JSON value.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Json {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(JsonNumber),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object.
    Object(Vec<(String, Json)>),
}

/// The text of a number. A binary floating-point number would lose digits and cannot hold all JSON numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonNumber(Box<str>);

impl JsonNumber {
    /// Creates a number from a text, if it is a valid JSON number.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // White space around the number is JSON, too, but not part of it.
        let is_bare = text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
            && !text.ends_with(char::is_whitespace);
        (is_bare && serde_json::from_str::<IgnoredAny>(text).is_ok()).then(|| Self(text.into()))
    }

    /// Returns the text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the number if it is written as a 64-bit signed integer.
    pub(crate) fn as_i64(&self) -> Option<i64> {
        // `-0` is not an integer here, as in serde_json.
        self.0.parse().ok().filter(|number| *number != 0 || !self.0.starts_with('-'))
    }

    /// Returns the number if it is written as a 64-bit unsigned integer.
    pub(crate) fn as_u64(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    /// Returns the nearest 64-bit floating-point number; infinite if the number is too large.
    pub(crate) fn to_f64(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }
}

impl Serialize for JsonNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The text of a number is valid JSON.
        let raw = RawValue::from_string(self.0.to_string()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Name of the newtype struct with which a [`Json`] requests exact numbers from the deserializer of a document. That deserializer
/// then passes numbers as bytes, which do not occur in JSON otherwise.
pub(crate) const EXACT_NUMBERS: &str = "$tracewarden::exact";

impl Json {
    /// Returns the number of values: this value and all values inside it.
    pub fn values(&self) -> usize {
        1 + match self {
            Self::List(list) => list.iter().map(Self::values).sum(),
            Self::Object(members) => members.iter().map(|(_, value)| value.values()).sum(),
            _ => 0,
        }
    }

    /// Returns the member of an object; the first one if there are several of the name.
    pub fn member(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.iter().find(|(known, _)| known == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns the kind of the value for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fn number(number: impl fmt::Display) -> Json {
            Json::Number(JsonNumber(number.to_string().into()))
        }

        struct JsonVisitor;
        impl<'de> Visitor<'de> for JsonVisitor {
            type Value = Json;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_unit<E: Error>(self) -> Result<Json, E> {
                Ok(Json::Null)
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Json, E> {
                Ok(Json::Bool(value))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Json, E> {
                Ok(number(value))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Json, E> {
                Ok(number(value))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Json, E> {
                Ok(serde_json::Number::from_f64(value).map_or(Json::Null, number))
            }

            fn visit_bytes<E: Error>(self, number: &[u8]) -> Result<Json, E> {
                let number = std::str::from_utf8(number).ok().and_then(JsonNumber::parse);
                number.map(Json::Number).ok_or_else(|| E::custom("expected a number"))
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
                deserializer.deserialize_any(self)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Json, E> {
                Ok(Json::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
                iter::from_fn(|| access.next_element().transpose()).collect::<Result<_, _>>().map(Json::List)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
                iter::from_fn(|| access.next_entry().transpose()).collect::<Result<_, _>>().map(Json::Object)
            }
        }
        deserializer.deserialize_newtype_struct(EXACT_NUMBERS, JsonVisitor)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(list) => serializer.collect_seq(list),
            Self::Object(members) => {
                serializer.collect_map(members.iter().map(|(name, value)| (name, value)))
            }
        }
    }
}

impl PartialSchema for Json {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(SchemaType::AnyValue).build().into()
    }
}

impl ToSchema for Json {}
