//! Describes why a part of a policy is an error, and which values it read.

use tracewarden_model::field::escape;
use tracewarden_model::{LogicalType, MarkedField};

use crate::evaluate::field_value::value_of;
use crate::evaluate::value::Value;
use crate::evaluate::verdict::{ABSENT, NULL, ReadValue};
use crate::evaluate::{FieldValue, PreparedPolicy, Span};
use crate::expression::{Kind, Node};
use crate::syntax_errors::escape_invisible;

/// Maximum length of a value; longer ones are truncated.
const MAX_VALUE_CHARS: usize = 120;

/// Returns why a node is an error although none of its operands, with these values, is; or why it has no value.
/// Contains no values of the span.
pub(super) fn error_reason(node: &Node, operands: &[Value], span: &Span) -> String {
    let names: Vec<&str> = operands.iter().map(type_name).collect();
    match (&node.kind, names.as_slice()) {
        (Kind::Field(field), _) => field_error_reason(field, span),
        (Kind::Attribute(name), _) => format!("the caller has no attribute `{}`", escape_invisible(name)),
        (Kind::In(..), [_, right]) => format!("the right side of `in` must be a list, this is {right}"),
        (Kind::Compare(relation, ..), [left, right]) => {
            format!("{left} and {right} have no order for `{}`", relation.symbol())
        }
        (Kind::TextCall(function, ..), [left, right]) => {
            let mistyped = if *left == TEXT { right } else { left };
            format!("`{}` takes strings, this is {mistyped}", function.name())
        }
        (Kind::Matches(..), [subject]) => format!("`matches` takes a string, this is {subject}"),
        (Kind::Size(_), [subject]) => format!("`size` takes a string or a list, this is {subject}"),
        _ => "it cannot be evaluated".to_owned(),
    }
}

const TEXT: &str = "a string";

pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "a boolean",
        Value::Text(_) => TEXT,
        Value::Int(_) => "an integer",
        Value::List(_) => "a list",
    }
}

fn field_error_reason(field: &MarkedField, span: &Span) -> String {
    let name = escape_invisible(&field.field.to_string());
    let value = value_of(field, span);
    let missing = match value {
        None => Some(ABSENT),
        Some(FieldValue::Null) => Some(NULL),
        Some(_) => None,
    };
    match (missing, field.logical) {
        (Some(missing), _) => format!("`{name}` is {missing} on this span"),
        (None, LogicalType::Boolean) => format!("the value of `{name}` is neither `true` nor `false`"),
        (None, LogicalType::StringArray) => format!("the value of `{name}` is not a list of strings"),
        (None, LogicalType::String | LogicalType::Number) => format!("the value of `{name}` is not a string"),
    }
}

/// Returns the value that a node reads, if it is a field or belongs to the caller.
pub(super) fn read_value(node: &Node, policy: &PreparedPolicy<'_>, span: &Span) -> Option<ReadValue> {
    let (name, value) = match &node.kind {
        Kind::Field(field) => {
            let value = value_of(field, span).map_or_else(|| ABSENT.to_owned(), format_field_value);
            (field.field.to_string(), value)
        }
        Kind::Attribute(name) => {
            let value = policy.attributes.get(name.as_str()).map_or_else(|| ABSENT.to_owned(), format_value);
            (format!("user.attributes[\"{}\"]", escape(name)), value)
        }
        Kind::Username => ("user.username".to_owned(), format_value(&policy.username)),
        Kind::Roles => ("user.roles".to_owned(), format_value(&policy.roles)),
        _ => return None,
    };
    Some(ReadValue { name: escape_invisible(&name), value })
}

fn format_field_value(value: &FieldValue) -> String {
    match value {
        FieldValue::Null => NULL.to_owned(),
        FieldValue::Bool(value) => value.to_string(),
        FieldValue::String(bytes) => truncate(quoted(bytes)),
        FieldValue::Number(value) => value.to_string(),
        FieldValue::Array(list) => format_list(list.iter().map(format_field_value)),
        FieldValue::Map(entries) => format!("a map of {} entries", entries.len()),
        FieldValue::Other(text) => truncate(text.clone()),
    }
}

pub(super) fn format_value(value: &Value) -> String {
    match value {
        Value::Text(bytes) => truncate(quoted(bytes)),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::List(list) => format_list(list.iter().map(format_value)),
    }
}

fn format_list(values: impl Iterator<Item = String>) -> String {
    let texts: Vec<String> = values.take(MAX_VALUE_CHARS).collect();
    truncate(format!("[{}]", texts.join(", ")))
}

/// Formats a string in CEL syntax, with bytes that are not UTF-8 as `\xNN`.
fn quoted(bytes: &[u8]) -> String {
    // The rest would be truncated later.
    let bytes = bytes.get(..8 * MAX_VALUE_CHARS).unwrap_or(bytes);
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        text.push_str(&escape(chunk.valid()));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
        if text.len() > 8 * MAX_VALUE_CHARS {
            break;
        }
    }
    text.push('"');
    text
}

/// Truncates text to fit next to an underlined text, and escapes invisible characters and direction marks.
fn truncate(text: String) -> String {
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((at, _)) => format!("{}…", escape_invisible(text.get(..at).unwrap_or_default())),
        None => escape_invisible(&text),
    }
}
