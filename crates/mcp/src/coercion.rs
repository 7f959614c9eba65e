//! Accepts arguments in the forms that models send: numbers and lists as text, a single value instead of a list, empty
//! texts for omitted arguments. Every unambiguous form is accepted. Others are rejected with a message that helps the
//! model to correct them, based on the tool's schema.

use itertools::Itertools as _;
use rmcp::model::JsonObject;
use serde_json::{Map, Value};
use tracewarden_model::nearest::nearest;
use tracewarden_model::{Decimal, InvalidDecimal};

use crate::bounded_json::{Bounds, Json};
use crate::failure::Failure;
use crate::span_text::one_line;

/// Maximum number of characters that a message quotes from an argument.
const MAX_QUOTED: usize = 60;

/// Converts arguments to the types of a tool's schema. Numbers that a double cannot hold become texts with their
/// digits.
///
/// # Errors
/// The first argument that is unknown, missing or of another type, with the expected type.
pub(crate) fn coerce(schema: &JsonObject, sent: Json) -> Result<JsonObject, Failure> {
    let members = match unwrap_json_text(sent, '{') {
        Json::Object { first, .. } => first,
        Json::Null | Json::List { count: 0, .. } => Vec::new(),
        other => {
            let detail = format!("the arguments are one object, such as {{}}; {} was sent", kind(&other));
            return Err(Failure::argument("", detail));
        }
    };
    object(schema, members, "")
}

fn object(schema: &JsonObject, sent: Vec<(String, Json)>, path: &str) -> Result<JsonObject, Failure> {
    let none = Map::new();
    let known = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
    let mut members = Map::new();
    for (name, value) in sent {
        let path = child_path(path, &name);
        let Some(schema) = known.get(&name) else {
            return Err(Failure::argument(&path, unknown_argument(&name, known)));
        };
        if !is_required(&name) && is_omitted(schema, &value) {
            continue;
        }
        members.insert(name, coerce_value(schema, value, &path)?);
    }
    if let Some((name, schema)) =
        known.iter().find(|(name, _)| is_required(name) && !members.contains_key(*name))
    {
        let about = schema.get("description").and_then(Value::as_str).map(|text| format!(": {text}"));
        let detail = format!("this argument is required{}", about.unwrap_or_default());
        return Err(Failure::argument(&child_path(path, name), detail));
    }
    Ok(members)
}

fn child_path(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn unknown_argument(name: &str, known: &Map<String, Value>) -> String {
    let suggestion = did_you_mean(name, known.keys().map(String::as_str));
    format!("there is no such argument{suggestion} Known are {}", known.keys().join(", "))
}

/// Ends a sentence about an unknown name with the known name that resembles it most, if any does.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let near = nearest(name, known);
    near.first().map_or_else(|| ".".to_owned(), |near| format!("; did you mean `{near}`?"))
}

/// Whether an optional argument is omitted. An empty text counts as omitted only if the schema gives a type, because
/// the value of a condition may be an empty text.
fn is_omitted(schema: &Value, sent: &Json) -> bool {
    match sent {
        Json::Null => true,
        Json::Text { start, .. } => match type_of(schema) {
            "" => false,
            "string" => start.is_empty(),
            _ => start.trim().is_empty(),
        },
        _ => false,
    }
}

fn coerce_value(schema: &Value, sent: Json, path: &str) -> Result<Value, Failure> {
    let refused = |sent: &Json| wrong_form(&expected_form(schema), sent, path);
    let read = match type_of(schema) {
        "integer" => {
            return integer(&sent).map(Value::from).map_err(|expected| wrong_form(expected, &sent, path));
        }
        "string" => text(schema, &sent).map(Value::from),
        "array" => return list(schema, sent, path),
        "object" => {
            let sent = unwrap_json_text(sent, '{');
            let Json::Object { first, .. } = sent else { return Err(refused(&sent)) };
            let schema = schema.as_object().cloned().unwrap_or_default();
            return Ok(Value::Object(object(&schema, first, path)?));
        }
        // The value of a condition. The type of the field determines which types are valid.
        _ => {
            return match sent {
                Json::Null | Json::List { .. } | Json::Object { .. } => {
                    Err(wrong_form("a string, a number or a boolean", &sent, path))
                }
                value => Ok(value.into_value()),
            };
        }
    };
    read.ok_or_else(|| refused(&sent))
}

/// Converts the elements of a list. A single value counts as a list of one element, and objects in a list of lists as one list.
fn list(schema: &Value, sent: Json, path: &str) -> Result<Value, Failure> {
    let none = Value::Null;
    let items = schema.get("items").unwrap_or(&none);
    let of_objects = type_of(items) == "object";
    let elements = match unwrap_json_text(unwrap_json_text(sent, '['), if of_objects { '{' } else { '[' }) {
        Json::List { first, .. } => first,
        other if other == Json::Null || of_objects && matches!(other, Json::Text { .. }) => {
            return Err(wrong_form(&expected_form(schema), &other, path));
        }
        single => vec![single],
    };
    if type_of(items) == "array"
        && elements.len() > 1
        && elements.iter().any(|element| matches!(element, Json::Object { .. }))
    {
        let one = Json::List { count: elements.len(), first: elements };
        return Ok(Value::Array(vec![list(items, one, path)?]));
    }
    let elements = elements.into_iter().enumerate();
    elements.map(|(at, element)| coerce_value(items, element, &format!("{path}[{at}]"))).collect()
}

