//! ClickHouse column types, as far as fields can use them.

mod display;
mod number_type;
mod parse;
mod quoting;
mod text_type;

use crate::field::FieldSource;
use crate::logical::LogicalType;

pub use number_type::NumberType;
pub use quoting::unquote;
pub use text_type::TextType;

/// A ClickHouse type, parsed from its name in `system.columns`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// A type whose values are strings.
    Text(TextType),
    /// `Bool`.
    Bool,
    /// A type whose values are numbers.
    Number(NumberType),
    /// `LowCardinality(T)`.
    LowCardinality(Box<ColumnType>),
    /// `Nullable(T)`.
    Nullable(Box<ColumnType>),
    /// `Array(T)`.
    Array(Box<ColumnType>),
    /// `Map(K, V)`.
    Map(Box<ColumnType>, Box<ColumnType>),
    /// A `Nested` that is not flattened, or an `Array(Tuple(…))` with named members: names and types of the members of
    /// one element.
    Nested(Vec<(String, ColumnType)>),
    /// `JSON`.
    Json {
        /// The paths with a declared type, as names joined by dots.
        typed: Vec<(String, ColumnType)>,
    },
    /// `Dynamic`; also the type of a path of a JSON column without a declared type.
    Dynamic,
    /// Any type that fields cannot use.
    Other(String),
}

const STRING_VALUE_TYPES: [LogicalType; 4] =
    [LogicalType::String, LogicalType::Number, LogicalType::Boolean, LogicalType::StringArray];

impl ColumnType {
    /// `String`.
    pub const STRING: Self = Self::Text(TextType::String);

    /// Returns the type without `LowCardinality` and `Nullable` around it.
    pub fn bare(&self) -> &Self {
        match self {
            Self::LowCardinality(inner) | Self::Nullable(inner) => inner.bare(),
            other => other,
        }
    }

    /// Whether a value can be NULL.
    pub fn is_nullable(&self) -> bool {
        match self {
            Self::Nullable(_) | Self::Dynamic => true,
            Self::LowCardinality(inner) => inner.is_nullable(),
            _ => false,
        }
    }

    /// Whether this is a `String`, possibly `Nullable` or `LowCardinality`.
    pub fn is_string(&self) -> bool {
        matches!(self.bare(), Self::Text(TextType::String))
    }

    /// Whether filters and policies treat values of this type as strings: an enumeration's name, a `FixedString`
    /// without its trailing zero bytes, or a UUID's canonical text.
    pub fn is_text(&self) -> bool {
        matches!(self.bare(), Self::Text(_))
    }

    /// Returns the logical types with which a column of this type can be marked, the natural one first.
    pub fn logical_types(&self) -> &'static [LogicalType] {
        match self.bare() {
            Self::Text(_) => &[LogicalType::String],
            Self::Bool => &[LogicalType::Boolean],
            Self::Number(_) => &[LogicalType::Number],
            Self::Array(element) if element.is_text() => &[LogicalType::StringArray],
            _ => &[],
        }
    }

    /// Returns the logical types with which a key of a map with string keys can be marked; none for other types. String
    /// values can represent values of every logical type.
    pub fn map_key_logical_types(&self) -> &'static [LogicalType] {
        match self {
            Self::Map(key, value) if key.is_string() && !key.is_nullable() => {
                if value.is_text() {
                    &STRING_VALUE_TYPES
                } else {
                    value.logical_types()
                }
            }
            _ => &[],
        }
    }

    /// Returns the logical types of a key that the type itself neither declares nor excludes: a key of a map with
    /// string keys, or a path of a JSON column.
    pub fn key_logical_types(&self) -> &'static [LogicalType] {
        match self {
            Self::Json { .. } => &STRING_VALUE_TYPES,
            other => other.map_key_logical_types(),
        }
    }

    /// Returns the type of a map's values.
    pub fn map_value(&self) -> Option<&Self> {
        match self {
            Self::Map(_, value) => Some(value),
            _ => None,
        }
    }

    /// Returns the type of `Column.Member`: an array of the member's values in all elements of an unflattened nested
    /// column.
    pub fn nested_member(&self, name: &str) -> Option<Self> {
        match self {
            Self::Nested(members) => {
                let (_, member) = members.iter().find(|(known, _)| known == name)?;
                Some(Self::Array(Box::new(member.clone())))
            }
            _ => None,
        }
    }

    /// Resolves a key of this map or a path of this JSON column: the location of its value in a row, the type of the
    /// value, and the logical types with which it can be marked, the natural one first.
    ///
    /// # Errors
    /// The reason why the key or path cannot be a field.
    pub fn within(&self, name: &str) -> Result<(FieldSource, Self, &'static [LogicalType]), String> {
        match self {
            Self::Map(_, value) if !self.map_key_logical_types().is_empty() => {
                Ok((FieldSource::MapKey, value.as_ref().clone(), self.map_key_logical_types()))
            }
            Self::Json { typed } => {
                let (column_type, logical) = json_path(typed, name)?;
                Ok((FieldSource::JsonPath, column_type, logical))
            }
            other => Err(format!("no field can be made of keys of a column of type {other}")),
        }
    }
}

