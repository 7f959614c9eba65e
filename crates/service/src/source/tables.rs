//! Descriptions of tables in ClickHouse, as the API returns them.

use serde::Serialize;
use tracewarden_clickhouse::{Column, PairedMap, SampledColumn, key_logical_types, members, physical_field};
use tracewarden_model::{Binding, FieldRef, LogicalType};
use utoipa::ToSchema;

/// A column.
#[derive(Debug, Serialize, ToSchema)]
pub struct TableColumn {
    /// Name.
    pub name: String,
    /// Type in ClickHouse.
    #[serde(rename = "type")]
    pub column_type: String,
    /// The types that it can be marked as, the natural one first; empty when it cannot be marked.
    pub logical_types: Vec<LogicalType>,
    /// The types that keys of a map, or paths of a JSON column without a declared type, can be marked as.
    pub key_logical_types: Vec<LogicalType>,
    /// Members of a nested column and declared paths of a JSON column.
    pub members: Vec<ColumnMember>,
}

/// A part of a column that the column's type declares.
#[derive(Debug, Serialize, ToSchema)]
pub struct ColumnMember {
    /// The value of `map` to mark it with: the JSON column; empty for a member of a nested column.
    pub map: String,
    /// The value of `name` to mark it with: the path, or the column and the member with a dot between them.
    #[schema(examples("Events.Name"))]
    pub name: String,
    /// Type in ClickHouse; empty when it cannot be a field.
    #[serde(rename = "type")]
    pub column_type: String,
    /// The types that it can be marked as, the natural one first; empty when it cannot be marked.
    pub logical_types: Vec<LogicalType>,
}

impl ColumnMember {
    fn new(field: FieldRef, columns: &[Column]) -> Self {
        let physical = physical_field(&field, columns).ok();
        Self {
            map: field.map.unwrap_or_default(),
            name: field.name,
            column_type: (physical.as_ref())
                .map(|physical| physical.column_type.to_string())
                .unwrap_or_default(),
            logical_types: physical.map(|physical| physical.logical_types.to_vec()).unwrap_or_default(),
        }
    }
}

impl TableColumn {
    /// Describes a column of a table with these columns.
    pub(super) fn new(column: &Column, columns: &[Column]) -> Self {
        let members = members(column).into_iter().map(|field| ColumnMember::new(field, columns));
        Self {
            name: column.name.clone(),
            column_type: column.type_text.clone(),
            logical_types: column.column_type.logical_types().to_vec(),
            key_logical_types: key_logical_types(column, columns).to_vec(),
            members: members.collect(),
        }
    }
}

/// A map that is stored as two array columns.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PairedMap)]
pub struct PairedColumns {
    /// The value of `map` to mark a key with.
    #[schema(examples("attributes"))]
    pub name: String,
    /// Column with the keys.
    #[schema(examples("attributes_keys"))]
    pub keys: String,
    /// Column with the values.
    #[schema(examples("attributes_values"))]
    pub values: String,
    /// The types that keys can be marked as.
    pub key_logical_types: Vec<LogicalType>,
}

impl From<PairedMap> for PairedColumns {
    fn from(map: PairedMap) -> Self {
        let [keys, values] = map.columns();
        Self {
            keys,
            values,
            key_logical_types: map.column_type.map_key_logical_types().to_vec(),
            name: map.name,
        }
    }
}

/// Content of a table.
#[serde_with::apply(Option => #[schema(required = true)])]
#[derive(Debug, Serialize, ToSchema)]
pub struct TableDetail {
    /// Columns in order.
    pub columns: Vec<TableColumn>,
    /// Maps that are stored as two array columns, of keys and of values.
    pub paired_maps: Vec<PairedColumns>,
    /// Proposed binding; units and values are those of a sample, where rows were sampled. Null when the table does not look
    /// like a table of spans.
    pub proposal: Option<Binding>,
    /// Keys of maps and paths of JSON columns, from a bounded sample of the first 30 such columns.
    pub maps: Vec<SampledColumn>,
    /// Whether rows were sampled; the setting `discovery_samples` can forbid it.
    pub sampled: bool,
    /// The reason why the table is not suitable as a trace source, and the table to bind instead; null where there is none.
    pub unsuitable: Option<String>,
}
