//! Converts a span's values to values of the CEL library.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use cel::Value;
use tracewarden_model::{AttributeValue, Caller, ColumnType, FieldSource, LogicalType, MarkedField};
use tracewarden_policy::{FieldValue, Span};

/// The span's columns as variables, and the keys and paths whose value is an error.
pub(super) struct SpanValues {
    /// Columns with a value of their type, and maps.
    pub(super) variables: BTreeMap<String, Value>,
    pub(super) columns: BTreeSet<String>,
    keys: BTreeSet<(String, String)>,
    error_keys: BTreeSet<(String, String)>,
    invalid: Option<Range<u32>>,
}

impl SpanValues {
    pub(super) fn new(expression: &str, caller: &Caller, fields: &[&MarkedField], span: &Span) -> Self {
        let mut values = Self {
            variables: BTreeMap::new(),
            columns: BTreeSet::new(),
            keys: BTreeSet::new(),
            error_keys: BTreeSet::new(),
            invalid: unused_code_points(expression, caller, span),
        };
        let mut maps: BTreeMap<&str, HashMap<String, Value>> = BTreeMap::new();
        for field in fields {
            let name = &field.field.name;
            match &field.field.map {
                None => values.add_column(field, span.get(name)),
                Some(map) => {
                    let members = maps.entry(map).or_default();
                    values.keys.insert((map.clone(), name.clone()));
                    if let Some(value) = values.member(map, field, span.get(map)) {
                        members.insert(name.clone(), value);
                    }
                }
            }
        }
        values.variables.extend(maps.into_iter().map(|(map, members)| (map.to_owned(), members.into())));
        values
    }

    pub(super) fn is_key(&self, map: &str, key: &str) -> bool {
        self.keys.contains(&(map.to_owned(), key.to_owned()))
    }

    pub(super) fn is_error_key(&self, map: &str, key: &str) -> bool {
        self.error_keys.contains(&(map.to_owned(), key.to_owned()))
    }

    /// Returns the code points that represent bytes that are not UTF-8, if there are any.
    pub(super) fn invalid_code_points(&self) -> Option<Range<u32>> {
        self.invalid.clone()
    }

    /// Adds a column. A column without a value of its type stays undeclared.
    fn add_column(&mut self, field: &MarkedField, value: Option<&FieldValue>) {
        self.columns.insert(field.field.name.clone());
        if let Some(value) = value.and_then(|value| self.typed(field, value)) {
            self.variables.insert(field.field.name.clone(), value);
        }
    }

    /// Returns the value of a key or a path; `None` if it is absent. NULL under a key of a map is present but has no
    /// type. At a path, NULL means absent.
    fn member(&mut self, map: &str, field: &MarkedField, column: Option<&FieldValue>) -> Option<Value> {
        let found = column.and_then(|column| column.value_of_key(field.field.name.as_bytes()));
        let is_present = |value: &&FieldValue| **value != FieldValue::Null || field.source.is_map_key();
        let value = match found.filter(is_present) {
            Some(value) => value,
            None => &missing_path_value(field)?,
        };
        Some(self.typed(field, value).unwrap_or_else(|| {
            self.error_keys.insert((map.to_owned(), field.field.name.clone()));
            Value::Null
        }))
    }

    /// Converts a value of the field's logical type; `None` for any other value.
    fn typed(&self, field: &MarkedField, value: &FieldValue) -> Option<Value> {
        let column_type = &field.column_type;
        // A string in a map can represent a value of another type.
        let parsed = field.source.is_map_key() && column_type.is_text();
        match (field.logical, value) {
            (LogicalType::String, FieldValue::String(bytes)) => {
                Some(self.text(&normalize_string(column_type, bytes)))
            }
            (LogicalType::Boolean, FieldValue::Bool(value)) => Some(Value::Bool(*value)),
            (LogicalType::Boolean, FieldValue::String(bytes)) if parsed => {
                match normalize_string(column_type, bytes).as_ref() {
                    b"true" => Some(Value::Bool(true)),
                    b"false" => Some(Value::Bool(false)),
                    _ => None,
                }
            }
            (LogicalType::StringArray, FieldValue::String(bytes)) if parsed => {
                let bytes = normalize_string(column_type, bytes);
                let list: Vec<String> = serde_json::from_slice(&bytes).ok()?;
                Some(list.iter().map(|text| Value::from(text.as_str())).collect::<Vec<_>>().into())
            }
            (LogicalType::StringArray, FieldValue::Array(elements)) => {
                let element_type = match column_type.bare() {
                    ColumnType::Array(element) => element,
                    other => other,
                };
                let text = |element: &FieldValue| match element {
                    FieldValue::String(bytes) => Some(self.text(&normalize_string(element_type, bytes))),
                    _ => None,
                };
                Some(elements.iter().map(text).collect::<Option<Vec<_>>>()?.into())
            }
            _ => None,
        }
    }

