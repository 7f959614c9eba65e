//! The serialised form of a marked field, which contains its reference.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::{FieldSource, LogicalType, MarkedField};

/// A marked field as administrators see it.
#[derive(Serialize, ToSchema)]
pub(super) struct MarkedFieldForm {
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
    source: FieldSource,
    /// Whether filters may use the field.
    filterable: bool,
    /// Whether policies may use the field.
    policy: bool,
    /// The materialized column that policies read instead of the map; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<String>,
}

impl From<MarkedField> for MarkedFieldForm {
    fn from(field: MarkedField) -> Self {
        let MarkedField { field, source, logical, column_type, filterable, policy, column } = field;
        Self {
            reference: field.to_string(),
            map: field.map.unwrap_or_default(),
            name: field.name,
            logical,
            column_type: column_type.to_string(),
            source,
            filterable,
            policy,
            column,
        }
    }
}

impl PartialSchema for MarkedField {
    fn schema() -> RefOr<Schema> {
        MarkedFieldForm::schema()
    }
}

impl ToSchema for MarkedField {
    fn name() -> Cow<'static, str> {
        "MarkedField".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        MarkedFieldForm::schemas(schemas);
    }
}