fn wrong_form(expected: &str, sent: &Json, path: &str) -> Failure {
    Failure::argument(path, format!("{expected} is needed here; {} was sent", kind(sent)))
}

/// Parses a text as JSON if it begins with `begin`; otherwise returns the value unchanged.
fn unwrap_json_text(sent: Json, begin: char) -> Json {
    let Json::Text { start, .. } = &sent else { return sent };
    if !start.trim_start().starts_with(begin) {
        return sent;
    }
    Json::read(start, Bounds::NONE).unwrap_or(sent)
}

/// Parses an integer, also from text, or with a fraction of zeros or an exponent.
///
/// # Errors
/// The expected form.
fn integer(sent: &Json) -> Result<i64, &'static str> {
    const WHOLE: &str = "a whole number such as 10";
    const TOO_LARGE: &str = "the number is too large for this argument: a whole number such as 10";
    let text = match sent {
        Json::Number(number) => number.to_string(),
        Json::Text { start, .. } => start.trim().to_owned(),
        _ => return Err(WHOLE),
    };
    match Decimal::parse(&text).map(|number| number.floor()) {
        Ok((whole, true)) => whole.to_string().parse().map_err(|_| TOO_LARGE),
        Err(InvalidDecimal::TooLarge) => Err(TOO_LARGE),
        Ok((_, false)) | Err(InvalidDecimal::TooSmall | InvalidDecimal::TooLong) => Err(WHOLE),
        // Such as `+5` and `05`, which are not valid JSON numbers.
        Err(InvalidDecimal::NotANumber) => text.parse().map_err(|_| WHOLE),
    }
}

/// Converts to text. Also accepts a number that consists of digits only. If the schema has choices, ignores letter
/// case.
fn text(schema: &Value, sent: &Json) -> Option<String> {
    let text = match sent {
        Json::Text { start, .. } => start.clone(),
        Json::Number(number) if number.is_u64() => number.to_string(),
        _ => return None,
    };
    let Some(choices) = schema.get("enum").and_then(Value::as_array) else { return Some(text) };
    let mut choices = choices.iter().filter_map(Value::as_str);
    choices.find(|choice| text.trim().eq_ignore_ascii_case(choice)).map(str::to_owned)
}

fn expected_form(schema: &Value) -> String {
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        let names = choices.iter().map(|name| format!("`{}`", name.as_str().unwrap_or_default())).join(", ");
        return format!("one of {names}");
    }
    let form = match (type_of(schema), schema.get("items").map(type_of)) {
        ("string", _) => "a text in quotation marks",
        ("array", Some("object")) => "a list of objects such as [{…}]",
        ("array", Some("string")) => "a list of texts such as [\"a\", \"b\"]",
        ("array", _) => "a list such as [\"a\", 1]",
        _ => "an object such as {…}",
    };
    form.to_owned()
}

