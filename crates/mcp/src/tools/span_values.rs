//! The values of spans, reduced to the relevant ones: without empty values, long values truncated with their length.

use serde_json::{Map, Value};
use tracewarden_model::Binding;
use tracewarden_service::{SchemaEcho, SpanLine};

use super::run_blocking;
use crate::answer::Meter;
use crate::bounded_json::{Bounds, Json, WatchedMembers, members};
use crate::digits::quote_inexact_numbers;
use crate::span_text::{NO_NAME, one_line, truncated_line};

/// Level of detail for a span.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValueLimits {
    /// Maximum number of characters of a value.
    pub(crate) characters: usize,
    /// Maximum number of values, including those under keys of maps.
    pub(crate) values: usize,
    /// Maximum number of elements of lists, and of members of objects in them.
    pub(crate) elements: usize,
}

/// Maximum level of detail.
const WIDEST_LIMITS: ValueLimits = ValueLimits { characters: 4_000, values: 500, elements: 100 };

/// Levels that are tried in this order until everything fits: shorter values, then fewer.
pub(crate) const VALUE_LIMITS: [ValueLimits; 11] = [
    WIDEST_LIMITS,
    ValueLimits { characters: 2_000, values: 200, elements: 50 },
    ValueLimits { characters: 1_000, values: 100, elements: 20 },
    ValueLimits { characters: 500, values: 100, elements: 20 },
    ValueLimits { characters: 250, values: 60, elements: 10 },
    ValueLimits { characters: 120, values: 60, elements: 10 },
    ValueLimits { characters: 120, values: 24, elements: 5 },
    ValueLimits { characters: 120, values: 12, elements: 3 },
    ValueLimits { characters: 200, values: 7, elements: 2 },
    ValueLimits { characters: 120, values: 6, elements: 2 },
    ValueLimits { characters: 60, values: 5, elements: 1 },
];

/// Name under which the number of omitted values is shown.
const OMITTED_KEY: &str = "…";

/// Name of the mark for a duration that counts as 0, because it is negative or not a number of nanoseconds.
const DURATION_INVALID: &str = "duration_invalid";

/// Attributes with the reason of a failure, if the table uses the names of OpenTelemetry's semantic conventions.
const EXCEPTION: [&str; 2] = ["exception.type", "exception.message"];
const STATUS: [&str; 4] = ["StatusMessage", "status_message", "error.message", "error.type"];

/// Columns of the table that have a special meaning.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    id: String,
    /// Column of operation names, if known.
    name: Option<String>,
}

impl Columns {
    pub(crate) fn new(binding: &Binding) -> Self {
        Self { id: binding.span_id.clone(), name: binding.display.name.clone() }
    }

    /// Columns of the table that the OpenTelemetry exporter creates.
    #[cfg(test)]
    pub(crate) fn exporter_default() -> Self {
        Self { id: "SpanId".to_owned(), name: Some("SpanName".to_owned()) }
    }
}

/// A value of a span: of a column, or under a key of a map column.
#[derive(Debug, Clone)]
struct Entry {
    column: String,
    key: Option<String>,
    value: Json,
    rank: usize,
}

/// Ranks of values by relevance to a failure: its reason, the span itself, its attributes, and last the resource,
/// which many spans share.
const RANKS: usize = 4;

/// A span: for each rank its first non-empty values, as many as can be shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct SpanValues {
    /// The span's id.
    pub(crate) id: String,
    /// In the order of the table's columns.
    entries: Vec<Entry>,
    /// Number of non-empty values.
    count: usize,
    /// Number of kept values of each rank.
    kept_count: [usize; RANKS],
    duration_invalid: bool,
    watched: WatchedMembers,
}

/// A span as shown in a response.
pub(crate) struct ShownValues {
    pub(crate) values: Map<String, Value>,
    /// Whether all values of the span are shown completely.
    pub(crate) whole: bool,
}

/// Returns the names of columns that were omitted because the call named no columns: some names, then the number of
/// others.
pub(crate) fn omitted(schema: &SchemaEcho) -> Vec<String> {
    const NAMED: usize = 10;
    let names = schema.omitted_columns.as_deref().unwrap_or_default();
    let mut omitted: Vec<String> = names.iter().take(NAMED).map(|name| one_line(name, 64)).collect();
    if names.len() > NAMED {
        omitted.push(format!("… {} more", names.len() - NAMED));
    }
    omitted
}

/// Formats the names of omitted columns; empty if there are none.
pub(crate) fn omitted_text(omitted: &[String]) -> String {
    if omitted.is_empty() {
        return String::new();
    }
    format!("columns that are shown only where `columns` names them: {}\n", omitted.join(", "))
}

