//! Checks that a policy's predicate holds on exactly the spans on which the reference evaluator returns true: every
//! operation on operands of every kind, each also negated, without ClickHouse.
//!
//! The ClickHouse crate's own tests compare query results for random policies. These tests compare predicates, in
//! seconds.

use std::collections::{BTreeMap, HashMap};

use crate::support::predicates::{FieldValues, Spans, holds};
use crate::support::{caller, field};
use tracewarden_model::{AccessModel, FieldRef, FieldSource, LogicalType, MarkedField};
use tracewarden_policy::{FieldValue, Outcome, Span, check, evaluate};

/// One text of each kind: literal, of the caller, absent, always present, NULL, under a key, conditional.
const TEXTS: [&str; 9] = [
    "\"checkout\"",
    "ServiceName",
    "Nick",
    "SpanAttributes[\"env\"]",
    "user.username",
    "user.attributes.missing",
    "(Sampled ? ServiceName : Nick)",
    "(SpanAttributes.flag ? SpanAttributes.env : \"t1\")",
    "(user.attributes.lead ? (user.username == \"bob\" ? user.attributes.missing : Nick) : user.attributes.missing)",
];

const BOOLEANS: [&str; 9] = [
    "true",
    "Sampled",
    "SpanAttributes.flag",
    "has(SpanAttributes.env)",
    "\"flag\" in SpanAttributes",
    "user.attributes.lead",
    "user.attributes.missing",
    "Nick == \"ada\"",
    "(SpanAttributes.flag ? Sampled : user.attributes.lead)",
];

const LISTS: [&str; 19] = [
    "Events.Name",
    "Notes",
    "SpanAttributes.tags",
    "[]",
    "[\"checkout\"]",
    "[\"t1\", \"checkout\", \"t1\"]",
    "[ServiceName]",
    "[Nick, \"ada\"]",
    "[\"a\", SpanAttributes.env, ServiceName]",
    "[user.username, Nick]",
    "[user.attributes.missing, \"t1\"]",
    "[(Sampled ? ServiceName : Nick), \"checkout\"]",
    "[(Sampled ? \"a\" : \"b\"), (SpanAttributes.flag ? \"checkout\" : Nick)]",
    "[Sampled, true]",
    "[1, 2]",
    "user.roles",
    "user.attributes.tenants",
    "user.attributes.missing",
    "(SpanAttributes.flag ? Events.Name : user.attributes.tenants)",
];

const INTEGERS: [&str; 10] = [
    "0",
    "-(3)",
    "3",
    "size(ServiceName)",
    "size(Nick)",
    "size(user.username)",
    "size(Events.Name)",
    "size(SpanAttributes.tags)",
    "size([Nick, \"ada\"])",
    "size(user.attributes.missing)",
];

const RELATIONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];

/// The usual test model, and an array that can contain NULL.
fn model() -> AccessModel {
    let mut model = crate::support::model();
    let notes = FieldRef::column("Notes");
    model.fields.push(field(notes, LogicalType::StringArray, "Array(Nullable(String))"));
    model
}

fn map(entries: &[(&str, &[u8])]) -> FieldValue {
    let value = |bytes: &[u8]| FieldValue::String(bytes.to_vec());
    FieldValue::Map(
        entries.iter().map(|(key, stored_value)| (key.as_bytes().to_vec(), value(stored_value))).collect(),
    )
}

fn span(
    service: &[u8],
    nick: Option<&[u8]>,
    sampled: bool,
    events: &[&str],
    entries: &[(&str, &[u8])],
) -> Span {
    let nick = nick.map_or(FieldValue::Null, |nick| FieldValue::String(nick.to_vec()));
    // The same strings, on some spans followed by a NULL.
    let mut notes: Vec<FieldValue> = events.iter().map(|event| FieldValue::text(*event)).collect();
    notes.extend((!sampled).then_some(FieldValue::Null));
    BTreeMap::from([
        ("ServiceName".to_owned(), FieldValue::String(service.to_vec())),
        ("Nick".to_owned(), nick),
        ("Sampled".to_owned(), FieldValue::Bool(sampled)),
        ("Events.Name".to_owned(), FieldValue::texts(events.iter().copied())),
        ("Notes".to_owned(), FieldValue::Array(notes)),
        ("SpanAttributes".to_owned(), map(entries)),
    ])
}

