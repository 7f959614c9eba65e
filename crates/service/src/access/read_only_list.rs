//! Lists in the OpenAPI document that requests cannot change.

use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

/// Returns the schema of a list of texts that is read-only. The attribute `read_only` of `utoipa` marks the elements instead.
pub(crate) fn read_only_texts(description: &str) -> RefOr<Schema> {
    let mut mark = Extensions::default();
    mark.insert("readOnly".to_owned(), true.into());
    ArrayBuilder::new()
        .items(ObjectBuilder::new().schema_type(Type::String))
        .description(Some(description))
        .extensions(Some(mark))
        .into()
}
