//! The columns of the table that random spans are of, and the fields that are marked on it.

use tracewarden_model::{AccessModel, ColumnType, FieldRef, FieldSource, LogicalType, MarkedField};

use super::Generator;

/// Columns of the table that the spans are of, with their ClickHouse types.
pub const COLUMNS: [(&str, &str); 13] = [
    ("ServiceName", "LowCardinality(String)"),
    ("SpanName", "String"),
    // Names that statements could use for their own purposes.
    ("x1", "String"),
    ("tw_trace", "LowCardinality(String)"),
    ("Nick", "Nullable(String)"),
    ("Zone", "LowCardinality(Nullable(String))"),
    ("Sampled", "Bool"),
    ("Cached", "Nullable(Bool)"),
    ("Events.Name", "Array(LowCardinality(String))"),
    ("Tags", "Array(String)"),
    ("SpanAttributes", "Map(LowCardinality(String), String)"),
    ("ResourceAttributes", "Map(String, String)"),
    ("Baggage", "Map(String, Nullable(String))"),
];

/// Keys of the maps, with the logical types that they are marked as.
pub(super) const KEYS: [(&str, &str, LogicalType); 13] = [
    ("SpanAttributes", "env", LogicalType::String),
    ("SpanAttributes", "tenant.id", LogicalType::String),
    ("SpanAttributes", "flag", LogicalType::Boolean),
    ("SpanAttributes", "list", LogicalType::StringArray),
    ("SpanAttributes", "it's \"quoted\" \\ \n \u{e9} {p0:String}", LogicalType::String),
    ("SpanAttributes", "", LogicalType::String),
    ("ResourceAttributes", "team", LogicalType::String),
    ("ResourceAttributes", "live", LogicalType::Boolean),
    ("ResourceAttributes", "owners", LogicalType::StringArray),
    ("Baggage", "env", LogicalType::String),
    ("Baggage", "flag", LogicalType::Boolean),
    ("Baggage", "list", LogicalType::StringArray),
    ("Baggage", "", LogicalType::String),
];

impl Generator {
    /// The access model that policies are made for.
    pub fn model() -> AccessModel {
        let columns = COLUMNS.iter().filter_map(|(name, text)| {
            let column_type = ColumnType::parse(text);
            let logical = *column_type.logical_types().first()?;
            Some((FieldRef::column(*name), FieldSource::Column, logical, column_type))
        });
        let keys = KEYS.iter().filter_map(|(map, key, logical)| {
            let (_, text) = COLUMNS.iter().find(|(name, _)| name == map)?;
            let (source, column_type, _) = ColumnType::parse(text).within(key).ok()?;
            Some((FieldRef::key(*map, *key), source, *logical, column_type))
        });
        AccessModel {
            version: 1,
            binding: None,
            fields: columns
                .chain(keys)
                .map(|(field, source, logical, column_type)| MarkedField {
                    field,
                    source,
                    logical,
                    column_type,
                    filterable: true,
                    policy: true,
                })
                .collect(),
        }
    }
}
