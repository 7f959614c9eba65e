//! Fuzz tests of files: faults have a position in the file, documents that are read can be written and read again, and an
//! accepted model is the same after a round trip.

#[path = "../../../proof/testkit/src/fuzzing.rs"]
mod fuzzing;

use fuzzing::{target, texts, within_time_limit};
use serde_json::Value;
use tracewarden_model::{AccessModel, ColumnType, FieldRef, FieldSource, LogicalType, MarkedField};

use crate::document::{Document, Fault, SourcePosition, yaml};
use crate::json::Json;
use crate::policy_file::{MemberFault, PolicyFile, TestsDocument};
use crate::policy_suite::{SuiteFault, resolve};

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = texts([
        include_str!("../../../docs/examples/policies.yaml"),
        "fields:\n  - {name: ServiceName, policy: true}\n  - name: 'it''s'\n    n: -1.5e3\nempty:\ntext: |\n  a ||\n    b\nfolded: \"\\u00e9\\n\"\nlist: []\nbig: 18446744073709551615\n",
        "? 'a b'\n: - - 1\n    - >-\n      folded\n      text\n  - \"\\U000E0041\"\n",
        "{a: [b, 1,], \"c\": d}",
        "{\"a\": 1,\n \"b\": [{}, [], null, \"\\ud83d\\ude00\"], \"a\\/\": -0.0}",
        "a: &x 1\nb: *x\n<<: !!str {c: 2}\n--- 1\n...\n",
        "\u{feff}a: 0x10\nb: yes\nc: 1_000\n",
    ]);
    // A whole model in the format of an export.
    seeds.extend(texts([
        r#"{"version": 3, "binding": {"database": "otel", "table": "otel_traces", "trace_id": "TraceId", "span_id": "SpanId", "timestamp": "Timestamp", "parent_span_id": "ParentSpanId", "trace_index": null, "display": {}}, "fields": [{"map": "SpanAttributes", "name": "env", "ref": "SpanAttributes[\"env\"]", "type": "string", "column_type": "String", "source": "map_key", "filterable": true, "policy": true, "column": "env"}, {"map": "J", "name": "a.b", "column_type": "Dynamic"}], "roles": [{"name": "dev", "policies": [{"title": "t", "description": "d", "expression": "SpanAttributes[\"env\"] == \"prod\""}]}], "users": [{"username": "ada", "roles": ["dev"], "attributes": {}}], "traces": [{"name": "t", "spans": [{"SpanAttributes": {"env": "prod"}}]}], "tests": [{"name": "n", "user": "ada", "trace": "t", "visible": true, "policies": {"dev/t": [true]}}]}"#,
    ]));
    seeds
}

/// Checks that the line and column are those of a character or of an end.
fn check_position(text: &str, position: SourcePosition) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // YAML treats a lone carriage return as the end of a line, JSON does not.
    if text.replace("\r\n", "").contains('\r') {
        return assert!(position.line > 0 && position.column > 0, "{position}");
    }
    // A fault at the end of the text may be on the line after the last.
    let line = text.split('\n').chain([""]).nth(position.line.checked_sub(1).unwrap());
    let line = line.unwrap_or_else(|| panic!("{position} in {text:?}"));
    assert!((1..=line.chars().count() + 1).contains(&position.column), "{position} in {text:?}");
}

fn check_fault(text: &str, fault: &Fault) {
    assert!(!fault.message.is_empty(), "{fault:?}");
    check_position(text, fault.position);
}

#[test]
fn documents() {
    let check = |input: &[u8]| {
        let text = &*String::from_utf8_lossy(input);
        let read = [
            within_time_limit(|| Document::read(text)),
            within_time_limit(|| Document::read_json(text)),
            within_time_limit(|| Document::read_yaml(text)),
        ];
        for document in &read {
            let document = match document {
                Ok(document) => document,
                Err(fault) => {
                    check_fault(text, fault);
                    continue;
                }
            };
            let written = within_time_limit(|| yaml(&document.json()));
            let again =
                Document::read_yaml(&written).unwrap_or_else(|fault| panic!("{fault:?} in {written}"));
            assert_eq!(again.json(), document.json(), "{written}");
            let json = serde_json::to_string(&document.json()).unwrap();
            assert_eq!(Document::read_json(&json).unwrap().json(), document.json());
            check_position(text, document.position("/a/0/b"));
        }
        // [`Document::read`] may succeed only if the JSON or the YAML reader does.
        let [either, json, yaml] = &read;
        assert!(either.is_err() || json.is_ok() || yaml.is_ok());
    };
    target!(seeds(), check, 300);
}

/// Checks that the member of a fault, or the member around it, exists.
fn check_member(value: &Value, MemberFault { pointer, message }: &MemberFault) {
    let around = pointer.rsplit_once('/').map_or("", |(around, _)| around);
    assert!(value.pointer(pointer).or_else(|| value.pointer(around)).is_some(), "{pointer}: {message}");
    assert!(!message.is_empty(), "{pointer}");
}