    /// Converts bytes to text. Each byte that is not UTF-8 becomes a code point that occurs nowhere else, so the
    /// mapping is one-to-one. It does not preserve length and order, which are errors on such strings, or substrings;
    /// for those see `BYTES`.
    fn text(&self, bytes: &[u8]) -> Value {
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            for byte in chunk.invalid() {
                let start = self.invalid.as_ref().map_or(0x10_FF00, |block| block.start);
                text.extend(char::from_u32(start + u32::from(*byte)));
            }
        }
        Value::from(text)
    }
}

/// Returns the value of a path that a document lacks: no value, unless the path's declared type is not Nullable. Then
/// ClickHouse returns the type's default.
fn missing_path_value(field: &MarkedField) -> Option<FieldValue> {
    if field.source != FieldSource::JsonPath || field.column_type.is_nullable() {
        return None;
    }
    Some(match field.column_type.bare() {
        ColumnType::Text(text_type) => FieldValue::text(text_type.default_value()?),
        ColumnType::Bool => FieldValue::Bool(false),
        ColumnType::Array(_) => FieldValue::Array(Vec::new()),
        _ => FieldValue::text(""),
    })
}

/// Converts text back to bytes. The code points of `invalid` represent bytes that are not UTF-8.
pub(super) fn bytes(text: &str, invalid: Option<&Range<u32>>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match invalid {
            Some(block) if block.contains(&u32::from(character)) => {
                bytes.extend(u8::try_from(u32::from(character) - block.start));
            }
            _ => bytes.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

/// Returns a string as a column of this type returns it.
fn normalize_string<'a>(column_type: &ColumnType, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    match column_type.bare() {
        ColumnType::Text(text_type) => text_type.normalize(bytes),
        _ => Cow::Borrowed(bytes),
    }
}

/// Returns a block of 256 private-use code points that neither policy, caller nor span uses; `None` if all strings are
/// UTF-8.
fn unused_code_points(expression: &str, caller: &Caller, span: &Span) -> Option<Range<u32>> {
    let mut strings: Vec<&[u8]> = vec![expression.as_bytes(), caller.username.as_bytes()];
    strings.extend(caller.roles.iter().map(String::as_bytes));
    for value in caller.attributes.values() {
        match value {
            AttributeValue::String(text) => strings.push(text.as_bytes()),
            AttributeValue::Strings(list) => strings.extend(list.iter().map(String::as_bytes)),
            AttributeValue::Bool(_) => {}
        }
    }
    let mut pending: Vec<&FieldValue> = span.values().collect();
    while let Some(value) = pending.pop() {
        match value {
            FieldValue::String(bytes) => strings.push(bytes),
            FieldValue::Array(elements) => pending.extend(elements),
            FieldValue::Map(entries) => pending.extend(entries.iter().map(|(_, value)| value)),
            FieldValue::Null | FieldValue::Bool(_) | FieldValue::Number(_) | FieldValue::Other(_) => {}
        }
    }
    if strings.iter().all(|bytes| std::str::from_utf8(bytes).is_ok()) {
        return None;
    }
    let used: BTreeSet<u32> = strings
        .iter()
        .flat_map(|bytes| bytes.utf8_chunks())
        .flat_map(|chunk| chunk.valid().chars())
        .map(|character| u32::from(character) >> 8)
        .collect();
    // The planes 15 and 16 are for private use.
    (0xF00..=0x10FF).rev().find(|block| !used.contains(block)).map(|block| (block << 8)..((block + 1) << 8))
}