fn spans() -> Vec<Span> {
    vec![
        span(b"checkout", None, false, &["start", "exception"], &[]),
        span(b"checkout", Some(b"ada"), true, &["checkout"], &[("env", b"checkout"), ("flag", b"true")]),
        span(b"", Some(b""), true, &[], &[("env", b""), ("flag", b"false"), ("tags", b"[]")]),
        span(
            b"ada",
            Some(b"checkout"),
            false,
            &["t1", "t1"],
            &[("env", b"t1"), ("tags", b"[\"t1\",\"t2\"]")],
        ),
        span(
            b"t1",
            Some(b"t2"),
            true,
            &["t1", "t2"],
            &[("tenant.id", b"t1"), ("tenant.id", b"t9"), ("flag", b"yes")],
        ),
        span(b"payments", None, true, &["dev", "oncall"], &[("tags", b"[\"dev\",1]"), ("flag", b"true")]),
        span(b"check\xc3", Some(b"\xc3"), false, &["ada", ""], &[("env", b"\xff"), ("tenant.id", b"check")]),
        span(
            "größe".as_bytes(),
            Some("ß".as_bytes()),
            true,
            &["b", "checkout"],
            &[("flag", b"true"), ("tags", b"[\"checkout\",\"checkout\",\"a\"]")],
        ),
        span(
            b"out",
            Some(b"ada"),
            false,
            &["a", "ada"],
            &[("env", b"ada"), ("tenant.id", b"payments"), ("flag", b"false")],
        ),
        span(
            b"checkout",
            Some(b"t1"),
            true,
            &["a", "t1"],
            &[("env", b"t2"), ("tenant.id", b"ada"), ("tags", b"[\"checkout\"]")],
        ),
    ]
}

/// Returns the value of a field as ClickHouse stores it, in the form that the predicate tests use.
fn stored_value(field: &MarkedField, span: &Span) -> FieldValues {
    let FieldRef { map, name } = &field.field;
    let value = match map {
        None => span.get(name),
        Some(map) => span.get(map).and_then(|map| map.value_of_key(name.as_bytes())),
    };
    let value = value.filter(|value| **value != FieldValue::Null);
    let bytes = |value: &FieldValue| match value {
        FieldValue::String(bytes) => bytes.clone(),
        other => panic!("a string was expected in place of {other:?}"),
    };
    let parsed = field.source == FieldSource::MapKey;
    let stored_value = FieldValues { present: value.is_some(), ..FieldValues::default() };
    match (field.logical, value) {
        (_, None) | (LogicalType::Number, _) => stored_value,
        (LogicalType::String, Some(value)) => {
            FieldValues { defined: true, text: bytes(value), ..stored_value }
        }
        (LogicalType::Boolean, Some(FieldValue::Bool(flag))) => {
            FieldValues { defined: true, flag: *flag, ..stored_value }
        }
        (LogicalType::Boolean, Some(value)) => {
            let text = bytes(value);
            FieldValues {
                defined: text == b"true" || text == b"false",
                flag: text == b"true",
                ..stored_value
            }
        }
        (LogicalType::StringArray, Some(value)) if parsed => {
            match serde_json::from_slice::<Vec<String>>(&bytes(value)) {
                Ok(list) => FieldValues {
                    defined: true,
                    list: list.into_iter().map(String::into_bytes).collect(),
                    ..stored_value
                },
                Err(_) => stored_value,
            }
        }
        // Only the elements before a NULL, so that a test that reads them although the array is undefined is detected.
        (LogicalType::StringArray, Some(FieldValue::Array(elements))) => {
            let list: Vec<Vec<u8>> =
                elements.iter().take_while(|element| **element != FieldValue::Null).map(bytes).collect();
            FieldValues { defined: list.len() == elements.len(), list, ..stored_value }
        }
        (LogicalType::StringArray, Some(other)) => panic!("an array was expected in place of {other:?}"),
    }
}

fn stored(model: &AccessModel, span: &Span) -> Spans {
    model.fields.iter().map(|field| (field.field.name.clone(), stored_value(field, span))).collect()
}

/// Compares each expression that the checker accepts, and its negation, which must hold where the reference is false.
/// At least `least` expressions must be accepted.
#[track_caller]
fn assert_agreement(expressions: impl IntoIterator<Item = String>, least: usize) {
    let (model, caller, spans) = (model(), caller(), spans());
    let stored: Vec<Spans> = spans.iter().map(|span| stored(&model, span)).collect();
    let lower_and_evaluate = |expression: &str| {
        let checked = check(expression, &model).unwrap();
        let predicate = checked.predicate(&caller).unwrap_or_else(|| panic!("{expression} is too large"));
        let holds = |stored| holds(&predicate, stored, &HashMap::new());
        (stored.iter().map(holds).collect::<Vec<bool>>(), predicate)
    };
    let (mut accepted, mut seen) = (0, [false; 3]);
    for expression in expressions {
        let Ok(outcomes) = evaluate(&expression, &model, &caller, &spans) else { continue };
        accepted += 1;
        let positions_of = |wanted: &Outcome| outcomes.iter().map(|outcome| outcome == wanted).collect();
        let sides: [(String, Vec<bool>); 2] = [
            (expression.clone(), positions_of(&Outcome::True)),
            (format!("!({expression})"), positions_of(&Outcome::False)),
        ];
        for (side, expected) in sides {
            let (found, predicate) = lower_and_evaluate(&side);
            assert_eq!(found, expected, "{side}, of {outcomes:?}, became {predicate:?}");
        }
        for outcome in outcomes {
            seen[match outcome {
                Outcome::True => 0,
                Outcome::False => 1,
                Outcome::Error => 2,
            }] = true;
        }
    }
    assert!(accepted >= least, "{accepted} were accepted");
    assert_eq!(seen, [true; 3], "some are true, some false and some errors");
}