#[test]
fn model_files() {
    let check = |input: &[u8]| {
        let text = &*String::from_utf8_lossy(input);
        let Ok(document) = within_time_limit(|| Document::read(text)) else { return };
        let value = document.value();
        let file = || document.parse::<PolicyFile>();
        let mut first = match within_time_limit(file) {
            Ok(file) => file,
            Err(fault) => return check_fault(text, &fault),
        };
        within_time_limit(|| first.ambiguities(&document))
            .iter()
            .for_each(|fault| check_member(&value, fault));
        match within_time_limit(|| first.access_model()) {
            Ok(model) => match within_time_limit(|| resolve(&first, &model.unwrap_or_default())) {
                Ok(_) => {}
                Err(faults) => {
                    assert!(!faults.is_empty());
                    for fault in faults {
                        match fault {
                            SuiteFault::Member(fault) => check_member(&value, &fault),
                            SuiteFault::Policy { pointer, diagnostics, .. } => {
                                assert!(
                                    value.pointer(&pointer).is_some() && !diagnostics.is_empty(),
                                    "{pointer}"
                                );
                            }
                        }
                    }
                }
            },
            Err(faults) => faults.iter().for_each(|fault| check_member(&value, fault)),
        }
        match within_time_limit(|| file().unwrap().into_model_file()) {
            Ok(access) => assert!(TestsDocument::read(&access.tests).is_ok(), "{}", access.tests),
            Err(faults) => faults.iter().for_each(|fault| check_member(&value, fault)),
        }
    };
    target!(seeds(), check, 300);
}

#[test]
fn json_values() {
    let check = |bytes: &[u8]| {
        let json = within_time_limit(|| serde_json::from_slice::<Json>(bytes));
        assert_eq!(json.is_ok(), serde_json::from_slice::<Value>(bytes).is_ok());
        if let Ok(json) = json {
            let again: Json = serde_json::from_slice(&serde_json::to_vec(&json).unwrap()).unwrap();
            assert!(is_same(&again, &json), "{again:?}");
        }
    };
    let seeds = texts([
        "-99999999999999999999",
        "1.5e30",
        "{\"a\": \"x\", \"b\": [\"y\"], \"c\": false}",
        "{\"a\": 1, \"a\": [null, {\"b\": -0.0}, 1e-300, \"\\u0000\"]}",
    ]);
    target!(seeds, check);
}

/// Compares two values; the parser may be wrong in the last place of a number that is not an integer.
fn is_same(one: &Json, other: &Json) -> bool {
    match (one, other) {
        // Numbers written as integers are exact.
        (Json::Number(one), Json::Number(other)) if one != other => {
            let is_integer = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
            let exact = is_integer(one.as_str()) && is_integer(other.as_str());
            let (one, other) = (one.to_f64(), other.to_f64());
            !exact && (one - other).abs() <= one.abs() * 1e-15
        }
        (Json::List(one), Json::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Json::Object(one), Json::Object(other)) => {
            let same = |(one, other): (&(String, Json), &(String, Json))| {
                one.0 == other.0 && is_same(&one.1, &other.1)
            };
            one.len() == other.len() && one.iter().zip(other).all(same)
        }
        _ => one == other,
    }
}

fn model() -> AccessModel {
    let columns = [
        "String",
        "Bool",
        "UUID",
        "FixedString(3)",
        "Enum8('a' = 1, 'b' = 2)",
        "DateTime64(9)",
        "UInt8",
        "Array(LowCardinality(String))",
        "Nullable(String)",
        "Array(Map(LowCardinality(String), String))",
    ];
    let field = |map: Option<&str>, name: &str, source, column_type: ColumnType| {
        let logical = column_type.logical_types().first().copied().unwrap_or(LogicalType::String);
        let field = FieldRef { map: map.map(str::to_owned), name: name.to_owned() };
        MarkedField { field, source, logical, column_type, filterable: true, policy: true, column: None }
    };
    let mut fields = Vec::new();
    for (name, text) in ["s", "b", "u", "f", "e", "d", "n", "l", "o", "m"].into_iter().zip(columns) {
        fields.push(field(None, name, FieldSource::Column, ColumnType::parse(text)));
    }
    fields.push(field(None, "Events.Name", FieldSource::Column, ColumnType::parse("Array(String)")));
    fields.push(field(Some("Attributes"), "a.b/~", FieldSource::MapKey, ColumnType::parse("String")));
    fields.push(field(Some("Json"), "x.y", FieldSource::JsonPath, ColumnType::parse("Dynamic")));
    AccessModel { version: 1, binding: None, fields }
}

#[test]
fn spans() {
    let check = |bytes: &[u8]| {
        let Ok(sent) = serde_json::from_slice::<Vec<Json>>(bytes) else { return };
        match within_time_limit(|| crate::spans::spans(&sent, &model(), "")) {
            Ok(read) => assert_eq!(read.len(), sent.len()),
            Err(errors) => {
                let whole: Value = serde_json::from_slice(bytes).unwrap();
                assert!(!errors.is_empty());
                for error in errors {
                    // The pointer to a missing member names the place where it would be.
                    let parent = error.pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
                    let there = whole.pointer(&error.pointer).or_else(|| whole.pointer(parent));
                    assert!(there.is_some() && !error.detail.is_empty(), "{error:?}");
                }
            }
        }
    };
    let seeds = texts([
        r#"[{"s": "a", "b": true, "u": "c0ffee00-c0ff-eec0-ffee-c0ffeec0ffee", "f": "abc", "e": "a", "n": 255, "l": ["a"], "o": null}]"#,
        r#"[{"d": "2026-11-21 07:33:26.123456789", "m": [{"k": "v"}], "Events.Name": ["x"]}, {"Events": [{"Name": "y", "t": 1}]}]"#,
        r#"[{"Attributes": {"a.b/~": "x"}, "Json": {"x": {"y": [1, "a"]}, "x.y": true}}, {"Json": {"x": null}}, {}]"#,
        "[[], 1, null]",
    ]);
    target!(seeds, check);
}
