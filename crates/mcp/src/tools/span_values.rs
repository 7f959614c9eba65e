//! The values of spans, cut to what is worth reading: empty ones left out, long ones with their length.

use serde_json::{Map, Value};

use crate::span_text::one_line;

/// How much is said of a span.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Detail {
    /// Characters of a value.
    characters: usize,
    /// Values, those under keys of maps included.
    values: usize,
    /// Elements of lists, and members of objects in them.
    elements: usize,
}

impl Detail {
    /// All that there is; but for what stands in no answer, empty values and characters that nobody sees.
    pub(crate) const WHOLE: Self = Self { characters: usize::MAX, values: usize::MAX, elements: usize::MAX };
}

/// What is tried until everything fits: shorter values, then fewer.
pub(crate) const DETAILS: [Detail; 11] = [
    Detail { characters: 4_000, values: 500, elements: 100 },
    Detail { characters: 2_000, values: 200, elements: 50 },
    Detail { characters: 1_000, values: 100, elements: 20 },
    Detail { characters: 500, values: 100, elements: 20 },
    Detail { characters: 250, values: 60, elements: 10 },
    Detail { characters: 120, values: 60, elements: 10 },
    Detail { characters: 120, values: 24, elements: 5 },
    Detail { characters: 120, values: 12, elements: 3 },
    Detail { characters: 200, values: 7, elements: 2 },
    Detail { characters: 120, values: 6, elements: 2 },
    Detail { characters: 60, values: 5, elements: 1 },
];

/// Under this name stands how many values were left out.
const LEFT_OUT: &str = "…";

/// A span as an object; empty when the line is none.
pub(crate) fn parsed(line: &str) -> Map<String, Value> {
    match serde_json::from_str(line) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

/// A span with long values cut, and when there are many, those left out that say least of what went wrong. What is said
/// of something being cut is a text where the value was another kind.
pub(crate) fn cut(span: &Map<String, Value>, detail: Detail) -> Map<String, Value> {
    shortened(&telling(span, detail.values), detail, usize::MAX)
}

/// The id that a span has.
pub(crate) fn id_of(span: &Map<String, Value>, column: &str) -> String {
    span.get(column).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// So many of a span's values: ids, names and what is said of failures first, then the others as they come.
fn telling(span: &Map<String, Value>, most: usize) -> Map<String, Value> {
    let entries: Vec<(&String, Option<&String>, &Value)> = span
        .iter()
        .filter(|(_, value)| !is_empty(value))
        .flat_map(|(name, value)| match value {
            Value::Object(members) => members
                .iter()
                .filter(|(_, value)| !is_empty(value))
                .map(|(key, value)| (name, Some(key), value))
                .collect(),
            value => vec![(name, None, value)],
        })
        .collect();
    if entries.len() <= most {
        return span.clone();
    }
    // What says why, what the span is, what it worked on; and last where it ran, which many spans say alike.
    let rank = |map: &str, key: Option<&String>, value: &Value| {
        let says = |text: &str, words: &[&str]| {
            let text = text.to_lowercase();
            words.iter().any(|word| text.contains(word))
        };
        let failure = ["exception", "error", "status", "message"];
        if says(key.map_or(map, String::as_str), &failure) || value.to_string().contains("\"exception.") {
            0
        } else if says(map, &["resource", "scope", "traceid", "trace_id"]) {
            3
        } else if key.is_none() {
            1
        } else {
            2
        }
    };
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|at| entries.get(*at).map(|(map, key, value)| rank(map, *key, value)));
    order.truncate(most);
    order.sort_unstable();
    let mut kept = Map::new();
    for (name, key, value) in order.into_iter().filter_map(|at| entries.get(at)) {
        match key {
            None => _ = kept.insert((*name).clone(), (*value).clone()),
            Some(key) => {
                let members = kept.entry((*name).clone()).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(members) = members {
                    members.insert((*key).clone(), (*value).clone());
                }
            }
        }
    }
    kept.insert(LEFT_OUT.to_owned(), format!("{} values left out", entries.len() - most).into());
    kept
}

/// With so many members at most.
fn shortened(span: &Map<String, Value>, detail: Detail, members: usize) -> Map<String, Value> {
    let told = span.iter().filter(|(_, value)| !is_empty(value));
    let mut kept: Map<String, Value> = told
        .clone()
        .take(members)
        .map(|(name, value)| (one_line(name, 256), shorter(value, detail)))
        .collect();
    let all = told.count();
    if all > members {
        kept.insert(LEFT_OUT.to_owned(), format!("{} values left out", all - members).into());
    }
    kept
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn shorter(value: &Value, detail: Detail) -> Value {
    match value {
        Value::String(text) => Value::String(one_line(text, detail.characters)),
        Value::Array(list) => {
            let mut shown: Vec<Value> = list
                .iter()
                .take(detail.elements)
                .map(|value| match value {
                    Value::Object(members) => Value::Object(shortened(members, detail, detail.elements)),
                    other => shorter(other, detail),
                })
                .collect();
            if list.len() > detail.elements {
                shown.push(Value::String(format!("… ({} elements)", list.len())));
            }
            Value::Array(shown)
        }
        // How many there are is counted with the span's values.
        Value::Object(members) => Value::Object(shortened(members, detail, usize::MAX)),
        other => other.clone(),
    }
}

/// The lines of a cut span, a value each.
pub(crate) fn lines(span: &Map<String, Value>) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, value) in span {
        match value {
            Value::Object(members) => {
                lines.extend(members.iter().map(|(key, value)| format!("  {name}.{key}: {}", bare(value))));
            }
            other => lines.push(format!("  {name}: {}", bare(other))),
        }
    }
    lines
}

fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What a span says of why it failed: the status's message, or the exception's type and message, wherever the table has
/// them under the names of OpenTelemetry's conventions.
pub(crate) fn message(span: &Map<String, Value>) -> Option<String> {
    let named = |name: &str| deep(span, name).filter(|text| !text.is_empty());
    let exception = match (named("exception.type"), named("exception.message")) {
        (Some(kind), Some(message)) => Some(format!("{kind}: {message}")),
        (kind, message) => message.or(kind).map(str::to_owned),
    };
    let status =
        ["StatusMessage", "status_message", "error.message", "error.type"].into_iter().find_map(named);
    match (status, exception) {
        (Some(status), Some(exception)) if !exception.contains(status) => {
            Some(format!("{status} ({exception})"))
        }
        (status, exception) => exception.or_else(|| status.map(str::to_owned)),
    }
}

/// The first text of this name, at any depth.
fn deep<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    if let Some(text) = members.get(name).and_then(Value::as_str) {
        return Some(text);
    }
    fn within<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
        match value {
            Value::Object(members) => deep(members, name),
            Value::Array(list) => list.iter().find_map(|value| within(value, name)),
            _ => None,
        }
    }
    members.values().find_map(|value| within(value, name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn span(value: Value) -> Map<String, Value> {
        parsed(&value.to_string())
    }

    #[test]
    fn long_values_are_cut_and_empty_ones_left_out() {
        let long = "x".repeat(1_000);
        let given = span(json!({"a": long, "b": "", "c": [], "d": {}, "e": 0, "f": false, "g": null,
            "h": {"k": "y\nz", "l": ""}, "i": vec![1; 30]}));
        let cut = cut(&given, Detail { characters: 10, elements: 20, ..Detail::WHOLE });
        assert_eq!(cut["a"], "xxxxxxxxxx… (1000 characters)");
        assert_eq!(cut.keys().collect::<Vec<_>>(), ["a", "e", "f", "h", "i"]);
        assert_eq!(cut["h"], json!({"k": "y\\nz"}));
        assert_eq!((cut["i"].as_array().unwrap().len(), &cut["i"][20]), (21, &json!("… (30 elements)")));
        assert_eq!(lines(&cut)[1..4], ["  e: 0", "  f: false", "  h.k: y\\nz"]);
        assert_eq!(parsed("not a span"), Map::new());
    }

    #[test]
    fn events_that_say_why_stay() {
        let events = json!([{"exception.message": "no answer"}]);
        let given = span(json!({"Id": "1", "Events": events, "StatusMessage": "", "A": "a", "B": "b"}));
        assert!(cut(&given, Detail { values: 1, ..Detail::WHOLE }).contains_key("Events"));
    }

    #[test]
    fn of_many_values_those_stay_that_say_what_went_wrong() {
        let given = span(
            json!({"ScopeName": "z", "SpanId": "1", "Attributes": {"a": "x", "error.type": "500", "b": ""}, "StatusMessage": "down"}),
        );
        let told = cut(&given, Detail { values: 3, ..Detail::WHOLE });
        let expected = json!({"SpanId": "1", "Attributes": {"error.type": "500"}, "StatusMessage": "down", "…": "2 values left out"});
        assert_eq!(Value::Object(told), expected);
        let five = cut(&given, Detail { values: 5, ..Detail::WHOLE });
        assert_eq!(five, cut(&given, Detail::WHOLE));
    }

    #[test]
    fn a_message_is_found_wherever_conventions_put_it() {
        let check =
            |given: Value, expected: Option<&str>| assert_eq!(message(&span(given)).as_deref(), expected);
        check(json!({"StatusMessage": ""}), None);
        check(json!({"StatusMessage": "declined"}), Some("declined"));
        let events = json!([{}, {"exception.type": "Timeout", "exception.message": "no answer"}]);
        check(json!({"StatusMessage": "", "Events.Attributes": events}), Some("Timeout: no answer"));
        check(json!({"StatusMessage": "no answer", "Events.Attributes": events}), Some("Timeout: no answer"));
        check(
            json!({"StatusMessage": "failed", "Events.Attributes": events}),
            Some("failed (Timeout: no answer)"),
        );
        check(json!({"SpanAttributes": {"error.type": "500"}}), Some("500"));
    }
}
