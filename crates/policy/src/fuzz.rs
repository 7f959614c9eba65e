//! Fuzzes policies and patterns with arbitrary bytes. Each input is processed quickly, errors have valid positions in
//! the text, and accepted inputs can be used.

#[path = "../../../proof/testkit/src/fuzzing.rs"]
mod fuzzing;

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::AtomicBool;

use fuzzing::{target, texts, within_time_limit};
use tracewarden_model::{
    AccessModel, AttributeValue, Caller, ColumnType, FieldRef, FieldSource, LogicalType, MarkedField,
};

use crate::evaluate::string_array;
use crate::tokens::tokens;
use crate::{Diagnostic, ERRORS, FieldValue, Pattern, WARNINGS, check, describe, evaluate, explain};

fn model() -> AccessModel {
    let field = |map: Option<&str>, name: &str, logical, column_type: &str| MarkedField {
        field: FieldRef { map: map.map(str::to_owned), name: name.to_owned() },
        source: if map.is_some() { FieldSource::MapKey } else { FieldSource::Column },
        logical,
        column_type: ColumnType::parse(column_type),
        filterable: true,
        policy: logical != LogicalType::Number,
        column: None,
    };
    let key = |name, logical| field(Some("SpanAttributes"), name, logical, "String");
    AccessModel {
        version: 1,
        binding: None,
        fields: vec![
            field(None, "ServiceName", LogicalType::String, "LowCardinality(String)"),
            field(None, "Nick", LogicalType::String, "Nullable(String)"),
            field(None, "Sampled", LogicalType::Boolean, "Bool"),
            field(None, "Duration", LogicalType::Number, "UInt64"),
            field(None, "Events.Name", LogicalType::StringArray, "Array(LowCardinality(String))"),
            key("env", LogicalType::String),
            key("tenant.id", LogicalType::String),
            key("flag", LogicalType::Boolean),
            key("tags", LogicalType::StringArray),
        ],
    }
}

fn caller() -> Caller {
    let list = |values: [&str; 2]| AttributeValue::Strings(values.map(str::to_owned).to_vec());
    Caller {
        username: "ada".to_owned(),
        roles: ["dev".to_owned(), "oncall".to_owned()].into(),
        attributes: [
            ("team".to_owned(), AttributeValue::String("payments".to_owned())),
            ("lead".to_owned(), AttributeValue::Bool(true)),
            ("tenants".to_owned(), list(["t1", "t2"])),
        ]
        .into(),
    }
}

fn span() -> crate::Span {
    let entry = |key: &str, value: &str| (key.as_bytes().to_vec(), FieldValue::text(value));
    BTreeMap::from([
        ("ServiceName".to_owned(), FieldValue::text("checkout")),
        ("Nick".to_owned(), FieldValue::String(vec![0xff, b'x', 0xc3])),
        ("Sampled".to_owned(), FieldValue::Bool(true)),
        ("Events.Name".to_owned(), FieldValue::Array(vec![FieldValue::text("exception")])),
        (
            "SpanAttributes".to_owned(),
            FieldValue::Map(vec![
                entry("env", "prod"),
                entry("tags", "[\"a\", \"b\"]"),
                entry("flag", "true"),
            ]),
        ),
    ])
}

/// Returns the policy texts of the diagnostics tests.
fn diagnostics_inputs() -> Vec<Vec<u8>> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/diagnostics");
    let mut seeds = Vec::new();
    for file in fs::read_dir(directory).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        seeds.extend(texts(text.lines().filter_map(|line| line.strip_prefix(">>> "))));
    }
    assert!(seeds.len() > 200, "{}", seeds.len());
    seeds
}

