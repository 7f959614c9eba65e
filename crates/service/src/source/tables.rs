//! Descriptions of tables in ClickHouse, as the API returns them.

use serde::Serialize;
use tracewarden_clickhouse::{
    Column, PairedMap, SampledColumn, TableSummary, key_logical_types, members, physical_field,
};
use tracewarden_model::FieldRef;
use utoipa::ToSchema;

use crate::core::{LogicalType, WireBinding};

/// A table in ClickHouse.
#[derive(Debug, Serialize, ToSchema)]
pub struct Table {
    /// Database.
    pub database: String,
    /// Name.
    pub name: String,
    /// Engine.
    pub engine: String,
    /// Number of rows, if the engine knows it.
    #[schema(required = true)]
    pub rows: Option<u64>,
    /// Bytes on disk, if the engine knows them.
    #[schema(required = true)]
    pub bytes: Option<u64>,
    /// Proposed binding; null when the table does not look like a table of spans.
    #[schema(required = true)]
    pub proposal: Option<WireBinding>,
    /// The product that writes such tables, if their columns tell.
    #[schema(required = true, examples("SigNoz"))]
    pub product: Option<&'static str>,
    /// The reason why there is no proposal, and the table to bind instead, if the cause is the kind of table and not its columns.
    #[schema(required = true)]
    pub unsuitable: Option<String>,
}

impl From<TableSummary> for Table {
    fn from(table: TableSummary) -> Self {
        let TableSummary { database, name, engine, rows, bytes, proposal, product, unsuitable } = table;
        let proposal = proposal.map(WireBinding::from);
        Self { database, name, engine, rows, bytes, proposal, product, unsuitable }
    }
}

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

fn wire(list: &[tracewarden_model::LogicalType]) -> Vec<LogicalType> {
    list.iter().copied().map(LogicalType::from).collect()
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
            logical_types: physical.map(|physical| wire(physical.logical_types)).unwrap_or_default(),
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
            logical_types: wire(column.column_type.logical_types()),
            key_logical_types: wire(key_logical_types(column, columns)),
            members: members.collect(),
        }
    }
}

/// Sampled content of a map or JSON column.
#[derive(Debug, Serialize, ToSchema)]
pub struct SampledMap {
    /// The column.
    pub map: String,
    /// Number of rows in the sample.
    pub sampled_rows: u64,
    /// Keys or paths, the most frequent first; at most 500.
    pub keys: Vec<SampledKey>,
    /// Whether sampling took longer than a few seconds and was stopped, so that the keys are not known.
    pub stopped_early: bool,
}

/// A key of a map, or a path of a JSON column, in the sample.
#[derive(Debug, Serialize, ToSchema)]
pub struct SampledKey {
    /// The key or path.
    pub name: String,
    /// Number of sampled rows that have it.
    pub rows: u64,
    /// Types of its values in ClickHouse: of the map's values, or those found at the path.
    pub types: Vec<String>,
    /// The types that it can be marked as, those that fit the sampled values first; empty when it cannot be marked.
    pub logical_types: Vec<LogicalType>,
    /// Some of its values.
    pub examples: Vec<String>,
}

impl From<SampledColumn> for SampledMap {
    fn from(sampled: SampledColumn) -> Self {
        let SampledColumn { column: map, sampled_rows, keys, stopped_early } = sampled;
        let keys = keys.into_iter().map(SampledKey::from).collect();
        Self { map, sampled_rows, keys, stopped_early }
    }
}

impl From<tracewarden_clickhouse::SampledKey> for SampledKey {
    fn from(key: tracewarden_clickhouse::SampledKey) -> Self {
        let tracewarden_clickhouse::SampledKey { name, rows, types, logical_types, examples } = key;
        Self { name, rows, types, logical_types: wire(&logical_types), examples }
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
            key_logical_types: wire(map.column_type.map_key_logical_types()),
            name: map.name,
        }
    }
}

/// Content of a table.
#[derive(Debug, Serialize, ToSchema)]
pub struct TableDetail {
    /// Columns in order.
    pub columns: Vec<TableColumn>,
    /// Maps that are stored as two array columns, of keys and of values.
    pub paired_maps: Vec<PairedColumns>,
    /// Proposed binding; units and values are those of a sample, where rows were sampled. Null when the table does not look
    /// like a table of spans.
    #[schema(required = true)]
    pub proposal: Option<WireBinding>,
    /// Keys of maps and paths of JSON columns, from a bounded sample of the first 30 such columns.
    pub maps: Vec<SampledMap>,
    /// Whether rows were sampled; the setting `discovery_samples` can forbid it.
    pub sampled: bool,
    /// The reason why the table is not suitable as a trace source, and the table to bind instead; null where there is none.
    #[schema(required = true)]
    pub unsuitable: Option<String>,
}