/// Parses spans one by one and yields in between, so that a client disconnect is noticed.
pub(crate) async fn read_all(lines: Vec<SpanLine>, columns: &Columns) -> Vec<SpanValues> {
    let mut spans = Vec::with_capacity(lines.len());
    for line in lines {
        let span = run_blocking(|| SpanValues::read(&line.json, columns));
        spans.push(SpanValues { duration_invalid: line.duration_invalid, ..span });
        tokio::task::yield_now().await;
    }
    spans
}

impl SpanValues {
    /// Parses a span from its JSON object; returns a span without values if the line is invalid.
    pub(crate) fn read(line: &str, columns: &Columns) -> Self {
        let mut span = Self::default();
        if span.fill(line, columns).is_some() { span } else { Self::default() }
    }

    /// Creates a span of which only the id is known, with the reason.
    pub(crate) fn unread(columns: &Columns, id: &str, why: &str) -> Self {
        let entry = |column: &str, value: &str| Entry {
            column: column.to_owned(),
            key: None,
            value: Json::text(value),
            rank: 1,
        };
        let entries = vec![entry(&columns.id, id), entry(OMITTED_KEY, why)];
        Self { id: id.to_owned(), count: entries.len(), entries, ..Self::default() }
    }

    fn fill(&mut self, line: &str, columns: &Columns) -> Option<()> {
        let line = quote_inexact_numbers(line);
        self.watched.named = EXCEPTION.into_iter().chain(STATUS).map(|name| (name, None)).collect();
        members(&line, |column, value| {
            if value.starts_with('{') {
                return members(value, |key, value| self.add(columns, &column, Some(key), value));
            }
            self.add(columns, &column, None, value)
        })
    }

    /// Parses a value, and keeps it if its rank has space.
    fn add(&mut self, columns: &Columns, column: &str, key: Option<String>, value: &str) -> Option<()> {
        const BOUNDS: Bounds = Bounds {
            characters: WIDEST_LIMITS.characters,
            elements: WIDEST_LIMITS.elements,
            empty_members: false,
        };
        self.watched.exception = key.as_ref().is_some_and(|key| key.starts_with("exception."));
        let depth = if key.is_some() { 2 } else { 1 };
        let value = Json::read_part(value, BOUNDS, depth, &mut self.watched)?;
        self.watched.record(depth, key.as_deref().unwrap_or(column), &value);
        if let (Json::Text { start, .. }, None) = (&value, &key)
            && *column == columns.id
        {
            self.id.clone_from(start);
        }
        // An empty span name is relevant; other empty values are not.
        let is_name = key.is_none() && columns.name.as_deref() == Some(column);
        if value.is_empty() && !is_name {
            return Some(());
        }
        self.count += 1;
        let rank = rank(column, key.as_deref(), self.watched.exception);
        if let Some(kept_count) = self.kept_count.get_mut(rank)
            && *kept_count < WIDEST_LIMITS.values
        {
            *kept_count += 1;
            self.entries.push(Entry { column: column.to_owned(), key, value, rank });
        }
        Some(())
    }

    /// Returns the span with long values truncated. If there are too many values, the least relevant ones to a failure
    /// are omitted. A note about truncation is a text, even if the value has another type. Stops when the meter is
    /// exceeded.
    pub(crate) fn shown(&self, limits: ValueLimits, meter: &Meter) -> ShownValues {
        let mut shown = ShownValues { values: Map::new(), whole: self.count <= limits.values };
        let mut kept: Vec<(usize, &Entry)> = self.entries.iter().enumerate().collect();
        if !shown.whole {
            kept.sort_by_key(|(_, entry)| entry.rank);
            kept.truncate(limits.values);
            kept.sort_by_key(|(index, _)| *index);
        }
        for (_, Entry { column, key, value, .. }) in kept {
            if meter.is_exceeded() {
                break;
            }
            let column = one_line(column, 256);
            let value = cut(value, limits, meter, &mut shown.whole);
            match key {
                None => _ = shown.values.insert(column, value),
                Some(key) => {
                    let members = shown.values.entry(column).or_insert_with(|| Value::Object(Map::new()));
                    if let Value::Object(members) = members {
                        members.insert(one_line(key, 256), value);
                    }
                }
            }
        }
        if self.duration_invalid {
            shown.values.insert(DURATION_INVALID.to_owned(), Value::Bool(true));
        }
        if self.count > limits.values {
            let left = self.count - limits.values;
            shown.values.insert(OMITTED_KEY.to_owned(), format!("{left} values left out").into());
        }
        shown
    }

