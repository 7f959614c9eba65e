//! The columns of the table of random spans, and the fields that are marked on it: of every type and source that a field can
//! have.

use tracewarden_model::{AccessModel, ColumnType, FieldRef, FieldSource, LogicalType, MarkedField};

use super::Generator;

/// Columns of the table of random spans, with their ClickHouse types.
pub const COLUMNS: &[(&str, &str)] = &[
    ("ServiceName", "LowCardinality(String)"),
    ("SpanName", "String"),
    // Names that generated statements could use themselves.
    ("x1", "String"),
    ("tw_trace", "LowCardinality(String)"),
    ("Nick", "Nullable(String)"),
    ("Zone", "LowCardinality(Nullable(String))"),
    ("Code", "FixedString(4)"),
    ("Region", "LowCardinality(Nullable(FixedString(3)))"),
    // Zero has no name; it is the value of a map if the key is absent.
    ("Kind", "Enum8('a' = 1, 'prod' = 2, 'x\\'y\"z' = 3, '' = 4, 'é' = -5)"),
    ("Status", "Nullable(Enum16('a' = -300, 'ab' = 1000, 'prod' = 7))"),
    ("RequestId", "UUID"),
    ("ParentId", "Nullable(UUID)"),
    ("Sampled", "Bool"),
    ("Cached", "Nullable(Bool)"),
    ("Size", "UInt64"),
    ("Ratio", "Nullable(Float64)"),
    ("Events.Name", "Array(LowCardinality(String))"),
    ("Tags", "Array(String)"),
    ("Codes", "Array(FixedString(3))"),
    ("Kinds", "Array(Enum8('a' = 1, 'ab' = 2, '' = 3))"),
    ("Peers", "Array(Nullable(UUID))"),
    ("Notes", "Array(Nullable(String))"),
    ("Zones", "Array(LowCardinality(Nullable(String)))"),
    // The type of a `Nested` column that is not flattened.
    ("Links", "Array(Tuple(State LowCardinality(String), Peer Nullable(FixedString(2))))"),
    ("SpanAttributes", "Map(LowCardinality(String), String)"),
    ("ResourceAttributes", "Map(String, String)"),
    ("Baggage", "Map(String, Nullable(String))"),
    ("Labels", "Map(LowCardinality(String), LowCardinality(Nullable(String)))"),
    ("FixedOf", "Map(String, FixedString(5))"),
    ("KindOf", "Map(String, Enum8('a' = 1, 'true' = 2, 'prod' = 3, 'false' = 4))"),
    ("StatusOf", "Map(LowCardinality(String), Nullable(Enum8('a' = 1, 'ab' = 2)))"),
    ("IdOf", "Map(String, UUID)"),
    ("FlagOf", "Map(String, Bool)"),
    ("MaybeOf", "Map(LowCardinality(String), Nullable(Bool))"),
    ("ListOf", "Map(String, Array(LowCardinality(String)))"),
    ("NotesOf", "Map(String, Array(Nullable(String)))"),
    ("CountOf", "Map(String, UInt64)"),
    ("GaugeOf", "Map(LowCardinality(String), Nullable(Float64))"),
    ("TimeOf", "Map(String, DateTime64(3, 'UTC'))"),
    (
        "Doc",
        "JSON(text String, low LowCardinality(String), maybe.text Nullable(String), code FixedString(3), \
         kind Enum8('a' = 1, 'prod' = 2), `the id`.x UUID, flag Bool, maybe.flag Nullable(Bool), tags Array(String), \
         notes Array(Nullable(String)), count Int64, maybe.count Nullable(Float64), SKIP ignored)",
    ),
    // Most paths of this column are in shared data, and most types in a shared variant.
    ("Small", "JSON(max_dynamic_paths=1, max_dynamic_types=1)"),
];

