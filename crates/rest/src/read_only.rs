//! Members that only the service sets. A client may send back a document that it read, so requests contain them too; they are
//! ignored.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A member of a request that is ignored, whatever its value. The type provides both the deserialiser and `readOnly` in the
/// OpenAPI document, so the two cannot differ. Declare it with `#[serde(default)]`, `#[schema(inline, required = false)]` and
/// `#[expect(dead_code)]`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReadOnly;

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