fn pairs<'a>(
    left: &'a [&'a str],
    right: &'a [&'a str],
    forms: &'a [&'a str],
) -> impl Iterator<Item = String> + 'a {
    let each = move |form: &'a str| {
        left.iter().flat_map(move |a| right.iter().map(move |b| form.replace("$a", a).replace("$b", b)))
    };
    forms.iter().copied().flat_map(each)
}

fn relations() -> Vec<String> {
    RELATIONS.iter().map(|relation| format!("$a {relation} $b")).collect()
}

#[test]
fn string_operators() {
    let mut forms = relations();
    forms.extend(["startsWith", "endsWith", "contains"].map(|function| format!("$a.{function}($b)")));
    let forms: Vec<&str> = forms.iter().map(String::as_str).collect();
    assert_agreement(pairs(&TEXTS, &TEXTS, &forms), 720);
}

#[test]
fn matches_operator() {
    let patterns = ["\"^check\"", "\"t[12]$\"", "\"\"", "\"^[^c]*$\"", "\"(?i)ADA\""];
    assert_agreement(pairs(&TEXTS, &patterns, &["$a.matches($b)"]), 45);
}

/// ClickHouse can use the table's key for it: see the index tests of the ClickHouse crate.
#[test]
fn a_pattern_with_a_fixed_prefix_adds_a_prefix_test() {
    let begins = |expression: &str| {
        let predicate = check(expression, &model()).unwrap().predicate(&caller()).unwrap();
        format!("{predicate:?}").contains("TextCall(StartsWith,")
    };
    assert!(begins("ServiceName.matches(\"^pay-[0-9]+$\")"));
    assert!(!begins("ServiceName.matches(\"pay-[0-9]+$\")"));
    assert!(!begins("!ServiceName.matches(\"^pay-[0-9]+$\")"));
}

#[test]
fn integer_operators() {
    let relations = relations();
    let forms: Vec<&str> = relations.iter().map(String::as_str).collect();
    assert_agreement(pairs(&INTEGERS, &INTEGERS, &forms), 480);
    assert_agreement(pairs(&TEXTS, &["0", "3", "8"], &["size($a) == $b", "size($a) > $b"]), 54);
    assert_agreement(pairs(&LISTS, &["0", "1", "2"], &["size($a) == $b", "size($a) > $b"]), 114);
}

#[test]
fn boolean_operators() {
    let mut forms = relations();
    forms
        .extend(["$a && $b", "$a || $b", "($a ? $b : $a)", "(Nick == \"ada\" ? $a : $b)"].map(str::to_owned));
    forms.push("Sampled && ($a || $b)".to_owned());
    forms.push("[$a, $b] == [true, Sampled]".to_owned());
    let forms: Vec<&str> = forms.iter().map(String::as_str).collect();
    assert_agreement(pairs(&BOOLEANS, &BOOLEANS, &forms), 640);
}

#[test]
fn list_operators() {
    assert_agreement(pairs(&LISTS, &LISTS, &["$a == $b", "$a != $b", "$a in [$b]"]), 1_000);
    assert_agreement(pairs(&TEXTS, &LISTS, &["$a in $b", "$a == $b", "[$a] == $b", "[$a, Nick] == $b"]), 550);
    assert_agreement(pairs(&BOOLEANS, &LISTS, &["$a in $b"]), 87);
}

#[test]
fn macros() {
    let bodies = [
        "x == \"checkout\"",
        "x == $b",
        "x < $b",
        "x.startsWith($b) && Sampled",
        "x in [$b, \"a\"]",
        "size(x) == 2 || $b == \"t1\"",
        "Events.Name.exists(y, x == y)",
        "true",
        "false",
    ];
    let forms: Vec<String> = ["exists", "all", "exists_one"]
        .iter()
        .flat_map(|name| bodies.iter().map(move |body| format!("$a.{name}(x, {body})")))
        .collect();
    let forms: Vec<&str> = forms.iter().map(String::as_str).collect();
    let texts = ["Nick", "SpanAttributes.env", "user.attributes.missing"];
    assert_agreement(pairs(&LISTS, &texts, &forms), 1_530);
}
