//! Parses spans in the format of query results, to evaluate policies on them.
//!
//! The type of a marked field determines the meaning of its value. A value that no row can have is rejected: a test of a policy
//! on impossible spans proves nothing.

use tracewarden_model::{AccessModel, ColumnType, FieldSource, LogicalType, MarkedField, Number};
use tracewarden_service::{FieldError, FieldValue, Span};

use crate::json::{Json, JsonNumber};
use crate::json_pointer::escape;

/// Parses spans for policies under this access model. Columns that policies cannot use are ignored, and columns may be missing.
///
/// # Errors
/// Every value that no row can have, with its JSON Pointer below `pointer`.
pub fn spans(sent: &[Json], model: &AccessModel, pointer: &str) -> Result<Vec<Span>, Vec<FieldError>> {
    let mut errors: Vec<FieldError> = Vec::new();
    let mut spans = Vec::with_capacity(sent.len());
    for (index, json) in sent.iter().enumerate() {
        let mut faults = Vec::new();
        spans.push(span(json, model, &mut faults));
        for (sub_pointer, detail) in faults {
            let pointer = format!("{pointer}/{index}{sub_pointer}");
            if !errors.iter().any(|error| error.pointer == pointer) {
                errors.push(FieldError { pointer, code: "value_type", detail, diagnostic: None });
            }
        }
    }
    if errors.is_empty() { Ok(spans) } else { Err(errors) }
}

/// Pointer below the span, and message.
type ValueFault = (String, String);

/// A value below the span, or its fault.
type ReadResult<T> = Result<T, ValueFault>;

fn span(json: &Json, model: &AccessModel, faults: &mut Vec<ValueFault>) -> Span {
    let mut span = Span::new();
    if !matches!(json, Json::Object(_)) {
        faults.push((String::new(), format!("a span is an object, this is {}", json.kind())));
        return span;
    }
    for field in model.fields.iter().filter(|field| field.policy && field.logical != LogicalType::Number) {
        let found = match (&field.field.map, field.source) {
            (None, _) => column(json, field),
            (Some(map), FieldSource::JsonPath) => {
                json.member(map).map_or(Ok(None), |column| path(column, map, field))
            }
            (Some(map), FieldSource::ArrayPair(pair)) if json.member(map).is_none() => {
                key_of_pair(json, &pair.columns(map), field)
            }
            (Some(map), _) => json.member(map).map_or(Ok(None), |column| key(column, map, field)),
        };
        match (found, &field.field.map) {
            (Err(fault), _) => faults.push(fault),
            (Ok(None), Some(map)) => {
                span.entry(map.clone()).or_insert_with(|| FieldValue::Map(Vec::new()));
            }
            (Ok(None), None) => {}
            (Ok(Some(value)), None) => {
                span.insert(field.field.name.clone(), value);
            }
            (Ok(Some(value)), Some(map)) => {
                let entry = (field.field.name.clone().into_bytes(), value);
                match span.entry(map.clone()).or_insert_with(|| FieldValue::Map(Vec::new())) {
                    FieldValue::Map(entries) => entries.push(entry),
                    other => *other = FieldValue::Map(vec![entry]),
                }
            }
        }
    }
    span
}

/// Returns the value of a column, or of a member in each element of a nested column.
fn column(span: &Json, field: &MarkedField) -> ReadResult<Option<FieldValue>> {
    let name = &field.field.name;
    let sub_pointer = format!("/{}", escape(name));
    if let Some(json) = span.member(name) {
        return value(json, &field.column_type, &sub_pointer).map(Some);
    }
    let nested = name.match_indices('.').filter_map(|(at, _)| Some((name.get(..at)?, name.get(at + 1..)?)));
    for (outer, member) in nested {
        match span.member(outer) {
            Some(Json::List(elements)) => {
                let element_type = match &field.column_type {
                    ColumnType::Array(element) => element,
                    other => other,
                };
                let elements = elements.iter().enumerate().map(|(index, element)| {
                    let sub_pointer = format!("/{}/{index}/{}", escape(outer), escape(member));
                    match element.member(member) {
                        Some(json) => value(json, element_type, &sub_pointer),
                        None => {
                            Err((sub_pointer, format!("an element of `{outer}` has a member `{member}`")))
                        }
                    }
                });
                return elements.collect::<ReadResult<_>>().map(|elements| Some(FieldValue::Array(elements)));
            }
            Some(other) => {
                let detail = format!("`{outer}` is an array of objects, this is {}", other.kind());
                return Err((format!("/{}", escape(outer)), detail));
            }
            None => {}
        }
    }
    Ok(None)
}