/// Keys of the maps and paths of the JSON columns, with the logical types as which they are marked.
pub(super) const KEYS: &[(&str, &str, LogicalType)] = &[
    ("SpanAttributes", "env", LogicalType::String),
    ("SpanAttributes", "tenant.id", LogicalType::String),
    ("SpanAttributes", "flag", LogicalType::Boolean),
    ("SpanAttributes", "list", LogicalType::StringArray),
    ("SpanAttributes", "it's \"quoted\" \\ \n \u{e9} {p0:String}", LogicalType::String),
    ("SpanAttributes", "", LogicalType::String),
    ("ResourceAttributes", "team", LogicalType::String),
    ("ResourceAttributes", "live", LogicalType::Boolean),
    ("ResourceAttributes", "owners", LogicalType::StringArray),
    ("ResourceAttributes", "number", LogicalType::Number),
    ("Baggage", "env", LogicalType::String),
    ("Baggage", "flag", LogicalType::Boolean),
    ("Baggage", "list", LogicalType::StringArray),
    ("Baggage", "", LogicalType::String),
    ("Labels", "env", LogicalType::String),
    ("Labels", "flag", LogicalType::Boolean),
    ("Labels", "", LogicalType::String),
    ("FixedOf", "k", LogicalType::String),
    ("FixedOf", "flag", LogicalType::Boolean),
    ("KindOf", "k", LogicalType::String),
    ("KindOf", "flag", LogicalType::Boolean),
    ("StatusOf", "k", LogicalType::String),
    ("IdOf", "k", LogicalType::String),
    ("FlagOf", "k", LogicalType::Boolean),
    ("FlagOf", "", LogicalType::Boolean),
    ("MaybeOf", "k", LogicalType::Boolean),
    ("ListOf", "k", LogicalType::StringArray),
    ("NotesOf", "k", LogicalType::StringArray),
    ("CountOf", "k", LogicalType::Number),
    ("GaugeOf", "k", LogicalType::Number),
    ("TimeOf", "k", LogicalType::Number),
    ("Doc", "text", LogicalType::String),
    ("Doc", "low", LogicalType::String),
    ("Doc", "maybe.text", LogicalType::String),
    ("Doc", "code", LogicalType::String),
    ("Doc", "kind", LogicalType::String),
    ("Doc", "the id.x", LogicalType::String),
    ("Doc", "flag", LogicalType::Boolean),
    ("Doc", "maybe.flag", LogicalType::Boolean),
    ("Doc", "tags", LogicalType::StringArray),
    ("Doc", "notes", LogicalType::StringArray),
    ("Doc", "count", LogicalType::Number),
    ("Doc", "maybe.count", LogicalType::Number),
    ("Doc", "free.text", LogicalType::String),
    ("Doc", "free.flag", LogicalType::Boolean),
    ("Doc", "free.list", LogicalType::StringArray),
    ("Doc", "free.number", LogicalType::Number),
    // A path that is the parent of another path, and a path that is not an identifier.
    ("Doc", "free", LogicalType::String),
    ("Doc", "it's `quoted` \\ \n \u{e9}.{p0:String}", LogicalType::String),
    ("Small", "text", LogicalType::String),
    ("Small", "a.b.c", LogicalType::String),
    ("Small", "flag", LogicalType::Boolean),
    ("Small", "list", LogicalType::StringArray),
];

/// Returns the type of a column.
pub(super) fn column_type(name: &str) -> ColumnType {
    let found = COLUMNS.iter().find(|(known, _)| *known == name);
    found.map_or_else(|| ColumnType::Other(name.to_owned()), |(_, text)| ColumnType::parse(text))
}

impl Generator {
    /// Returns the access model of the generated policies.
    pub fn model() -> AccessModel {
        let mut fields = Vec::new();
        let mut mark = |field, source, logical, column_type| {
            let policy = logical != LogicalType::Number;
            let column = None;
            fields.push(MarkedField {
                field,
                source,
                logical,
                column_type,
                filterable: true,
                policy,
                column,
            });
        };
        for (name, text) in COLUMNS {
            let column_type = ColumnType::parse(text);
            if let ColumnType::Nested(members) = &column_type {
                for (member, _) in members {
                    let Some(column_type) = column_type.nested_member(member) else { continue };
                    let field = FieldRef::column(format!("{name}.{member}"));
                    mark(field, FieldSource::Column, LogicalType::StringArray, column_type);
                }
            }
            if let Some(logical) = column_type.logical_types().first() {
                mark(FieldRef::column(*name), FieldSource::Column, *logical, column_type);
            }
        }
        for (map, key, logical) in KEYS {
            if let Ok((source, value, _)) = column_type(map).within(key) {
                mark(FieldRef::key(*map, *key), source, *logical, value);
            }
        }
        AccessModel { version: 1, binding: None, fields }
    }
}
