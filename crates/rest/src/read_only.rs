//! Members that only the service sets. A client sends back the document that it read, so these come with it; they are ignored.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A member of a request that is ignored, whatever it holds. The type is both the reader and the mark `readOnly` of the OpenAPI
/// document, so that the two cannot differ. Declare it with `#[serde(default)]` and `#[schema(inline, required = false)]`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReadOnly;

/// The schema of names that an answer lists and a request leaves as they are. `utoipa` cannot mark a list by an attribute.
pub(crate) fn names(description: &str) -> RefOr<Schema> {
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
