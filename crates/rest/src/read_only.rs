//! Members that only the service sets. A client may send back a document that it read, so requests contain them too; they are
//! ignored.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A member of a request that is ignored, whatever its value. The type provides both the deserialiser and `readOnly` in the
/// OpenAPI document, so the two cannot differ. Declare it with `#[serde(default)]` and `#[schema(inline, required = false)]`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReadOnly;

/// Returns the schema of a list of names that responses contain and requests cannot change. `utoipa` has no attribute that marks
/// a list as read-only.
pub(crate) fn names_schema(description: &str) -> RefOr<Schema> {
    let name = ObjectBuilder::new().schema_type(Type::String);
    let mut mark = Extensions::default();
    mark.insert("readOnly".to_owned(), true.into());
    ArrayBuilder::new().items(name).description(Some(description)).extensions(Some(mark)).into()
}

impl<'de> Deserialize<'de> for ReadOnly {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl PartialSchema for ReadOnly {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::AnyValue)
            .read_only(true)
            .description(Some("As it was answered; ignored"))
            .into()
    }
}

impl ToSchema for ReadOnly {
    fn name() -> Cow<'static, str> {
        "ReadOnly".into()
    }
}
