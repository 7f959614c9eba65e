//! Random spans.

use tracewarden_model::{ColumnType, LogicalType, Number, TextType};
use tracewarden_policy::{FieldValue, Span};

use super::Generator;
use super::columns::{COLUMNS, KEYS, hostile_values};

/// Bytes that are not UTF-8, in spans only. The later ones are parts of characters in [`TEXTS`](super::TEXTS) and in names of
/// enumerations, so that one string can begin with, end with or contain the other.
const INVALID_UTF8: [&[u8]; 11] = [
    b"\xff",
    b"a\xc3",
    b"\xe2\x82b",
    b"ab\xed\xa0\x80",
    b"\x80prod",
    b"\xc3",
    b"\xa9",
    b"\xe6\x97",
    b"\xa5\xe6\x9c",
    b"\xf0\x9f",
    b"\x80",
];

/// JSON in a key of type string_array, valid and invalid.
const LISTS: [&str; 16] = [
    "[]",
    "[\"a\"]",
    "[\"a\",\"b\"]",
    " [ \"prod\" ] ",
    "[\"\\u00e9\",\"\\n\"]",
    "[\"a\",1]",
    "[1]",
    "{}",
    "\"a\"",
    "[\"a\"",
    "[\"a\"]x",
    "[null]",
    "[[\"a\"]]",
    "[\"a\",]",
    "\u{feff}[\"a\"]",
    "[\"\\ud800\"]",
];

const NUMBERS: [&str; 8] = ["0", "1", "-1.5", "1e400", "9223372036854775808", "nan", "", "1x"];

/// JSON values of another type than expected in a JSON document. There are no dates: whether ClickHouse stores a string that
/// looks like one as a date or as a string depends on the values of earlier rows at the path.
const OTHER_JSON_VALUES: [&str; 7] =
    ["1", "-1.5", "18446744073709551615", "[1]", "[[\"a\"]]", "[{\"a\":\"b\"}]", "[\"a\",1]"];

impl Generator {
    pub(super) fn bytes(&mut self) -> Vec<u8> {
        if self.chance(4) { self.pick(&INVALID_UTF8, b"\xff").to_vec() } else { self.text().into_bytes() }
    }

    /// Generates a span: a value for each column, and for each member of a nested one.
    pub fn span(&mut self) -> Span {
        let mut span = Span::new();
        for (name, type_text) in COLUMNS {
            let column_type = ColumnType::parse(type_text);
            match &column_type {
                ColumnType::Nested(members) => {
                    let length = self.below(4);
                    for (member, member_type) in members {
                        let elements = (0..length).map(|_| self.value(member_type)).collect();
                        span.insert(format!("{name}.{member}"), FieldValue::Array(elements));
                    }
                }
                ColumnType::Map(_, value) => {
                    let entries = self.map(name, value);
                    span.insert((*name).to_owned(), FieldValue::Map(entries));
                }
                ColumnType::Json { .. } => {
                    let paths = self.document(name, &column_type);
                    span.insert((*name).to_owned(), FieldValue::Map(paths));
                }
                _ => {
                    let value = self.value(&column_type);
                    span.insert((*name).to_owned(), value);
                }
            }
        }
        span
    }

    /// Generates a value that a column of this type can hold.
    fn value(&mut self, column_type: &ColumnType) -> FieldValue {
        if column_type.is_nullable() && self.chance(25) {
            return FieldValue::Null;
        }
        match column_type.bare() {
            ColumnType::Text(TextType::String) => FieldValue::String(self.bytes()),
            ColumnType::Text(TextType::FixedString { bytes }) => {
                FieldValue::String(fixed(self.bytes(), *bytes))
            }
            ColumnType::Bool => FieldValue::Bool(self.chance(60)),
            ColumnType::Array(element) => {
                // One NULL affects the whole array, so most arrays have none.
                let contains_null = element.is_nullable() && self.chance(25);
                let element = if contains_null { element.as_ref() } else { element.bare() };
                FieldValue::Array((0..self.below(4)).map(|_| self.value(element)).collect())
            }
            other => self.pick(&hostile_values(other), FieldValue::Null),
        }
    }

