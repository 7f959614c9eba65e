//! A marked field in a file about policies.

use serde::{Deserialize, Serialize};
use tracewarden_model::{ColumnType, FieldRef, FieldSource, LogicalType, MarkedField};
use tracewarden_service::{FieldMark, FileField as ServiceField, present};
use utoipa::ToSchema;

/// A marked field, as in `GET /schema`; in a file written by hand, the name is sufficient.
#[serde_with::apply(Option => #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")] #[schema(nullable = false)])]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[schema(as = ModelFileField)]
pub(crate) struct FileField {
    /// The map or JSON column; empty or absent for a field that is a column itself.
    map: Option<String>,
    /// The key, the path, or the column.
    name: String,
    /// Reference to the field in policies; derived from the other members.
    #[serde(rename = "ref")]
    reference: Option<String>,
    /// Logical type; absent for the natural one of the column's type.
    #[serde(rename = "type")]
    logical: Option<LogicalType>,
    /// Type of the column, of the map's values, or of the value at the path.
    column_type: Option<String>,
    /// Where the value is stored; derived from the other members, except for a path with a declared type.
    source: Option<FieldSource>,
    /// Whether filters may use the field.
    filterable: Option<bool>,
    /// Whether policies may use the field; by default they may, unless it is a number.
    policy: Option<bool>,
    /// The materialized column that policies read instead of a map's key.
    column: Option<String>,
}

impl FileField {
    /// Converts to a field of an access model, with the defaults of a file that is written by hand.
    ///
    /// # Errors
    /// The first member that no table can have, as a JSON Pointer within the field, and the reason.
    pub(super) fn into_marked_field(self) -> Result<MarkedField, (&'static str, String)> {
        let map = self.map.filter(|map| !map.is_empty());
        let wanted = self.logical;
        let column_type = self.column_type.as_deref().map(ColumnType::parse);
        let source = match (self.source, &map) {
            (Some(source), _) => source,
            (None, None) => FieldSource::Column,
            (None, Some(_)) if column_type == Some(ColumnType::Dynamic) => FieldSource::JsonPath,
            (None, Some(_)) => FieldSource::MapKey,
        };
        if (source == FieldSource::Column) != map.is_none() {
            return Err(("/source", "a column has no `map`, a key or path has one".to_owned()));
        }
        let column_type = column_type.unwrap_or_else(|| default_type(source, wanted));
        let container = match source {
            FieldSource::Column => None,
            FieldSource::MapKey | FieldSource::ArrayPair(_) => {
                Some(ColumnType::Map(Box::new(ColumnType::STRING), Box::new(column_type.clone())))
            }
            FieldSource::JsonPath => {
                let declared = column_type != ColumnType::Dynamic;
                let typed = declared.then(|| (self.name.clone(), column_type.clone()));
                Some(ColumnType::Json { typed: typed.into_iter().collect() })
            }
        };
        let possible = match container {
            None => column_type.logical_types(),
            Some(container) => container.within(&self.name).map_err(|message| ("", message))?.2,
        };
        let logical = match (wanted, possible.first()) {
            (_, None) => {
                return Err(("/column_type", format!("no field can be made of the type {column_type}")));
            }
            (None, Some(natural)) => *natural,
            (Some(wanted), _) if possible.contains(&wanted) => wanted,
            (Some(wanted), _) => {
                return Err((
                    "/type",
                    format!("a field of the column type {column_type} cannot be a {wanted}"),
                ));
            }
        };
        let field = FieldRef { map, name: self.name };
        check_reference(&field, self.reference.as_deref())?;
        if self.column.is_some() && source != FieldSource::MapKey {
            return Err(("/column", "only a key of a map can have a column in its place".to_owned()));
        }
        let policy = self.policy.unwrap_or(logical != LogicalType::Number);
        if policy && logical == LogicalType::Number {
            return Err(("/policy", "policies cannot use numbers".to_owned()));
        }
        Ok(MarkedField {
            field,
            source,
            logical,
            column_type,
            filterable: self.filterable.unwrap_or(true),
            policy,
            column: self.column,
        })
    }

    /// Converts to a field of a model file, which the service checks, and returns the fault if `ref` does not match the field.
    pub(super) fn into_service_field(self) -> (ServiceField, Option<(&'static str, String)>) {
        let Self { map, name, reference, logical, column_type, source, filterable, policy, column } = self;
        let field = FieldRef { map: map.filter(|map| !map.is_empty()), name };
        let wrong_reference = check_reference(&field, reference.as_deref()).err();
        let mark = FieldMark {
            map: field.map,
            name: field.name,
            logical,
            filterable: filterable.unwrap_or(true),
            policy,
            column,
        };
        let column_type = column_type.as_deref().map(ColumnType::parse);
        (ServiceField { mark, source, column_type }, wrong_reference)
    }
}

impl From<MarkedField> for FileField {
    fn from(field: MarkedField) -> Self {
        Self {
            map: field.field.map,
            name: field.field.name,
            // Left out, because it is derived from the other members and could contradict them.
            reference: None,
            logical: Some(field.logical),
            column_type: Some(field.column_type.to_string()),
            source: Some(field.source),
            filterable: Some(field.filterable),
            policy: Some(field.policy),
            column: field.column,
        }
    }
}

/// Checks that `ref`, if present, matches the field.
fn check_reference(field: &FieldRef, reference: Option<&str>) -> Result<(), (&'static str, String)> {
    if reference.is_some_and(|reference| reference != field.to_string()) {
        return Err(("/ref", format!("the field is called `{field}`; `ref` may be left out")));
    }
    Ok(())
}

/// Returns the default column type: the one that the OpenTelemetry exporter's tables have.
fn default_type(source: FieldSource, logical: Option<LogicalType>) -> ColumnType {
    let column = match logical {
        None | Some(LogicalType::String) => "String",
        Some(LogicalType::StringArray) => "Array(String)",
        Some(LogicalType::Boolean) => "Bool",
        Some(LogicalType::Number) => "UInt64",
    };
    match source {
        FieldSource::Column => ColumnType::parse(column),
        FieldSource::MapKey | FieldSource::ArrayPair(_) => ColumnType::STRING,
        FieldSource::JsonPath => ColumnType::Dynamic,
    }
}