/// Asserts that a diagnostic has a documented code and a position within the text, and that it can be rendered. A panic on
/// the worker thread would be reported as `unavailable`.
fn check_diagnostic(text: &str, error: &Diagnostic) {
    assert!(
        error.code != "unavailable" && (ERRORS.contains(&error.code) || WARNINGS.contains(&error.code)),
        "{error:?}"
    );
    let line = text.split('\n').nth(error.line as usize - 1).unwrap_or_else(|| panic!("{error:?}"));
    assert!(error.column as usize <= line.chars().count() + 1, "{error:?}");
    assert!(error.length as usize <= text.chars().count().max(1), "{error:?}");
    assert!(!error.message.is_empty() && error.render(text, Some("policy")).contains(error.code));
}

fn policy(input: &[u8]) {
    let text = &*String::from_utf8_lossy(input);
    if let Ok(tokens) = within_time_limit(|| tokens(text)) {
        let mut end = 0;
        for token in tokens {
            assert!(end <= token.start && token.start < token.end, "{token:?} after {end}");
            assert!(text.get(token.start..token.end).is_some(), "{token:?}");
            end = token.end;
        }
    }
    let model = model();
    let checked = match within_time_limit(|| check(text, &model)) {
        Ok(checked) => checked,
        Err(errors) => {
            assert!(!errors.is_empty());
            return errors.iter().take(20).for_each(|error| check_diagnostic(text, error));
        }
    };
    within_time_limit(|| checked.warnings().iter().for_each(|warning| check_diagnostic(text, warning)));
    assert!(
        within_time_limit(|| checked.predicate(&caller()))
            .is_none_or(|predicate| !describe(&predicate).is_empty())
    );
    let spans = [BTreeMap::new(), span()];
    let outcomes = within_time_limit(|| evaluate(text, &model, &caller(), &spans)).unwrap();
    assert_eq!(outcomes.len(), spans.len());
    match within_time_limit(|| explain(text, &model, &caller(), &spans, &AtomicBool::new(false))) {
        Ok(verdicts) => assert_eq!(verdicts.len(), spans.len()),
        Err(errors) => assert!(errors.iter().all(|error| error.code == "too_large"), "{errors:?}"),
    }
}

#[test]
fn policies() {
    target!(diagnostics_inputs(), policy, 300);
}

fn pattern(input: &[u8]) {
    let text = &*String::from_utf8_lossy(input);
    match within_time_limit(|| Pattern::parse(text)) {
        Ok(pattern) => {
            within_time_limit(|| regex::Regex::new(&pattern.reference)).unwrap();
        }
        Err(error) => {
            assert!(!error.message.is_empty());
            let place = error.place.map(|(start, end)| text.get(start..end));
            assert!(place.is_none_or(|place| place.is_some()), "{error:?}");
        }
    }
}

#[test]
fn patterns() {
    let mut seeds = texts([
        "^checkout-[0-9]+$",
        "(?i)error|timeout",
        "a{2,5}?b*c+",
        "[^\\d\\w\\s]x",
        "\\bfoo\\b",
        "(?:a|b(c))*",
        "[[:alpha:]-]",
        "\\x{10FFFF}\\x41\\n\\.",
        "(?s:.)(?m)^a$",
        "[a-z&&b]",
        "\\p{L}",
        "(?=a)",
        "(a)\\1",
        "[\\]\\[^-]",
        "`\\`",
    ]);
    let quoted = diagnostics_inputs().into_iter().filter_map(|text| {
        let text = String::from_utf8(text).ok()?;
        Some(text.split_once(".matches(")?.1.trim_matches(['r', '"', '\'', ')']).as_bytes().to_vec())
    });
    seeds.extend(quoted);
    target!(seeds, pattern);
}

#[test]
fn string_arrays() {
    let read = |input: &[u8]| {
        let text = &*String::from_utf8_lossy(input);
        if let Some(list) = within_time_limit(|| string_array(text)) {
            assert_eq!(string_array(&serde_json::to_string(&list).unwrap()), Some(list));
        }
    };
    target!(
        texts(["[\"a\", \"b\\n\\u00e9\\ud83d\\ude00\"]", "[]", "[1]", "{}", "[[\"a\"]]", "[\"a\""]),
        read
    );
}