    /// Returns the reason of the failure: the status message, or type and message of the exception.
    pub(crate) fn message(&self) -> Option<String> {
        let named = |name: &str| self.watched.named.get(name)?.as_ref().map(|(_, text)| text.as_str());
        let [kind, message] = EXCEPTION.map(named);
        let exception = match (kind, message) {
            (Some(kind), Some(message)) => Some(format!("{kind}: {message}")),
            (kind, message) => message.or(kind).map(str::to_owned),
        };
        let status = STATUS.into_iter().find_map(named);
        match (status, exception) {
            (Some(status), Some(exception)) if !exception.contains(status) => {
                Some(format!("{status} ({exception})"))
            }
            (status, exception) => exception.or_else(|| status.map(str::to_owned)),
        }
    }
}

fn rank(column: &str, key: Option<&str>, exception: bool) -> usize {
    let contains_any = |text: &str, words: &[&str]| {
        let text = text.to_lowercase();
        words.iter().any(|word| text.contains(word))
    };
    if exception || contains_any(key.unwrap_or(column), &["exception", "error", "status", "message"]) {
        0
    } else if contains_any(column, &["resource", "scope", "traceid", "trace_id"]) {
        3
    } else if key.is_none() {
        1
    } else {
        2
    }
}

fn cut(value: &Json, limits: ValueLimits, meter: &Meter, whole: &mut bool) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Bool(value) => {
            meter.add("true");
            Value::Bool(*value)
        }
        Json::Number(number) => {
            meter.add("0");
            Value::Number(number.clone())
        }
        Json::Text { start, characters } => {
            let (line, is_whole) = truncated_line(start, *characters, limits.characters);
            *whole &= is_whole;
            meter.add(&line);
            Value::String(line)
        }
        Json::List { first, count } => {
            let mut shown = Vec::new();
            for element in first.iter().take(limits.elements) {
                if meter.is_exceeded() {
                    break;
                }
                shown.push(cut(element, limits, meter, whole));
            }
            if *count > limits.elements.min(first.len()) {
                *whole = false;
                shown.push(Value::String(format!("… ({count} elements)")));
            }
            Value::Array(shown)
        }
        Json::Object { first, count } => {
            let mut shown = Map::new();
            for (name, value) in first.iter().take(limits.elements) {
                if meter.is_exceeded() {
                    break;
                }
                meter.add(name);
                shown.insert(one_line(name, 256), cut(value, limits, meter, whole));
            }
            let kept_count = limits.elements.min(first.len());
            if *count > kept_count {
                *whole = false;
                shown
                    .insert(OMITTED_KEY.to_owned(), format!("{} values left out", count - kept_count).into());
            }
            Value::Object(shown)
        }
    }
}

