//! Random spans.

use tracewarden_model::{ColumnType, LogicalType};
use tracewarden_policy::{FieldValue, Span};

use super::Generator;
use super::columns::{COLUMNS, KEYS};

/// Bytes that are not UTF-8, in spans only.
const BROKEN: [&[u8]; 5] = [b"\xff", b"a\xc3", b"\xe2\x82b", b"ab\xed\xa0\x80", b"\x80prod"];

/// JSON that a key of type string_array may hold, right and wrong.
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

impl Generator {
    fn bytes(&mut self) -> Vec<u8> {
        if self.chance(4) { self.pick(&BROKEN, b"\xff").to_vec() } else { self.text().into_bytes() }
    }

    /// A span: a value for each column.
    pub fn span(&mut self) -> Span {
        let mut span = Span::new();
        for (name, type_text) in COLUMNS {
            let column_type = ColumnType::parse(type_text);
            let value = if column_type.is_nullable() && self.chance(25) {
                FieldValue::Null
            } else {
                match column_type.bare() {
                    ColumnType::Bool => FieldValue::Bool(self.chance(60)),
                    ColumnType::Array(_) => FieldValue::Array(
                        (0..self.below(4)).map(|_| FieldValue::String(self.bytes())).collect(),
                    ),
                    ColumnType::Map(_, value) => FieldValue::Map(self.map(name, value.is_nullable())),
                    _ => FieldValue::String(self.bytes()),
                }
            };
            span.insert(name.to_owned(), value);
        }
        span
    }

    fn map(&mut self, map: &str, nullable: bool) -> Vec<(Vec<u8>, FieldValue)> {
        let mut entries = Vec::new();
        for (_, key, logical) in KEYS.iter().filter(|(name, ..)| *name == map) {
            let times = match self.below(100) {
                0..20 => 0,
                20..94 => 1,
                _ => 2,
            };
            for _ in 0..times {
                let value = match logical {
                    LogicalType::Boolean if self.chance(85) => {
                        self.pick(&["true", "true", "false"], "").as_bytes().to_vec()
                    }
                    LogicalType::StringArray if self.chance(50) => {
                        self.pick(&LISTS[..5], "").as_bytes().to_vec()
                    }
                    LogicalType::StringArray => self.pick(&LISTS, "").as_bytes().to_vec(),
                    _ => self.bytes(),
                };
                let value =
                    if nullable && self.chance(15) { FieldValue::Null } else { FieldValue::String(value) };
                entries.push((key.as_bytes().to_vec(), value));
            }
        }
        if self.chance(10) {
            entries.push((b"other\xff".to_vec(), FieldValue::text("x")));
        }
        entries
    }
}
