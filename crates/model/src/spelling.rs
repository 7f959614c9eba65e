//! Enumerations that are written as one word: in the API, in files and in stored documents.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// Declares the spellings of an enumeration, and its schema with this description.
macro_rules! spelled {
    ($type:ident, $description:literal, { $($variant:ident $(($inner:path))? = $name:literal),+ $(,)? }) => {
        impl $type {
            /// All values.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant $(($inner))?),+];

            /// Returns the spelling.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant $(($inner))? => $name),+ }
            }

            /// Parses the spelling.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.as_str() == text)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::spelling::deserialize(deserializer, &[$($name),+], Self::parse)
            }
        }

        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::Type::String)
                    .description(Some($description))
                    .enum_values(Some(Self::ALL.map(Self::as_str)))
                    .into()
            }
        }

        impl utoipa::ToSchema for $type {
            fn name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
        }
    };
}
pub(crate) use spelled;

struct SpellingVisitor<T> {
    names: &'static [&'static str],
    parse: fn(&str) -> Option<T>,
}

impl<T> Visitor<'_> for SpellingVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).ok_or_else(|| E::unknown_variant(text, self.names))
    }
}

/// Deserialises a spelling. Derived code for enumerations would also read JSON such as `{"ms": null}`.
pub(crate) fn deserialize<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    names: &'static [&'static str],
    parse: fn(&str) -> Option<T>,
) -> Result<T, D::Error> {
    deserializer.deserialize_identifier(SpellingVisitor { names, parse })
}
