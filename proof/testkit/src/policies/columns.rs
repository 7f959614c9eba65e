//! The columns of the table of random spans, the fields that are marked on it, of every type and source that a field can have,
//! and hostile values of every type.

use tracewarden_model::{
    AccessModel, ColumnType, FieldRef, FieldSource, LogicalType, MarkedField, Number, NumberType, TextType,
};
use tracewarden_policy::FieldValue;

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

/// Returns hostile values of a type, except NULL.
pub fn hostile_values(column_type: &ColumnType) -> Vec<FieldValue> {
    let strings = |values: &[&[u8]]| values.iter().map(|bytes| FieldValue::String(bytes.to_vec())).collect();
    let numbers = |values: &[Number]| values.iter().cloned().map(FieldValue::Number).collect();
    match column_type.bare() {
        ColumnType::Text(TextType::FixedString { bytes: length }) => {
            let texts: [&[u8]; 8] = [b"", b"a", b"a\0b", b"\0a", b"\xff", b"true", b"abcde", b"\0\0\0\0\0"];
            strings(&texts.map(|text| text.get(..text.len().min(*length as usize)).unwrap_or_default()))
        }
        ColumnType::Text(TextType::Enum { names }) => names.iter().map(FieldValue::text).collect(),
        ColumnType::Text(TextType::Uuid) => strings(&[
            b"61f0c404-5cb3-11e7-907b-a6006ad3dba0",
            b"00000000-0000-0000-0000-000000000000",
            b"ffffffff-ffff-ffff-ffff-ffffffffffff",
        ]),
        ColumnType::Bool => vec![FieldValue::Bool(true), FieldValue::Bool(false)],
        ColumnType::Number(NumberType::Integer { signed: false, .. }) => {
            numbers(&[0, 1, 5, u64::MAX].map(Number::UInt))
        }
        ColumnType::Number(NumberType::Integer { .. }) => {
            numbers(&[0, -1, 5, i64::MIN, i64::MAX].map(Number::Int))
        }
        ColumnType::Number(NumberType::Decimal { .. }) => numbers(&[0, -1, 5].map(Number::Int)),
        ColumnType::Number(NumberType::Float { .. }) => {
            let nan_and_infinity = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
            let finite = [0.0, -0.0, 5.0, 0.1, f64::MAX, f64::MIN_POSITIVE];
            finite.into_iter().chain(nan_and_infinity).map(Number::Float).map(FieldValue::Number).collect()
        }
        ColumnType::Number(NumberType::DateTime | NumberType::DateTime64 { .. }) => {
            numbers(&[0, 5, 1_700_000_000].map(Number::Int))
        }
        ColumnType::Array(element) => {
            let mut arrays = vec![FieldValue::Array(Vec::new())];
            let elements = hostile_values(element);
            arrays.extend(elements.iter().map(|element| FieldValue::Array(vec![element.clone()])));
            let twice = elements.iter().chain(&elements).cloned().collect();
            arrays.push(FieldValue::Array(twice));
            arrays.push(FieldValue::Array(elements.iter().cycle().take(24).cloned().collect()));
            if element.is_nullable() {
                arrays.push(FieldValue::Array(vec![FieldValue::Null]));
                arrays.push(FieldValue::Array(elements.into_iter().chain([FieldValue::Null]).collect()));
            }
            arrays
        }
        _ => strings(&[
            b"",
            b"a",
            b"prod",
            b"a\nb",
            b"\n",
            b"\0",
            b"a\0",
            b"\xff",
            b"a\xc3",
            b"\x80prod",
            "\u{e9}".as_bytes(),
            "\u{1f600}\u{10ffff}".as_bytes(),
            b"true",
            b"{p0:String}",
            b"Code: 1. DB::Exception: '; DROP TABLE pairs --",
            "ab".repeat(150).as_bytes(),
        ]),
    }
}

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
