//! Random spans as rows of a ClickHouse table.

use tracewarden_model::{ColumnType, Number, NumberType};
use tracewarden_policy::{FieldValue, Span};

/// Names and types of columns.
pub type Columns<'a> = &'a [(&'a str, &'a str)];

/// Returns the columns of the spans in the syntax of `CREATE TABLE`.
pub fn definitions(columns: Columns<'_>) -> String {
    let columns: Vec<String> = columns.iter().map(|(name, text)| format!("`{name}` {text}")).collect();
    columns.join(", ")
}

/// Returns the values of a span in these columns in the syntax of `INSERT … VALUES`.
pub fn row(columns: Columns<'_>, span: &Span) -> String {
    let values: Vec<String> = columns
        .iter()
        .map(|(name, text)| match ColumnType::parse(text) {
            ColumnType::Nested(members) => nested(span, name, &members, text),
            column_type => span
                .get(*name)
                .map_or_else(|| "DEFAULT".to_owned(), |value| literal(value, &column_type, text)),
        })
        .collect();
    values.join(", ")
}

/// Returns a value as an SQL expression for a column of this type. `type_text` is the type in ClickHouse's notation.
pub fn literal(value: &FieldValue, column_type: &ColumnType, type_text: &str) -> String {
    match (value, column_type.bare()) {
        (FieldValue::Map(paths), ColumnType::Json { .. }) => {
            let quoted = type_text.replace('\\', "\\\\").replace('\'', "\\'");
            format!("CAST({}, '{quoted}')", hex(document(paths).as_bytes()))
        }
        (FieldValue::Map(entries), ColumnType::Map(_, inner)) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{}, {}", hex(key), literal(value, inner, "")))
                .collect();
            format!("map({})", entries.join(", "))
        }
        (FieldValue::Array(elements), ColumnType::Array(inner)) => {
            let elements: Vec<String> = elements.iter().map(|element| literal(element, inner, "")).collect();
            format!("[{}]", elements.join(", "))
        }
        (FieldValue::Number(value), ColumnType::Number(NumberType::DateTime64 { precision })) => {
            format!("toDateTime64({}, {precision}, 'UTC')", number(value))
        }
        (FieldValue::Number(value), _) => number(value),
        (FieldValue::String(bytes), _) => hex(bytes),
        (FieldValue::Bool(value), _) => value.to_string(),
        (FieldValue::Other(text), _) => text.clone(),
        (FieldValue::Null | FieldValue::Array(_) | FieldValue::Map(_), _) => "NULL".to_owned(),
    }
}

fn number(value: &Number) -> String {
    match value {
        Number::Float(value) if value.is_nan() => "nan".to_owned(),
        Number::Float(value) if value.is_infinite() => if *value > 0.0 { "inf" } else { "-inf" }.to_owned(),
        Number::Float(value) => format!("{value:e}"),
        other => other.to_string(),
    }
}

fn hex(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("unhex('{hex}')")
}

/// Returns an array of tuples, built from the arrays of its members.
fn nested(span: &Span, name: &str, members: &[(String, ColumnType)], type_text: &str) -> String {
    let arrays: Vec<String> = members
        .iter()
        .filter_map(|(member, member_type)| {
            let value = span.get(&format!("{name}.{member}"))?;
            Some(literal(value, &ColumnType::Array(Box::new(member_type.clone())), ""))
        })
        .collect();
    format!("CAST(arrayZip({}), '{type_text}')", arrays.join(", "))
}

/// Returns a JSON document with these paths, each as one member: ClickHouse interprets dots as levels.
fn document(paths: &[(Vec<u8>, FieldValue)]) -> String {
    let members: Vec<String> = paths
        .iter()
        .map(|(path, value)| {
            let path = serde_json::Value::from(String::from_utf8_lossy(path));
            format!("{path}:{}", json(value))
        })
        .collect();
    format!("{{{}}}", members.join(","))
}

fn json(value: &FieldValue) -> String {
    match value {
        FieldValue::String(bytes) => serde_json::Value::from(String::from_utf8_lossy(bytes)).to_string(),
        FieldValue::Array(elements) => {
            format!("[{}]", elements.iter().map(json).collect::<Vec<_>>().join(","))
        }
        FieldValue::Bool(value) => value.to_string(),
        FieldValue::Number(value) => number(value),
        FieldValue::Other(text) => text.clone(),
        FieldValue::Null | FieldValue::Map(_) => "null".to_owned(),
    }
}