    fn map(&mut self, map: &str, value_type: &ColumnType) -> Vec<(Vec<u8>, FieldValue)> {
        let mut entries = Vec::new();
        for (_, key, logical) in KEYS.iter().filter(|(name, ..)| *name == map) {
            let times = match self.below(100) {
                0..20 => 0,
                20..94 => 1,
                _ => 2,
            };
            for _ in 0..times {
                let value = match logical {
                    _ if value_type.is_nullable() && self.chance(15) => FieldValue::Null,
                    LogicalType::Boolean if value_type.is_text() && self.chance(85) => {
                        self.parsable(&["true", "true", "false"], value_type)
                    }
                    LogicalType::StringArray if value_type.is_text() && self.chance(50) => {
                        self.parsable(&LISTS[..5], value_type)
                    }
                    LogicalType::StringArray if value_type.is_text() => self.parsable(&LISTS, value_type),
                    LogicalType::Number if value_type.is_text() => self.parsable(&NUMBERS, value_type),
                    _ => self.value(value_type),
                };
                entries.push((key.as_bytes().to_vec(), value));
            }
        }
        if self.chance(10) {
            let value = self.value(value_type);
            entries.push((b"other\xff".to_vec(), value));
        }
        entries
    }

    /// Generates a string that represents a value of another type, if the column's type can hold it.
    fn parsable(&mut self, texts: &[&str], column_type: &ColumnType) -> FieldValue {
        let text = self.pick(texts, "");
        match column_type.bare() {
            ColumnType::Text(TextType::FixedString { bytes }) => {
                FieldValue::String(fixed(text.as_bytes().to_vec(), *bytes))
            }
            ColumnType::Text(text_type) if text_type.mismatch(text).is_some() => {
                self.value(column_type.bare())
            }
            _ => FieldValue::text(text),
        }
    }

    /// Generates the content of a JSON column. Documents are always UTF-8.
    fn document(&mut self, column: &str, column_type: &ColumnType) -> Vec<(Vec<u8>, FieldValue)> {
        let mut paths = Vec::new();
        for (_, path, logical) in KEYS.iter().filter(|(name, ..)| *name == column) {
            let Ok((_, value_type, _)) = column_type.within(path) else { continue };
            let value = if value_type != ColumnType::Dynamic {
                self.declared(&value_type)
            } else if self.chance(20) {
                continue;
            } else if self.chance(20) {
                let wrong = self.pick(&OTHER_JSON_VALUES, "1");
                let right = *logical == LogicalType::Number && !wrong.starts_with('[');
                FieldValue::Other(if right { "[1]" } else { wrong }.to_owned())
            } else if self.chance(5) {
                FieldValue::Null
            } else {
                match logical {
                    LogicalType::Boolean => FieldValue::Bool(self.chance(60)),
                    LogicalType::Number => FieldValue::Number(self.pick(
                        &[Number::Int(-3), Number::UInt(u64::MAX), Number::Float(1.5)],
                        Number::Int(0),
                    )),
                    LogicalType::StringArray => {
                        let contains_null = self.chance(25);
                        let element = |generator: &mut Self| {
                            let null = contains_null && generator.chance(40);
                            if null { FieldValue::Null } else { FieldValue::text(generator.text()) }
                        };
                        FieldValue::Array((0..self.below(4)).map(|_| element(self)).collect())
                    }
                    LogicalType::String => FieldValue::text(self.text()),
                }
            };
            paths.push((path.as_bytes().to_vec(), value));
        }
        for number in 0..self.below(4) {
            paths.push((format!("filler.p{}", number * 7).into_bytes(), FieldValue::text(self.text())));
        }
        paths
    }

    /// Generates a value of a path with a declared type.
    fn declared(&mut self, column_type: &ColumnType) -> FieldValue {
        let valid = |value: &FieldValue| match value {
            FieldValue::String(bytes) => std::str::from_utf8(bytes).is_ok(),
            FieldValue::Number(Number::Float(float)) => float.is_finite(),
            FieldValue::Array(elements) => elements.iter().all(|element| match element {
                FieldValue::String(bytes) => std::str::from_utf8(bytes).is_ok(),
                _ => true,
            }),
            _ => true,
        };
        loop {
            let value = self.value(column_type);
            if valid(&value) {
                return value;
            }
        }
    }
}

/// Returns the value of a `FixedString` of this length, without padding.
fn fixed(mut bytes: Vec<u8>, length: u32) -> Vec<u8> {
    bytes.truncate(length as usize);
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes
}
