//! A span's values as the CEL library can hold them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use cel::Value;
use tracewarden_model::{AttributeValue, Caller, LogicalType, MarkedField};

use crate::evaluate::{FieldValue, Span};

/// The span's columns as variables, and which map keys have a value that is an error.
pub(super) struct SpanValues {
    variables: BTreeMap<String, Value>,
    erroneous: BTreeSet<(String, String)>,
    invalid: Option<Range<u32>>,
}

impl SpanValues {
    pub(super) fn new(expression: &str, caller: &Caller, fields: &[&MarkedField], span: &Span) -> Self {
        let invalid = free_block(expression, caller, span);
        let mut values = Self { variables: BTreeMap::new(), erroneous: BTreeSet::new(), invalid };
        for field in fields {
            match &field.field.map {
                Some(map) => values.add_key(map, field, span.get(map)),
                None => values.add_column(&field.field.name, span.get(&field.field.name)),
            }
        }
        values
    }

    pub(super) fn variables(&self) -> impl Iterator<Item = (String, Value)> + '_ {
        self.variables.iter().map(|(name, value)| (name.clone(), value.clone()))
    }

    pub(super) fn is_erroneous(&self, map: &str, key: &str) -> bool {
        self.erroneous.contains(&(map.to_owned(), key.to_owned()))
    }

    /// The code points that stand for bytes that are not UTF-8, if there are any.
    pub(super) fn invalid_block(&self) -> Option<Range<u32>> {
        self.invalid.clone()
    }

    /// A column; NULL and absent ones stay undeclared. `Events.Name` is a member of `Events`.
    fn add_column(&mut self, name: &str, value: Option<&FieldValue>) {
        let value = match value {
            Some(FieldValue::String(bytes)) => self.text(bytes),
            Some(FieldValue::Strings(list)) => {
                list.iter().map(|bytes| self.text(bytes)).collect::<Vec<_>>().into()
            }
            Some(FieldValue::Bool(value)) => Value::Bool(*value),
            Some(FieldValue::Null | FieldValue::Map(_)) | None => return,
        };
        match name.split_once('.') {
            None => {
                self.variables.insert(name.to_owned(), value);
            }
            Some((outer, inner)) => self.insert_member(outer, inner, value),
        }
    }

    fn add_key(&mut self, map: &str, field: &MarkedField, column: Option<&FieldValue>) {
        self.variables.entry(map.to_owned()).or_insert_with(|| HashMap::<String, Value>::new().into());
        let Some(FieldValue::Map(entries)) = column else { return };
        let key = field.field.name.as_bytes();
        // A map may hold a key twice: the first one counts. A NULL value is as good as no key.
        let Some((_, Some(bytes))) = entries.iter().find(|(name, _)| name == key) else { return };
        let text = std::str::from_utf8(bytes).ok();
        let value = match field.logical {
            LogicalType::Boolean => match text {
                Some("true") => Some(Value::Bool(true)),
                Some("false") => Some(Value::Bool(false)),
                _ => None,
            },
            LogicalType::StringArray => text
                .and_then(string_array)
                .map(|list| list.iter().map(|text| Value::from(text.as_str())).collect::<Vec<_>>().into()),
            _ => Some(self.text(bytes)),
        };
        let value = value.unwrap_or_else(|| {
            self.erroneous.insert((map.to_owned(), field.field.name.clone()));
            Value::Null
        });
        self.insert_member(map, &field.field.name, value);
    }

    fn insert_member(&mut self, outer: &str, inner: &str, value: Value) {
        let mut members: HashMap<String, Value> = match self.variables.get(outer) {
            Some(Value::Map(map)) => {
                map.map.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
            }
            _ => HashMap::new(),
        };
        members.insert(inner.to_owned(), value);
        self.variables.insert(outer.to_owned(), members.into());
    }

    /// Text in which each byte that is not UTF-8 is a code point that occurs nowhere else. One to one, and it keeps
    /// prefixes, suffixes and substrings; it keeps neither length nor order, which are errors on such strings.
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

/// A JSON array of strings, and nothing else.
pub(crate) fn string_array(text: &str) -> Option<Vec<String>> {
    serde_json::from_str(text).ok()
}

/// A block of 256 private code points that neither policy, caller nor span uses; `None` when all strings are UTF-8.
fn free_block(expression: &str, caller: &Caller, span: &Span) -> Option<Range<u32>> {
    let mut strings: Vec<&[u8]> = vec![expression.as_bytes(), caller.username.as_bytes()];
    strings.extend(caller.roles.iter().map(String::as_bytes));
    for value in caller.attributes.values() {
        match value {
            AttributeValue::String(text) => strings.push(text.as_bytes()),
            AttributeValue::Strings(list) => strings.extend(list.iter().map(String::as_bytes)),
            AttributeValue::Bool(_) => {}
        }
    }
    for value in span.values() {
        match value {
            FieldValue::String(bytes) => strings.push(bytes),
            FieldValue::Strings(list) => strings.extend(list.iter().map(Vec::as_slice)),
            FieldValue::Map(entries) => {
                strings.extend(entries.iter().filter_map(|(_, value)| value.as_deref()));
            }
            FieldValue::Null | FieldValue::Bool(_) => {}
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