/// Formats a span as lines: its id, and one per value.
pub(crate) fn lines(id: &str, span: &Map<String, Value>) -> Vec<String> {
    let mut lines = vec![format!("span {}", one_line(id, 64))];
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

/// Formats a value. Only the name can be empty.
fn bare(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => NO_NAME.to_owned(),
        Value::String(text) if text == NO_NAME || text.trim().is_empty() => format!("\"{text}\""),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn columns() -> Columns {
        Columns::exporter_default()
    }

    fn span(value: &Value) -> SpanValues {
        SpanValues::read(&value.to_string(), &columns())
    }

    fn cut(span: &SpanValues, limits: ValueLimits) -> Map<String, Value> {
        let shown = span.shown(limits, &Meter::unlimited());
        assert_eq!(shown.whole, !json!(shown.values).to_string().contains('…'), "{:?}", shown.values);
        shown.values
    }

    #[test]
    fn long_values_are_truncated_and_empty_ones_omitted() {
        let long = "x".repeat(1_000);
        let given = span(&json!({"a": long, "b": "", "c": [], "d": {}, "e": 0, "f": false, "g": null,
            "h": {"k": "y\nz", "l": ""}, "i": vec![1; 30], "j": {"k": {"l": {"m": 1, "n": ""}}}}));
        let cut = cut(&given, ValueLimits { characters: 10, elements: 20, ..WIDEST_LIMITS });
        assert_eq!(cut["a"], "xxxxxxxxxx… (1000 characters)");
        assert_eq!(cut.keys().collect::<Vec<_>>(), ["a", "e", "f", "h", "i", "j"]);
        assert_eq!((&cut["h"], &cut["j"]), (&json!({"k": "y\\nz"}), &json!({"k": {"l": {"m": 1}}})));
        assert_eq!((cut["i"].as_array().unwrap().len(), &cut["i"][20]), (21, &json!("… (30 elements)")));
        assert_eq!(lines("", &cut)[2..5], ["  e: 0", "  f: false", "  h.k: y\\nz"]);
        assert_eq!(SpanValues::read("not a span", &columns()).count, 0);
    }

    #[test]
    fn truncated_texts_state_their_length() {
        let given = span(
            &json!({"a": "x".repeat(10_000), "b": "y".repeat(WIDEST_LIMITS.characters), "c": vec!["z"; 101]}),
        );
        let cut = cut(&given, WIDEST_LIMITS);
        assert_eq!(cut["a"], format!("{}… (10000 characters)", "x".repeat(WIDEST_LIMITS.characters)));
        assert_eq!(cut["b"], "y".repeat(WIDEST_LIMITS.characters));
        assert_eq!(cut["c"][100], "… (101 elements)");
    }

    #[test]
    fn events_with_causes_are_kept() {
        let events = json!([{"exception.message": "no answer"}]);
        let given = span(&json!({"Id": "1", "Events": events, "StatusMessage": "", "A": "a", "B": "b"}));
        assert!(cut(&given, ValueLimits { values: 1, ..WIDEST_LIMITS }).contains_key("Events"));
    }

    #[test]
    fn error_values_are_kept_among_many() {
        let given = span(
            &json!({"ScopeName": "z", "SpanId": "1", "Attributes": {"a": "x", "error.type": "500", "b": ""}, "StatusMessage": "down"}),
        );
        let shown = cut(&given, ValueLimits { values: 3, ..WIDEST_LIMITS });
        let expected = json!({"SpanId": "1", "Attributes": {"error.type": "500"}, "StatusMessage": "down", "…": "2 values left out"});
        assert_eq!((Value::Object(shown), given.id.as_str()), (expected, "1"));
        assert_eq!(cut(&given, ValueLimits { values: 5, ..WIDEST_LIMITS }), cut(&given, WIDEST_LIMITS));
        // Also after 100,000 other values.
        let mut many: Map<String, Value> = (0..100_000).map(|at| (format!("k{at}"), json!(at))).collect();
        many.insert("error.type".to_owned(), json!("500"));
        let shown = cut(&span(&json!({"Attributes": many})), ValueLimits { values: 2, ..WIDEST_LIMITS });
        let expected = json!({"Attributes": {"k0": 0, "error.type": "500"}, "…": "99999 values left out"});
        assert_eq!(Value::Object(shown), expected);
    }

    #[test]
    fn numbers_keep_their_digits_and_empty_names_are_shown() {
        let line = r#"{"item": 281474976710655000000000000001, "cost": 12345678901234.5678, "m": {"row": [1875924584784080993, 0.25]}, "SpanName": ""}"#;
        let cut = cut(&SpanValues::read(line, &columns()), WIDEST_LIMITS);
        let expected = json!({"item": "281474976710655000000000000001", "cost": "12345678901234.5678",
            "m": {"row": ["1875924584784080993", 0.25]}, "SpanName": ""});
        assert_eq!(json!(cut), expected);
        let expected = [
            "span a1",
            "  item: 281474976710655000000000000001",
            "  cost: 12345678901234.5678",
            "  m.row: [\"1875924584784080993\",0.25]",
            "  SpanName: (no name)",
        ];
        assert_eq!(lines("a1", &cut), expected);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn invalid_durations_are_marked_and_unchanged() {
        let line = |json: &str, duration_invalid: bool| SpanLine { json: json.to_owned(), duration_invalid };
        let lines = vec![
            line(r#"{"Duration":-1}"#, true),
            line(r#"{"Duration":null}"#, true),
            line(r#"{"Duration":5.5}"#, false),
        ];
        let shown =
            read_all(lines, &columns()).await.into_iter().map(|span| json!(cut(&span, WIDEST_LIMITS)));
        let expected = [
            json!({"Duration": -1, "duration_invalid": true}),
            json!({"duration_invalid": true}),
            json!({"Duration": 5.5}),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn values_that_do_not_fit_are_abandoned_early() {
        let given = span(&json!({"a": vec![vec!["x".repeat(4_000); 100]; 40]}));
        let meter = Meter::new(100);
        let shown = given.shown(WIDEST_LIMITS, &meter);
        assert!(meter.is_exceeded() && json!(shown.values).to_string().len() < 20_000);
    }

    #[test]
    fn messages_are_found_in_all_conventional_places() {
        let check =
            |given: Value, expected: Option<&str>| assert_eq!(span(&given).message().as_deref(), expected);
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
        // After more events than are kept.
        let mut many = vec![json!({"a": "b"}); 1_000];
        many.push(json!({"exception.type": "Late"}));
        check(json!({"Events.Attributes": many}), Some("Late"));
    }
}
