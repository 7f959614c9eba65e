//! Converts attribute values to text as the Collector's ClickHouse exporter does.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use indexmap::IndexMap;

use super::messages::{AnyValue, KeyValue, Value, text};

/// Returns the text that the exporter stores for a double that JSON cannot represent.
fn unsupported_double(value: f64) -> String {
    let name = if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "+Inf"
    } else {
        "-Inf"
    };
    format!("json: unsupported value: {name}")
}

/// Converts a value to text: strings unchanged, numbers and booleans as in JSON, bytes as base64, lists and maps as
/// JSON.
pub fn as_text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        None => String::new(),
        Some(Value::String(bytes)) => text(bytes).into_owned(),
        Some(Value::Double(value)) if !value.is_finite() => unsupported_double(*value),
        Some(Value::Bytes(bytes)) => STANDARD.encode(bytes),
        // JSON cannot represent NaN; for a list or map with it, the exporter writes an empty text.
        value => as_json(value).unwrap_or_default(),
    }
}

/// Returns a value as JSON; `None` if it contains a number that JSON cannot represent.
fn as_json(value: Option<&Value>) -> Option<String> {
    Some(match value {
        None => "null".to_owned(),
        Some(Value::String(bytes)) => json_string(&text(bytes)),
        Some(Value::Bool(value)) => value.to_string(),
        Some(Value::Int(value)) => value.to_string(),
        Some(Value::Double(value)) => value.is_finite().then(|| number(*value))?,
        Some(Value::Bytes(bytes)) => json_string(&STANDARD.encode(bytes)),
        Some(Value::Array(array)) => {
            let items = array.values.iter().map(|item| as_json(item.value.as_ref()));
            format!("[{}]", items.collect::<Option<Vec<_>>>()?.join(","))
        }
        Some(Value::Map(list)) => {
            // Sorted by key; of several values for a key, the last one remains.
            let entries: BTreeMap<Cow<'_, str>, Option<&Value>> = list
                .values
                .iter()
                .map(|entry| (text(&entry.key), entry.value.as_ref().and_then(|value| value.value.as_ref())))
                .collect();
            let entries = entries
                .into_iter()
                .map(|(key, value)| Some(format!("{}:{}", json_string(&key), as_json(value)?)));
            format!("{{{}}}", entries.collect::<Option<Vec<_>>>()?.join(","))
        }
    })
}

/// Formats a number as ECMAScript does.
fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        return match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
            _ => text,
        };
    }
    value.to_string()
}

/// Returns a JSON string with the escapes of Go's encoder, which the exporter uses.
fn json_string(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    ['<', '>', '&', '\u{2028}', '\u{2029}']
        .into_iter()
        .fold(json, |json, character| json.replace(character, &format!("\\u{:04x}", u32::from(character))))
}

/// Returns the attributes in order, by key. The last value for a key replaces the first one, in its position.
pub fn deduplicated(attributes: &[KeyValue]) -> IndexMap<Cow<'_, str>, Option<&AnyValue>> {
    // Compares the stored texts: two keys that are not UTF-8 may become equal.
    attributes.iter().map(|attribute| (text(&attribute.key), attribute.value.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::messages::{ArrayValue, KeyValueList};

    fn any(value: Value) -> AnyValue {
        AnyValue { value: Some(value) }
    }

    fn stored(value: Value) -> String {
        as_text(Some(&any(value)))
    }

    #[test]
    fn scalars() {
        assert_eq!(stored(Value::String("a\"b".into())), "a\"b");
        assert_eq!(stored(Value::Bool(true)), "true");
        assert_eq!(stored(Value::Int(-5)), "-5");
        assert_eq!(stored(Value::Bytes(vec![255, 0].into())), "/wA=");
        assert_eq!(as_text(None), "");
        for (value, expected) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-7"),
            (-2.5e300, "-2.5e+300"),
            (0.0, "0"),
        ] {
            assert_eq!(stored(Value::Double(value)), expected);
        }
        assert_eq!(stored(Value::Double(f64::NEG_INFINITY)), "json: unsupported value: -Inf");
    }

    #[test]
    fn lists_and_maps() {
        let list = Value::Array(ArrayValue {
            values: vec![any(Value::Int(1)), AnyValue::default(), any(Value::String("<é\u{1}".into()))],
        });
        assert_eq!(stored(list.clone()), "[1,null,\"\\u003cé\\u0001\"]");
        let entry = |key: &'static str, value| KeyValue { key: key.into(), value: Some(any(value)) };
        let map = Value::Map(KeyValueList {
            values: vec![entry("b", Value::Double(0.5)), entry("a", list), entry("b", Value::Bool(false))],
        });
        assert_eq!(stored(map), "{\"a\":[1,null,\"\\u003cé\\u0001\"],\"b\":false}");
        let not_json = Value::Array(ArrayValue { values: vec![any(Value::Double(f64::NAN))] });
        assert_eq!(stored(not_json), "");
    }
}
