//! Tests which parts of a policy determine its outcome on a span, and the reasons of errors.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use crate::support::{caller, model};
use tracewarden_policy::{FieldValue, Outcome, Span, evaluate, explain};

fn span() -> Span {
    let text = |text: &str| text.as_bytes().to_vec();
    let entry = |key: &str, value: &str| (text(key), FieldValue::text(value));
    BTreeMap::from([
        ("ServiceName".to_owned(), FieldValue::text("checkout")),
        ("Sampled".to_owned(), FieldValue::Bool(false)),
        ("Nick".to_owned(), FieldValue::Null),
        ("Events.Name".to_owned(), FieldValue::texts(["start", "exception"])),
        (
            "SpanAttributes".to_owned(),
            FieldValue::Map(vec![
                entry("tenant.id", "t1"),
                entry("flag", "yes"),
                entry("tags", "[\"a\",\"b\"]"),
                (text("env"), FieldValue::String(b"\xff".to_vec())),
            ]),
        ),
    ])
}

/// Each line of `expected` is a decisive part: its text, its outcome, and the values that it read.
#[track_caller]
fn assert_decision(expression: &str, expected: &str) {
    let verdict =
        explain(expression, &model(), &caller(), &[span()], &AtomicBool::new(false)).unwrap().remove(0);
    let outcome = evaluate(expression, &model(), &caller(), &[span()]).unwrap().remove(0);
    assert_eq!(verdict.outcome, outcome);
    let lines: Vec<String> = verdict
        .decided_by
        .iter()
        .map(|decision| {
            let text = expression.lines().nth(decision.line as usize - 1).unwrap();
            let part: String =
                text.chars().skip(decision.column as usize - 1).take(decision.length as usize).collect();
            let outcome = match &decision.reason {
                Some(reason) => format!("error, {reason}"),
                None => <&str>::from(decision.outcome).to_owned(),
            };
            assert_eq!(decision.reason.is_some(), decision.outcome == Outcome::Error);
            let read: Vec<String> =
                decision.read.iter().map(|reading| format!("{} = {}", reading.name, reading.value)).collect();
            format!("{part} is {outcome}; {}", read.join(", ")).trim_end_matches("; ").to_owned()
        })
        .collect();
    assert_eq!(lines.join("\n"), expected, "{expression}");
}

#[test]
fn the_alternative_that_is_true() {
    assert_decision(
        "ServiceName == \"cart\" || ServiceName == \"checkout\"",
        "ServiceName == \"checkout\" is true; ServiceName = \"checkout\"",
    );
}

#[test]
fn the_condition_that_is_false() {
    assert_decision("ServiceName == \"checkout\" && Sampled", "Sampled is false; Sampled = false");
    assert_decision(
        "!(ServiceName == \"checkout\")",
        "ServiceName == \"checkout\" is true; ServiceName = \"checkout\"",
    );
}

#[test]
fn both_sides_where_both_are_needed() {
    assert_decision(
        "Sampled || ServiceName == \"cart\"",
        "Sampled is false; Sampled = false\nServiceName == \"cart\" is false; ServiceName = \"checkout\"",
    );
    assert_decision(
        "\"flag\" in SpanAttributes && \"dev\" in user.roles",
        "\"flag\" in SpanAttributes is true\n\"dev\" in user.roles is true; user.roles = [\"dev\", \"oncall\"]",
    );
}

#[test]
fn the_innermost_error_with_its_reason() {
    assert_decision(
        "user.attributes.missing == ServiceName",
        "user.attributes.missing is error, the caller has no attribute `missing`; user.attributes[\"missing\"] = absent",
    );
    assert_decision(
        "!(ServiceName == \"cart\" || SpanAttributes[\"flag\"])",
        "SpanAttributes[\"flag\"] is error, the value of `SpanAttributes[\"flag\"]` is neither `true` nor `false`; \
         SpanAttributes[\"flag\"] = \"yes\"",
    );
    assert_decision("Nick.startsWith(\"a\")", "Nick is error, `Nick` is NULL on this span; Nick = NULL");
    assert_decision(
        "ServiceName in user.attributes.team",
        "ServiceName in user.attributes.team is error, the right side of `in` must be a list, this is a string; \
         ServiceName = \"checkout\", user.attributes[\"team\"] = \"payments\"",
    );
    assert_decision(
        "user.attributes.team || Sampled",
        "user.attributes.team is error, a condition must be a boolean, this is a string; \
         user.attributes[\"team\"] = \"payments\"",
    );
    assert_decision(
        "size(SpanAttributes[\"env\"]) > 3",
        "SpanAttributes[\"env\"] is error, the string is not UTF-8; SpanAttributes[\"env\"] = \"\\xff\"",
    );
}

#[test]
fn the_element_that_decides() {
    assert_decision(
        "Events.Name.exists(n, n == \"exception\")",
        "n == \"exception\" is true; n = \"exception\"",
    );
    assert_decision("Events.Name.all(n, n.startsWith(\"e\"))", "n.startsWith(\"e\") is false; n = \"start\"");
    assert_decision(
        "Events.Name.exists(n, n == \"end\")",
        "Events.Name.exists(n, n == \"end\") is false; Events.Name = [\"start\", \"exception\"]",
    );
    assert_decision(
        "user.attributes.tenants.exists(t, SpanAttributes[\"tags\"].exists(s, s == t))",
        "user.attributes.tenants.exists(t, SpanAttributes[\"tags\"].exists(s, s == t)) is false; \
         user.attributes[\"tenants\"] = [\"t1\", \"t2\"], SpanAttributes[\"tags\"] = \"[\\\"a\\\",\\\"b\\\"]\"",
    );
}

#[test]
fn the_condition_and_the_branch() {
    assert_decision(
        "Sampled ? true : ServiceName == \"checkout\"",
        "Sampled is false; Sampled = false\nServiceName == \"checkout\" is true; ServiceName = \"checkout\"",
    );
    assert_decision(
        "(Sampled ? ServiceName : Nick) == \"x\"",
        "Nick is error, `Nick` is NULL on this span; Nick = NULL",
    );
    assert_decision(
        "(Sampled ? true : Events.Name.all(n, Nick == n)) == Sampled",
        "Nick is error, `Nick` is NULL on this span; Nick = NULL",
    );
}

#[test]
fn evaluations_that_take_too_long_are_refused() {
    let mut caller = caller();
    let many = (0..3_000).map(|number| number.to_string()).collect();
    caller.attributes.insert("many".to_owned(), tracewarden_model::AttributeValue::Strings(many));
    let nested = "user.attributes.many.exists(a, user.attributes.many.exists(b, a == b && b == \"x\"))";
    let refused = explain(nested, &model(), &caller, &[span()], &AtomicBool::new(false)).unwrap_err();
    assert_eq!(refused[0].code, "too_large");
}

#[test]
fn the_deciding_part_is_underlined() {
    let expression =
        "ServiceName == \"cart\"\n  || !(\"flag\" in SpanAttributes) || SpanAttributes.env == \"\\n\"";
    let mut span = span();
    span.remove("ServiceName");
    let verdict =
        explain(expression, &model(), &caller(), &[span], &AtomicBool::new(false)).unwrap().remove(0);
    let shown = verdict.render("span 1", expression, Some("policy.cel"));
    assert_eq!(
        shown,
        r#"error: span 1
 --> policy.cel:1:1
  |
1 | ServiceName == "cart"
  | ^^^^^^^^^^^ error: `ServiceName` is absent on this span"#
    );
}
