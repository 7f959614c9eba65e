//! Compares the reference evaluation with `cel-python`, an independent implementation of CEL.
//!
//! Known differences are listed, each by a name, with the reason why cel-python deviates (`docs/adr/0005`): the script
//! corrects them one after the other, and reports the corrections that it applied. Strings that are not UTF-8 are left out:
//! CEL has none.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Map, Value, json};
use tracewarden_model::{
    AttributeValue, Caller, ColumnType, FieldSource, LogicalType, MarkedField, TextType,
};
use tracewarden_policy::{FieldValue, Span, check};
use tracewarden_testkit::policies::Generator;
use tracewarden_testkit::python::prepared_python;
use tracewarden_testkit::repetitions::Repetitions;

use super::generated_model::MODEL;
use super::lowered_policy::{Verdict, reference};
use super::seed;

/// Number of expressions, and of spans for each.
const EXPRESSIONS: Repetitions = Repetitions { test: 4_000, verify: 20_000 };
const SPANS: usize = 1;
/// Number of spans from which each expression gets some.
const POOL: usize = 400;
/// Number of evaluating processes.
const PROCESSES: usize = 2;

/// Known deviations of cel-python, as the script names them, each with a policy that shows it.
const DEVIATIONS: [(&str, &str); 6] = [
    ("unlike_values", "user.attributes.list == \"a\""),
    ("in_strings", "\"a\" in user.attributes.text"),
    ("contains_of_lists", "user.attributes.list.contains(\"a\")"),
    ("macros_over_strings", "user.attributes.text.exists(v, v == \"a\")"),
    ("errors_within_exists_one", "[\"a\"].exists_one(v, v == user.attributes.none) || true"),
    ("describable_errors", "user.attributes.none || ((user.attributes.none in []) ? true : false)"),
];

/// Converts a value to JSON, for the script; `None` when it is not UTF-8.
fn cel_value(field: &MarkedField, value: &FieldValue) -> Option<Value> {
    let unreadable = || Some(json!({ "error": true }));
    let text = |column_type: &ColumnType, bytes: &[u8]| -> Option<String> {
        let text = std::str::from_utf8(bytes).ok()?;
        Some(match column_type.bare() {
            ColumnType::Text(TextType::FixedString { .. }) => text.trim_end_matches('\0').to_owned(),
            ColumnType::Text(TextType::Uuid) => text.to_lowercase(),
            _ => text.to_owned(),
        })
    };
    let of_text = field.source == FieldSource::MapKey && field.column_type.is_text();
    match (field.logical, value) {
        (LogicalType::String, FieldValue::String(bytes)) => text(&field.column_type, bytes).map(Value::from),
        (LogicalType::Boolean, FieldValue::Bool(value)) => Some(Value::from(*value)),
        (LogicalType::Boolean, FieldValue::String(bytes)) if of_text => {
            match text(&field.column_type, bytes).as_deref() {
                Some("true") => Some(Value::from(true)),
                Some("false") => Some(Value::from(false)),
                _ => unreadable(),
            }
        }
        (LogicalType::StringArray, FieldValue::String(bytes)) if of_text => {
            let list = text(&field.column_type, bytes)
                .and_then(|text| serde_json::from_str::<Vec<String>>(&text).ok());
            list.map_or_else(unreadable, |list| Some(Value::from(list)))
        }
        (LogicalType::StringArray, FieldValue::Array(elements)) => {
            let element_type = match field.column_type.bare() {
                ColumnType::Array(element) => element,
                other => other,
            };
            let mut list = Vec::new();
            for element in elements {
                match element {
                    FieldValue::String(bytes) => list.push(text(element_type, bytes)?),
                    _ => return unreadable(),
                }
            }
            Some(Value::from(list))
        }
        _ => unreadable(),
    }
}

/// Returns the values of the fields in the expression; `None` when one of them is not UTF-8.
fn variables(fields: &[&MarkedField], span: &Span) -> Option<Map<String, Value>> {
    let mut variables = Map::new();
    for field in fields {
        let name = &field.field.name;
        let Some(map) = &field.field.map else {
            let value = span.get(name).filter(|value| **value != FieldValue::Null);
            let (outer, inner) = name.split_once('.').map_or((name.as_str(), None), |(a, b)| (a, Some(b)));
            let value = value.map_or(Some(Value::Null), |value| cel_value(field, value))?;
            // A column that cannot be read counts as absent.
            let readable = !value.is_null() && !value.is_object();
            match inner {
                None if readable => {
                    variables.insert(outer.to_owned(), value);
                }
                None => {}
                Some(inner) => {
                    let members = variables.entry(outer).or_insert_with(|| json!({}));
                    if let (true, Some(members)) = (readable, members.as_object_mut()) {
                        members.insert(inner.to_owned(), value);
                    }
                }
            }
            continue;
        };
        let members = variables.entry(map.as_str()).or_insert_with(|| json!({}));
        let value = span.get(map).and_then(|column| column.value_of_key(name.as_bytes()));
        // NULL under a map key counts as present, as a value without a type; at a path it counts as absent.
        let counts = |value: &&FieldValue| **value != FieldValue::Null || field.source == FieldSource::MapKey;
        if let Some(value) = value.filter(counts) {
            let value = cel_value(field, value)?;
            members.as_object_mut().unwrap().insert(name.clone(), value);
        }
    }
    Some(variables)
}