fn key(column: &Json, map: &str, field: &MarkedField) -> ReadResult<Option<FieldValue>> {
    let sub_pointer = format!("/{}", escape(map));
    if !matches!(column, Json::Object(_)) {
        return Err((sub_pointer, format!("`{map}` is a map, this is {}", column.kind())));
    }
    let name = &field.field.name;
    let sub_pointer = format!("{sub_pointer}/{}", escape(name));
    column.member(name).map(|json| value(json, &field.column_type, &sub_pointer)).transpose()
}

/// Returns the value of a key in two arrays, as the table has them.
fn key_of_pair(
    span: &Json,
    [keys, values]: &[String; 2],
    field: &MarkedField,
) -> ReadResult<Option<FieldValue>> {
    let list = |name: &String| match span.member(name) {
        None => Ok(&[] as &[Json]),
        Some(Json::List(elements)) => Ok(elements.as_slice()),
        Some(other) => {
            Err((format!("/{}", escape(name)), format!("`{name}` is an array, this is {}", other.kind())))
        }
    };
    let (keys, found) = (list(keys)?, list(values)?);
    let is_key = |key: &Json| matches!(key, Json::Text(text) if *text == field.field.name);
    let Some((at, json)) = keys.iter().position(is_key).and_then(|at| Some((at, found.get(at)?))) else {
        return Ok(None);
    };
    value(json, &field.column_type, &format!("/{}/{at}", escape(values))).map(Some)
}

fn path(column: &Json, map: &str, field: &MarkedField) -> ReadResult<Option<FieldValue>> {
    let mut sub_pointer = format!("/{}", escape(map));
    if !matches!(column, Json::Object(_)) {
        return Err((
            sub_pointer,
            format!("`{map}` is a JSON column, which holds objects; this is {}", column.kind()),
        ));
    }
    let Some((found, at)) = find_path(column, &field.field.name) else { return Ok(None) };
    sub_pointer.push_str(&at);
    match &field.column_type {
        ColumnType::Dynamic => Ok(dynamic(found)),
        declared => value(found, declared, &sub_pointer).map(Some),
    }
}

/// Finds the value at a path through nested objects, whose names may contain dots, and its pointer.
fn find_path<'a>(json: &'a Json, path: &str) -> Option<(&'a Json, String)> {
    if let Some(found) = json.member(path) {
        return Some((found, format!("/{}", escape(path))));
    }
    path.match_indices('.').find_map(|(at, _)| {
        let (outer, inner) = (path.get(..at)?, path.get(at + 1..)?);
        let (found, sub_pointer) = find_path(json.member(outer)?, inner)?;
        Some((found, format!("/{}{sub_pointer}", escape(outer))))
    })
}

/// Converts a value whose type ClickHouse infers from the value itself; `None` if ClickHouse then has no value at the path.
fn dynamic(json: &Json) -> Option<FieldValue> {
    match json {
        Json::Null | Json::Object(_) => None,
        Json::Bool(value) => Some(FieldValue::Bool(*value)),
        Json::Number(number) => Some(as_number(number)),
        Json::Text(text) if is_time(text) => Some(FieldValue::Other(text.clone())),
        Json::Text(text) => Some(FieldValue::text(text.as_str())),
        Json::List(list) => {
            let element = |json| {
                dynamic(json).unwrap_or(match json {
                    Json::Object(_) => FieldValue::Other("an object".to_owned()),
                    _ => FieldValue::Null,
                })
            };
            Some(FieldValue::Array(list.iter().map(element).collect()))
        }
    }
}

fn as_number(number: &JsonNumber) -> FieldValue {
    let number = match (number.as_i64(), number.as_u64()) {
        (Some(int), _) => Number::Int(int),
        (None, Some(int)) => Number::UInt(int),
        (None, None) => Number::Float(number.to_f64()),
    };
    FieldValue::Number(number)
}