fn json_path(
    typed: &[(String, ColumnType)],
    path: &str,
) -> Result<(ColumnType, &'static [LogicalType]), String> {
    if path.split('.').any(str::is_empty) {
        return Err("a path has names joined by dots, none of them empty".to_owned());
    }
    // With any quoting, ``a.:`String` `` is the string at `a`, and ``^`a` `` the object at `a` (observed with 26.7).
    if path.split('.').any(|name| name.starts_with([':', '^', '@'])) {
        return Err(
            "a name in a path that begins with `:`, `^` or `@` has another meaning in ClickHouse".to_owned()
        );
    }
    if let Some((_, declared)) = typed.iter().find(|(known, _)| known == path) {
        // In a row that was written without the column, the path has the number 0 (observed with 26.7). ClickHouse
        // raises an error if the enumeration has no name for it, and another one when it shows the document.
        if matches!(declared, ColumnType::Text(TextType::Enum { .. })) {
            return Err(
                "a declared enumeration may contain a number without a name, which makes ClickHouse fail; \
                 declare it as `Nullable` or as `LowCardinality(String)`"
                    .to_owned(),
            );
        }
        let possible = declared.logical_types();
        if possible.is_empty() {
            return Err(format!("no field can be made of a path of type {declared}"));
        }
        return Ok((declared.clone(), possible));
    }
    // The meaning of such a path depends on the type declared for the path above it.
    let above = |known: &str| path.strip_prefix(known).is_some_and(|rest| rest.starts_with('.'));
    if let Some((known, declared)) = typed.iter().find(|(known, _)| above(known)) {
        return Err(format!("`{known}` is declared as {declared}, which has no paths below it"));
    }
    Ok((ColumnType::Dynamic, &STRING_VALUE_TYPES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_survive_a_round_trip() {
        for text in [
            "String",
            "LowCardinality(Nullable(String))",
            "Map(LowCardinality(String), String)",
            "Array(Map(LowCardinality(String), String))",
            "UInt64",
            "Int128",
            "Decimal(18, 3)",
            "Nullable(Decimal(76, 76))",
            "DateTime64(9)",
            "Array(LowCardinality(String))",
            "FixedString(16)",
            "LowCardinality(FixedString(5))",
            "Nullable(UUID)",
            r"Enum('a', 'b\'\\ = 1, (', '', '\n\t\0`é')",
            "Nested(Name LowCardinality(String), `a b.\\`` Map(String, Array(UInt8)))",
            "JSON",
            "JSON(a.b String, `x y.z` Array(Nullable(String)))",
            "Dynamic",
        ] {
            assert_eq!(ColumnType::parse(text).to_string(), text);
        }
        assert_eq!(
            ColumnType::parse("DateTime64(3, 'Europe/Berlin')"),
            ColumnType::Number(NumberType::DateTime64 { precision: 3 })
        );
        assert_eq!(ColumnType::parse("DateTime('UTC')"), ColumnType::Number(NumberType::DateTime));
    }

    #[test]
    fn unknown_types_are_not_fields() {
        for text in [
            "",
            "Int7",
            "Map(String)",
            "Array(",
            "Enum8('a' = 1",
            "Enum8('a)",
            "Enum8('a' = x)",
            "Enum8('\\xFF' = 1)",
            "Tuple(a String)",
            "Array(Tuple(String, UInt8))",
            "DateTime64(12)",
            "Decimal(77, 0)",
            "Decimal(5, 6)",
            "Decimal(0, 0)",
            "Decimal",
            "FixedString(-1)",
            "JSON(a)",
            "Nested()",
            "Array(Nullable(UInt8))",
            "Map(Nullable(String), String)",
        ] {
            assert!(ColumnType::parse(text).logical_types().is_empty(), "{text}");
        }
        for text in ["Nullable(Enum8(", "JSON(a JSON(", "Nested(a Nested("] {
            let deep = text.repeat(10_000);
            assert_eq!(ColumnType::parse(&deep), ColumnType::Other(deep));
        }
        let deep = "Array(".repeat(10_000) + "String" + &")".repeat(10_000);
        assert!(ColumnType::parse(&deep).logical_types().is_empty());
    }

    #[test]
    fn equivalent_spellings_of_types_are_equal() {
        let same = |text: &str, other: &str| assert_eq!(ColumnType::parse(text), ColumnType::parse(other));
        same("Enum8('b' = -2, 'a' = 1)", "Enum('b', 'a')");
        same("Enum16('b' = -200, 'a' = 1000)", "Enum('b', 'a')");
        same("Array(Tuple(Name String, At DateTime64(9, 'UTC')))", "Nested(Name String, At DateTime64(9))");
        same(
            "JSON(max_dynamic_types=3, max_dynamic_paths=0, a.b UInt8, SKIP x.y, SKIP REGEXP 'a, (b')",
            "JSON(a.b UInt8)",
        );
        same("JSON(`a b`.c String)", "JSON(`a b.c` String)");
        same("Dynamic(max_types=3)", "Dynamic");
        same("SimpleAggregateFunction(min, DateTime64(9))", "DateTime64(9)");
        same("SimpleAggregateFunction(anyLast, Nullable(String))", "Nullable(String)");
    }

    #[test]
    fn a_key_or_path_has_the_type_of_its_value() {
        use LogicalType::*;
        let within = |column: &str, name: &str| ColumnType::parse(column).within(name);
        let map = within("Map(LowCardinality(String), Array(String))", "k").unwrap();
        assert_eq!(map, (FieldSource::MapKey, ColumnType::parse("Array(String)"), &[StringArray][..]));
        assert_eq!(within("Map(String, Nullable(UUID))", "k").unwrap().2, &STRING_VALUE_TYPES);
        assert_eq!(within("Map(String, Nullable(Float32))", "k").unwrap().2, &[Number]);
        assert_eq!(within("Map(String, Bool)", "k").unwrap().2, &[Boolean]);
        for column in ["String", "Map(UInt8, String)", "Map(String, Map(String, String))", "Tuple(a String)"]
        {
            assert!(within(column, "k").is_err(), "{column}");
        }
        let json = "JSON(a.b Nullable(Bool), `c` Map(String, String), d Date, e Enum8('x' = 1), f Nullable(Enum8('x' = 1)))";
        let typed = within(json, "a.b").unwrap();
        assert_eq!(typed, (FieldSource::JsonPath, ColumnType::parse("Nullable(Bool)"), &[Boolean][..]));
        assert_eq!(within(json, "f").unwrap().2, &[String]);
        assert_eq!(within(json, "a.bc").unwrap().1, ColumnType::Dynamic);
        assert_eq!(within(json, "a").unwrap().1, ColumnType::Dynamic);
        for path in [
            "a.b.c",
            "c",
            "c.x",
            "d",
            "",
            ".",
            "a.",
            ".a",
            "x..y",
            ":`String`",
            "x.:`String`",
            "^`a`",
            "@a",
            "e",
        ] {
            assert!(within(json, path).is_err(), "{path}");
        }
        let nested = ColumnType::parse("Nested(Name String, Attributes Map(String, String))");
        assert_eq!(nested.nested_member("Name"), Some(ColumnType::parse("Array(String)")));
        assert_eq!(nested.nested_member("name"), None);
    }
}