fn user(caller: &Caller) -> Value {
    let attributes: Map<String, Value> = caller
        .attributes
        .iter()
        .map(|(name, value)| {
            let value = match value {
                AttributeValue::String(text) => Value::from(text.as_str()),
                AttributeValue::Bool(value) => Value::from(*value),
                AttributeValue::Strings(list) => Value::from(list.clone()),
            };
            (name.clone(), value)
        })
        .collect();
    let roles: Vec<&String> = caller.roles.iter().collect();
    json!({ "username": caller.username, "roles": roles, "attributes": attributes })
}

/// Returns the caller of the policies that show deviations.
fn deviation_caller() -> Caller {
    let text = AttributeValue::String("a".to_owned());
    let list = AttributeValue::Strings(vec!["a".to_owned()]);
    let attributes = [("text".to_owned(), text), ("list".to_owned(), list)].into();
    Caller { username: "a".to_owned(), roles: ["a".to_owned()].into(), attributes }
}

fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::True => "true",
        Verdict::False => "false",
        Verdict::Error => "error",
    }
}

/// Returns, for each line, cel-python's result for each span, and the corrections that the script applied.
fn by_cel_python(lines: &[Value]) -> Vec<Vec<(String, Vec<String>)>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cel_python/evaluate.py");
    let mut child = Command::new(prepared_python().unwrap())
        .arg(script)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let answers = std::thread::scope(|scope| {
        scope.spawn(move || lines.iter().for_each(|line| writeln!(input, "{line}").unwrap()));
        output.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
    });
    assert!(child.wait().unwrap().success());
    answers
}

#[test]
fn cel_python_agrees() {
    let (seed, wanted) = (seed(), EXPRESSIONS.get("TRACEWARDEN_TEST_EXPRESSIONS"));
    let mut generator = Generator::new(seed);
    generator.dots_are_members();
    let pool: Vec<Span> = (0..POOL).map(|_| generator.span()).collect();
    generator.learn_values(&pool);
    let (mut input, mut not_utf8, mut next) = (Vec::new(), 0, 0);
    let mut deviations = DEVIATIONS.into_iter();
    while input.len() < wanted {
        let (text, caller) = match deviations.next() {
            Some((_, text)) => (text.to_owned(), deviation_caller()),
            None => (generator.policy().text, generator.caller()),
        };
        let Ok(checked) = check(&text, &MODEL) else { continue };
        let names = checked.fields();
        let fields: Vec<&MarkedField> =
            MODEL.fields.iter().filter(|field| names.contains(&field.field.to_string())).collect();
        let mut spans = Vec::new();
        let mut known = Vec::new();
        while spans.len() < SPANS {
            next = (next + 1) % POOL;
            match variables(&fields, &pool[next]) {
                Some(variables) => {
                    spans.push(variables);
                    known.push(pool[next].clone());
                }
                None => not_utf8 += 1,
            }
        }
        let expected: Vec<&str> = reference(&text, &caller, &known).into_iter().map(verdict_name).collect();
        input
            .push(json!({ "expression": text, "user": user(&caller), "spans": spans, "expected": expected }));
    }
    let share = input.len().div_ceil(PROCESSES);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let parts: Vec<_> =
            input.chunks(share).map(|part| scope.spawn(move || by_cel_python(part))).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    assert_eq!(answers.len(), input.len());
    let mut deviation_counts: BTreeMap<Vec<String>, (usize, String)> = BTreeMap::new();
    let mut verdicts: BTreeMap<String, usize> = BTreeMap::new();
    let mut unexplained = Vec::new();
    for (input, answers) in input.iter().zip(&answers) {
        assert_eq!(answers.len(), SPANS, "{input}");
        for (verdict, corrections) in answers {
            *verdicts.entry(verdict.clone()).or_default() += 1;
            if corrections.iter().any(|name| name == "none") {
                unexplained.push(format!("cel-python says {verdict}: {input}"));
            } else if !corrections.is_empty() {
                let seen = deviation_counts.entry(corrections.clone()).or_insert_with(|| (0, String::new()));
                seen.0 += 1;
                let text = input["expression"].as_str().unwrap_or_default();
                if seen.1.is_empty() || text.len() < seen.1.len() {
                    seen.1 = text.to_owned();
                }
            }
        }
    }
    println!("{wanted} expressions, {verdicts:?}, seed {seed}; {not_utf8} spans left out as not UTF-8");
    for (corrections, (count, shortest)) in &deviation_counts {
        println!("{count:>6} deviate by {}, such as {shortest}", corrections.join(" and "));
    }
    unexplained.sort_by_key(String::len);
    let shown = unexplained.iter().take(8).cloned().collect::<Vec<_>>().join("\n");
    assert!(unexplained.is_empty(), "{} unexplained, the shortest:\n{shown}", unexplained.len());
    for ((deviation, policy), answers) in DEVIATIONS.iter().zip(&answers) {
        let shown = answers.iter().all(|(_, corrections)| corrections == &[deviation.to_string()]);
        assert!(shown, "`{policy}` does not show the deviation `{deviation}`: {answers:?}");
    }
}