/// Whether a string in JSON is a date or time in ClickHouse's output format, which ClickHouse does not treat as a string. When
/// strings are stored, ClickHouse recognises more formats as dates and times; queries then return one of these.
fn is_time(text: &str) -> bool {
    let digits = |character: char| if character.is_ascii_digit() { '0' } else { character };
    let shape: String = text.chars().map(digits).collect();
    let Some(rest) = shape.strip_prefix("0000-00-00") else { return false };
    let clock = rest.strip_prefix([' ', 'T']);
    let has_shape = clock.map_or(rest.is_empty(), |clock| clock.starts_with("00:00:00"));
    // Years outside these ranges do not fit the date types and stay strings.
    let year = text.get(..4).and_then(|year| year.parse::<u32>().ok());
    let years = if clock.is_some() { 1970..=2105 } else { 1970..=2149 };
    has_shape && year.is_some_and(|year| years.contains(&year))
}

/// Converts a value of a declared type.
fn value(json: &Json, column_type: &ColumnType, sub_pointer: &str) -> ReadResult<FieldValue> {
    let refuse = |expected: &str| {
        Err((sub_pointer.to_owned(), format!("expected {expected}, this is {}", json.kind())))
    };
    if *json == Json::Null {
        return if column_type.is_nullable() {
            Ok(FieldValue::Null)
        } else {
            refuse(&format!("a value of type {column_type}, which is never NULL"))
        };
    }
    match (column_type.bare(), json) {
        (ColumnType::Bool, Json::Bool(value)) => Ok(FieldValue::Bool(*value)),
        (ColumnType::Bool, _) => refuse("`true` or `false`"),
        (ColumnType::Array(element), Json::List(list)) => {
            let elements = list
                .iter()
                .enumerate()
                .map(|(index, json)| value(json, element, &format!("{sub_pointer}/{index}")));
            elements.collect::<ReadResult<_>>().map(FieldValue::Array)
        }
        (ColumnType::Array(_), _) => refuse("an array"),
        (ColumnType::Text(text_type), Json::Text(text)) => match text_type.mismatch(text) {
            Some(detail) => Err((sub_pointer.to_owned(), detail)),
            None => Ok(FieldValue::text(text.as_str())),
        },
        (_, Json::Text(text)) => Ok(FieldValue::text(text.as_str())),
        (_, _) => refuse("a string"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tracewarden_model::FieldRef;

    use super::*;

    fn field(map: Option<&str>, name: &str, column_type: &str) -> MarkedField {
        let column_type = ColumnType::parse(column_type);
        let source = match (map, &column_type) {
            (None, _) => FieldSource::Column,
            (Some(_), ColumnType::Dynamic) => FieldSource::JsonPath,
            (Some(_), _) => FieldSource::MapKey,
        };
        let logical = column_type.logical_types().first().copied().unwrap_or(LogicalType::String);
        let field = FieldRef { map: map.map(str::to_owned), name: name.to_owned() };
        MarkedField { field, source, logical, column_type, filterable: true, policy: true, column: None }
    }

    fn model(fields: Vec<MarkedField>) -> AccessModel {
        AccessModel { version: 1, binding: None, fields }
    }

    #[track_caller]
    fn read(field: MarkedField, span: &str) -> Result<Option<FieldValue>, String> {
        let json: Json = serde_json::from_str(span).unwrap();
        let (map, name) = (field.field.map.clone(), field.field.name.clone());
        let read = spans(&[json], &model(vec![field]), "/spans");
        let read = read.map_err(|errors| format!("{} {}", errors[0].pointer, errors[0].detail))?;
        Ok(match map {
            None => read[0].get(&name).cloned(),
            Some(map) => read[0].get(&map).and_then(|map| map.value_of_key(name.as_bytes())).cloned(),
        })
    }

    #[test]
    fn values_are_read_by_the_type_of_their_column() {
        let text = |text: &str| Ok(Some(FieldValue::text(text)));
        assert_eq!(read(field(None, "S", "LowCardinality(Nullable(String))"), r#"{"S": "a"}"#), text("a"));
        assert_eq!(read(field(None, "S", "Nullable(String)"), r#"{"S": null}"#), Ok(Some(FieldValue::Null)));
        assert_eq!(read(field(None, "S", "String"), r#"{"T": 1}"#), Ok(None));
        assert_eq!(read(field(None, "F", "FixedString(3)"), r#"{"F": "a\u0000\u0000"}"#), text("a\0\0"));
        assert_eq!(read(field(None, "B", "Bool"), r#"{"B": true}"#), Ok(Some(FieldValue::Bool(true))));
        let list = Ok(Some(FieldValue::texts(["a", "b"])));
        assert_eq!(read(field(None, "A", "Array(String)"), r#"{"A": ["a", "b"]}"#), list);
        assert_eq!(read(field(None, "E.N", "Array(String)"), r#"{"E.N": ["a", "b"]}"#), list);
        assert_eq!(read(field(None, "E.N", "Array(String)"), r#"{"E": [{"N": "a"}, {"N": "b"}]}"#), list);
        // In a map that holds a key twice, the first one counts.
        assert_eq!(read(field(Some("M"), "k", "String"), r#"{"M": {"k": "1", "k": "2"}}"#), text("1"));
        assert_eq!(read(field(Some("M"), "k", "Array(String)"), r#"{"M": {"k": ["a", "b"]}}"#), list);
        assert_eq!(read(field(Some("M"), "k", "String"), r#"{"M": {}}"#), Ok(None));
        assert_eq!(read(field(None, "N", "UInt8"), r#"{"N": "no matter"}"#), Ok(None));
    }

    #[test]
    fn json_paths_are_found_with_the_type_of_their_value() {
        let at = |span: serde_json::Value| read(field(Some("J"), "a.b.c", "Dynamic"), &span.to_string());
        let text = Ok(Some(FieldValue::text("x")));
        assert_eq!(at(json!({"J": {"a": {"b": {"c": "x"}}}})), text);
        assert_eq!(at(json!({"J": {"a.b": {"c": "x"}}})), text);
        assert_eq!(at(json!({"J": {"a.b.c": "x"}})), text);
        assert_eq!(at(json!({"J": {"a": {"b": "x"}}})), Ok(None));
        assert_eq!(at(json!({"J": {"a": {"b": {"c": null}}}})), Ok(None));
        assert_eq!(at(json!({"J": {"a.b.c": false}})), Ok(Some(FieldValue::Bool(false))));
        assert_eq!(at(json!({"J": {"a.b.c": ["x"]}})), Ok(Some(FieldValue::texts(["x"]))));
        let time = "2026-11-21 07:33:26.5";
        assert_eq!(at(json!({"J": {"a.b.c": time}})), Ok(Some(FieldValue::Other(time.to_owned()))));
        assert!(["2026-11-21", "2026-11-21T07:33:26Z", "2149-01-01"].into_iter().all(is_time));
        let texts = ["1960-01-01", "2200-01-01 00:00:00", "2026-11-21x", "07:33:26", "2026-11-21 soon", ""];
        assert!(!texts.into_iter().any(is_time));
        assert_eq!(
            at(json!({"J": []})),
            Err("/spans/0/J `J` is a JSON column, which holds objects; this is an array".into())
        );
    }

    #[test]
    fn impossible_values_are_refused_with_a_pointer() {
        let refused = |column_type: &str, value: &str| {
            read(field(None, "C", column_type), &format!("{{\"C\": {value}}}")).unwrap_err()
        };
        assert_eq!(refused("String", "1"), "/spans/0/C expected a string, this is a number");
        assert!(refused("String", "null").contains("never NULL"));
        assert!(refused("Bool", "\"true\"").contains("`true` or `false`"));
        assert_eq!(
            refused("Array(String)", "[\"a\", 1]"),
            "/spans/0/C/1 expected a string, this is a number"
        );
        assert!(refused("Enum8('Server' = 1)", "\"server\"").contains("did you mean `Server`?"));
        assert!(refused("FixedString(2)", "\"abc\"").contains("2 bytes"));
        assert!(refused("UUID", "\"abc\"").contains("not a UUID"));
        let in_map = read(field(Some("M"), "a/b", "Bool"), r#"{"M": {"a/b": 1}}"#).unwrap_err();
        assert_eq!(in_map, "/spans/0/M/a~1b expected `true` or `false`, this is a number");
        assert!(read(field(Some("M"), "k", "String"), r#"{"M": []}"#).unwrap_err().contains("is a map"));
        let nested = read(field(None, "E.N", "Array(String)"), r#"{"E": [{"N": "a"}, {}]}"#).unwrap_err();
        assert!(nested.starts_with("/spans/0/E/1/N "), "{nested}");
        assert!(spans(&[Json::Null], &model(Vec::new()), "").unwrap_err()[0].detail.contains("an object"));
    }
}