fn type_of(schema: &Value) -> &str {
    schema.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Describes the given value.
fn kind(sent: &Json) -> String {
    match sent {
        Json::Null => "null".to_owned(),
        Json::Bool(value) => format!("`{value}`"),
        Json::Number(number) => format!("the number {number}"),
        // A number with many digits is text (`digits.rs`), so the original type is unknown.
        Json::Text { start, .. } if is_number(start) => format!("`{}`", one_line(start, MAX_QUOTED)),
        Json::Text { start, .. } => format!("the text `{}`", one_line(start, MAX_QUOTED)),
        Json::List { .. } => "a list".to_owned(),
        Json::Object { .. } => "an object".to_owned(),
    }
}

fn is_number(text: &str) -> bool {
    Decimal::parse(text) != Err(InvalidDecimal::NotANumber)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tracewarden_service::Tool;

    use super::*;
    use crate::catalogue::tool_definition;

    fn sent(tool: Tool, arguments: &str) -> Result<Value, String> {
        let arguments = Json::read(arguments, Bounds::NONE).unwrap();
        coerce(&tool_definition(tool).input_schema, arguments)
            .map(Value::Object)
            .map_err(|failure| failure.text())
    }

    #[test]
    fn unambiguous_arguments_are_coerced() {
        let check = |tool: Tool, arguments: &str, read: Value| {
            assert_eq!(sent(tool, arguments), Ok(read), "{arguments}");
        };
        let query = Tool::QueryTraces;
        for limit in ["5", "\"5\"", "5.0", "\" 5.00 \"", "0.5e1", "\"50e-1\"", "\"+5\""] {
            check(query, &format!("{{\"limit\": {limit}}}"), json!({"limit": 5}));
        }
        for nothing in
            ["{}", "null", "[]", "\"{}\"", r#"{"cursor": "", "last": null, "conditions": "", "limit": " "}"#]
        {
            check(query, nothing, json!({}));
        }
        let conditions = json!({"conditions": [{"ref": "A", "op": "eq", "value": ""}]});
        for text in [
            r#"{"conditions": [{"ref": "A", "op": "eq", "value": "", "map": "", "values": null}]}"#,
            r#"{"conditions": {"ref": "A", "op": "eq", "value": ""}}"#,
            r#"{"conditions": "[{\"ref\": \"A\", \"op\": \"eq\", \"value\": \"\"}]"}"#,
            r#"{"conditions": "{\"ref\": \"A\", \"op\": \"eq\", \"value\": \"\"}"}"#,
            r#"{"conditions": ["{\"ref\": \"A\", \"op\": \"eq\", \"value\": \"\"}"]}"#,
            r#""{\"conditions\": {\"ref\": \"A\", \"op\": \"eq\", \"value\": \"\"}}""#,
        ] {
            check(query, text, conditions.clone());
        }
        let [one, two] = ["A", "B"].map(|name| json!({"ref": name, "op": "exists"}));
        for (sent, groups) in [
            (json!(one), json!([[one]])),
            (json!([one]), json!([[one]])),
            (json!([one, two]), json!([[one, two]])),
            (json!([[one], [two]]), json!([[one], [two]])),
        ] {
            check(query, &json!({ "same_span": sent }).to_string(), json!({ "same_span": groups }));
        }
        assert!(self::sent(query, &json!({ "same_span": [one, [two]] }).to_string()).is_err());
        let values = r#"{"conditions": [{"ref": "A", "op": "in", "values": "a"}, {"ref": "A", "op": "in", "values": "[1, \"b\"]"}]}"#;
        let read = json!({"conditions": [{"ref": "A", "op": "in", "values": ["a"]}, {"ref": "A", "op": "in", "values": [1, "b"]}]});
        check(query, values, read);
        let exact = r#"{"conditions": [{"ref": "A", "op": "eq", "value": 12345678901234.5678}]}"#;
        let read = json!({"conditions": [{"ref": "A", "op": "eq", "value": "12345678901234.5678"}]});
        check(query, exact, read);
        let spans = json!({"trace_id": "12345678901234567890123456789012", "span_ids": ["b"]});
        check(Tool::GetSpans, r#"{"trace_id": 12345678901234567890123456789012, "span_ids": "b"}"#, spans);
        check(
            Tool::GetSpans,
            r#"{"trace_id": "", "span_ids": "[\"b\", 7]"}"#,
            json!({"trace_id": "", "span_ids": ["b", "7"]}),
        );
        check(
            Tool::GetTrace,
            r#"{"trace_id": "a", "view": " Errors ", "root": ""}"#,
            json!({"trace_id": "a", "view": "errors"}),
        );
    }

    #[test]
    fn errors_show_the_expected_form() {
        let check = |tool: Tool, arguments: &str, text: &str| {
            let refused = sent(tool, arguments).unwrap_err();
            assert_eq!(refused, format!("error invalid_request: {text}\nretry: never"));
        };
        let query = Tool::QueryTraces;
        check(
            query,
            r#"{"limit": "ten"}"#,
            "limit: a whole number such as 10 is needed here; the text `ten` was sent",
        );
        check(
            query,
            r#"{"limit": 5.5}"#,
            "limit: a whole number such as 10 is needed here; the number 5.5 was sent",
        );
        check(
            query,
            r#"{"limit": 1e300}"#,
            "limit: the number is too large for this argument: a whole number such as 10 is needed here; the number 1e+300 was sent",
        );
        for digits in ["99999999999999999999", "-9223372036854775809", "1e400"] {
            check(
                query,
                &format!("{{\"limit\": \"{digits}\"}}"),
                &format!(
                    "limit: the number is too large for this argument: a whole number such as 10 is needed here; `{digits}` was sent"
                ),
            );
        }
        check(
            query,
            r#"{"limit": "5.5"}"#,
            "limit: a whole number such as 10 is needed here; `5.5` was sent",
        );
        check(
            query,
            r#"{"conditions": "service = a"}"#,
            "conditions: a list of objects such as [{…}] is needed here; the text `service = a` was sent",
        );
        check(
            query,
            r#"{"conditions": [[]]}"#,
            "conditions[0]: an object such as {…} is needed here; a list was sent",
        );
        check(
            query,
            r#"{"conditions": [{"ref": "a", "op": "eq", "value": [1]}]}"#,
            "conditions[0].value: a string, a number or a boolean is needed here; a list was sent",
        );
        check(
            query,
            r#"{"limti": 5}"#,
            "limti: there is no such argument; did you mean `limit`? Known are conditions, same_span, none, from, to, last, order, limit, cursor, max_tokens",
        );
        check(
            Tool::GetTrace,
            r#"{"trace_id": "a", "view": "tree"}"#,
            "view: one of `outline`, `errors`, `slowest`, `full` is needed here; the text `tree` was sent",
        );
        check(Tool::GetTrace, "7", "the arguments are one object, such as {}; the number 7 was sent");
        assert!(
            sent(Tool::GetTrace, "{}")
                .unwrap_err()
                .starts_with("error invalid_request: trace_id: this argument is required")
        );
    }
}
