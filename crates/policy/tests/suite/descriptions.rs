//! Tests the English descriptions of predicates: each form of policy, different meanings have different descriptions,
//! and the length is bounded.

use std::collections::HashMap;
use std::sync::Arc;

use crate::support::predicates::{FieldValues, Spans, atom, holds, predicate, value};
use crate::support::{caller, field, model};
use proptest::prelude::*;
use tracewarden_model::{AccessModel, Caller, FieldRef, FieldSource, LogicalType, MarkedField};
use tracewarden_policy::predicate::{Atom, Int, Quantifier, Relation, Text};
use tracewarden_policy::{Predicate, check, describe};

/// The documented maximum.
const MAX_CHARACTERS: usize = 5_000;

fn description_of(expression: &str, model: &AccessModel, caller: &Caller) -> String {
    match check(expression, model).map(|checked| checked.predicate(caller)) {
        Ok(Some(predicate)) => describe(&predicate),
        Ok(None) => "too large".to_owned(),
        Err(errors) => format!("refused: {errors:?}"),
    }
}

#[track_caller]
fn assert_description(expression: &str, expected: &str) {
    assert_eq!(description_of(expression, &model(), &caller()), expected, "{expression}");
}

#[test]
fn values() {
    assert_description("true", "every span");
    assert_description("false", "no span");
    assert_description("\"admin\" in user.roles", "no span");
    assert_description("user.attributes.lead", "every span");
    assert_description(r#"ServiceName == "checkout""#, r#"ServiceName is "checkout""#);
    assert_description(r#""checkout" == ServiceName"#, r#"ServiceName is "checkout""#);
    assert_description(r#"ServiceName != "checkout""#, r#"ServiceName is not "checkout""#);
    assert_description(r#"ServiceName in ["a", "b"]"#, r#"ServiceName is one of "a", "b""#);
    assert_description(r#"!(ServiceName in ["a", "b"])"#, r#"ServiceName is none of "a", "b""#);
    assert_description(r#"ServiceName < "m""#, r#"ServiceName sorts before "m""#);
    assert_description(r#"ServiceName >= "m""#, r#"ServiceName sorts no earlier than "m""#);
    assert_description(r#"ServiceName.startsWith("pay")"#, r#"ServiceName starts with "pay""#);
    assert_description(r#"!ServiceName.endsWith("-dev")"#, r#"ServiceName does not end with "-dev""#);
    assert_description(r#"ServiceName.contains("pay")"#, r#"ServiceName contains "pay""#);
    assert_description(
        r#"ServiceName.startsWith("a") || ServiceName.startsWith("b")"#,
        r#"ServiceName starts with one of "a", "b""#,
    );
    assert_description(r#"size(ServiceName) > 3"#, "ServiceName has more than 3 characters");
    assert_description(r#"size(ServiceName) == 0"#, "ServiceName is empty");
    assert_description(r#"ServiceName.size() != 1"#, "ServiceName does not have exactly 1 character");
    assert_description("Sampled", "Sampled is true");
    assert_description("!Sampled", "Sampled is false");
    assert_description("Sampled == false", "Sampled is false");
}

#[test]
fn patterns_are_readable() {
    assert_description(
        r#"ServiceName.matches("pay(ments)?-\\d+")"#,
        r"ServiceName matches the pattern `pay(ments)?-\d+`",
    );
    assert_description(
        r#"ServiceName.matches("^pay-[a-z]+$")"#,
        "ServiceName matches the pattern `^pay-[a-z]+$`",
    );
    assert_description(r#"!ServiceName.matches("^pay")"#, "ServiceName does not match the pattern `^pay`");
}

#[test]
fn absence_is_mentioned_where_it_matters() {
    assert_description(r#"SpanAttributes["tenant.id"] == "t1""#, r#"SpanAttributes["tenant.id"] is "t1""#);
    assert_description(
        r#"SpanAttributes["tenant.id"] in user.attributes.tenants"#,
        r#"SpanAttributes["tenant.id"] is one of "t1", "t2""#,
    );
    assert_description(
        r#"SpanAttributes["env"] != "prod""#,
        r#"SpanAttributes["env"] is present and is not "prod""#,
    );
    assert_description(
        r#"!SpanAttributes["env"].startsWith("prod")"#,
        r#"SpanAttributes["env"] is present and does not start with "prod""#,
    );
    assert_description(r#""env" in SpanAttributes"#, r#"SpanAttributes["env"] is present"#);
    assert_description(r#"!has(SpanAttributes.env)"#, r#"SpanAttributes["env"] is absent"#);
    assert_description(
        r#"!("env" in SpanAttributes) || SpanAttributes["env"] != "prod""#,
        r#"SpanAttributes["env"] is absent or SpanAttributes["env"] is not "prod""#,
    );
    assert_description(
        r#"SpanAttributes["env"] != "prod" && ServiceName == "a""#,
        r#"SpanAttributes["env"] is present and is not "prod" and ServiceName is "a""#,
    );
    assert_description(
        r#"ServiceName == "a" || SpanAttributes["env"] != "prod""#,
        r#"ServiceName is "a" or (SpanAttributes["env"] is present and is not "prod")"#,
    );
    assert_description(
        r#"SpanAttributes["env"] == "a" || SpanAttributes["env"].endsWith("b")"#,
        r#"SpanAttributes["env"] is "a" or SpanAttributes["env"] ends with "b""#,
    );
    // Only one alternative is about the field.
    assert_description(
        r#"has(SpanAttributes.env) && SpanAttributes["env"] != "x" && (Sampled || ServiceName == "a")"#,
        r#"SpanAttributes["env"] is present and is not "x" and (Sampled is true or ServiceName is "a")"#,
    );
    assert_description(
        r#"SpanAttributes["env"] == SpanAttributes["tenant.id"]"#,
        r#"SpanAttributes["env"] is the same as SpanAttributes["tenant.id"]"#,
    );
    assert_description(
        r#"SpanAttributes["env"] == ServiceName"#,
        r#"SpanAttributes["env"] is the same as ServiceName"#,
    );
    assert_description(
        r#"ServiceName.startsWith(SpanAttributes["env"])"#,
        r#"ServiceName starts with the value of SpanAttributes["env"]"#,
    );
    assert_description(r#"SpanAttributes["flag"]"#, r#"SpanAttributes["flag"] is true"#);
    assert_description(r#"!SpanAttributes["flag"]"#, r#"SpanAttributes["flag"] is false"#);
    assert_description(
        r#"size(SpanAttributes["env"]) < 3"#,
        r#"SpanAttributes["env"] is present and has fewer than 3 characters"#,
    );
    assert_description(r#"Nick != "x""#, r#"Nick is present and is not "x""#);
}

#[test]
fn lists_and_macros() {
    assert_description(r#""error" in Events.Name"#, r#"some element of Events.Name is "error""#);
    assert_description(r#"!("error" in Events.Name)"#, r#"no element of Events.Name is "error""#);
    assert_description(
        r#"Events.Name.exists(n, n == "a" || n == "b")"#,
        r#"some element of Events.Name is one of "a", "b""#,
    );
    assert_description(
        r#"Events.Name.exists(n, n.startsWith("e"))"#,
        r#"some element of Events.Name starts with "e""#,
    );
    assert_description(
        r#"Events.Name.all(n, n.startsWith("e"))"#,
        r#"every element of Events.Name starts with "e""#,
    );
    assert_description(
        r#"!Events.Name.all(n, n.matches("e"))"#,
        "some element of Events.Name does not match the pattern `e`",
    );
    assert_description(
        r#"Events.Name.exists_one(n, n == "a")"#,
        r#"exactly one element of Events.Name is "a""#,
    );
    assert_description(
        r#"Events.Name.exists(n, n.startsWith("a") && n.endsWith("b"))"#,
        r#"for some element x of Events.Name, (x starts with "a" and x ends with "b")"#,
    );
    assert_description(
        r#"Events.Name.all(n, SpanAttributes["tags"].exists(t, t == n))"#,
        r#"for every element x of Events.Name, (some element of SpanAttributes["tags"] is the same as x)"#,
    );
    assert_description(
        r#"SpanAttributes["tags"].exists(t, t == "b")"#,
        r#"some element of SpanAttributes["tags"] is "b""#,
    );
    assert_description(
        r#"!("b" in SpanAttributes["tags"])"#,
        r#"SpanAttributes["tags"] is present as a list and no element of SpanAttributes["tags"] is "b""#,
    );
    assert_description(r#"Events.Name == ["a", "b"]"#, r#"Events.Name is the list ["a", "b"]"#);
    assert_description(r#"size(Events.Name) >= 2"#, "Events.Name has at least 2 elements");
    assert_description(r#"["a", "b"].all(t, t in Events.Name)"#, r#"Events.Name has all of "a", "b""#);
    assert_description(
        r#"[ServiceName, SpanAttributes["env"]].exists(v, v == "a")"#,
        r#"SpanAttributes["env"] is present and (ServiceName is "a" or SpanAttributes["env"] is "a")"#,
    );
    assert_description(
        r#"[ServiceName, Nick].exists_one(v, v == "a")"#,
        r#"Nick is present and exactly one of (ServiceName is "a" or Nick is "a")"#,
    );
}

#[test]
fn junctions() {
    assert_description(
        r#"ServiceName == "a" && Sampled || ServiceName == "b" && !Sampled"#,
        r#"(ServiceName is "a" and Sampled is true) or (ServiceName is "b" and Sampled is false)"#,
    );
    assert_description(
        r#"(ServiceName == "a" || Sampled) && "x" in Events.Name"#,
        r#"(ServiceName is "a" or Sampled is true) and some element of Events.Name is "x""#,
    );
    assert_description(
        r#"Sampled ? ServiceName == "a" : ServiceName == "b""#,
        r#"(Sampled is true and ServiceName is "a") or (Sampled is false and ServiceName is "b")"#,
    );
    assert_description(
        r#"user.attributes.missing == "x" || SpanAttributes["env"] == user.attributes.team"#,
        r#"SpanAttributes["env"] is "payments""#,
    );
}

#[test]
fn invisible_characters_are_escaped() {
    let words = description_of(
        "ServiceName == \"a\\n\\\"b\\u202e\\u0000\" || ServiceName.matches(\"\\u200b`\")",
        &model(),
        &caller(),
    );
    assert_eq!(
        words,
        "ServiceName is \"a\\n\\\"b\\u202e\\u0000\" or ServiceName matches the pattern `\\x{200B}\\x{60}`"
    );
    let hostile = MarkedField {
        ..field(FieldRef::key("SpanAttributes", "a\u{202e}\n\"b"), LogicalType::String, "String")
    };
    let present = describe(&Predicate::atom(Atom::Present(Arc::new(hostile))));
    assert_eq!(present, "SpanAttributes[\"a\\u202e\\n\\\"b\"] is present");
}

#[test]
fn json_values_state_their_type() {
    let path = |logical| MarkedField {
        source: FieldSource::JsonPath,
        column_type: tracewarden_model::ColumnType::Dynamic,
        ..field(FieldRef::key("Attributes", "a.b"), logical, "String")
    };
    let defined = |logical| describe(&Predicate::atom(Atom::Defined(Arc::new(path(logical)))));
    assert_eq!(defined(LogicalType::String), "Attributes[\"a.b\"] is present as a text");
    assert_eq!(defined(LogicalType::Boolean), "Attributes[\"a.b\"] is present as a boolean");
    assert_eq!(defined(LogicalType::Number), "Attributes[\"a.b\"] is present as a number");
    let ne = Atom::CompareText(
        Relation::Ne,
        Text::Field(Arc::new(path(LogicalType::String))),
        Text::Literal("x".into()),
    );
    let guarded =
        Predicate::atom(Atom::Defined(Arc::new(path(LogicalType::String)))).and(Predicate::atom(ne));
    assert_eq!(describe(&guarded), "Attributes[\"a.b\"] is present as a text and is not \"x\"");
}

#[test]
fn long_descriptions_are_truncated_with_counts() {
    let many = |count: usize| {
        let values: Vec<String> = (0..count).map(|at| format!("\"v{at}\"")).collect();
        format!("ServiceName in [{}]", values.join(", "))
    };
    assert_description(
        &many(13),
        r#"ServiceName is one of "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9" … and 3 more"#,
    );
    let long = format!("ServiceName == \"{}\"", "x".repeat(300));
    assert_description(&long, &format!("ServiceName is \"{}\"… (300 characters)", "x".repeat(80)));
    let parts: Vec<String> =
        (0..20).map(|at| format!("(ServiceName.contains(\"{at}\") && size(Events.Name) == {at})")).collect();
    let words = description_of(&parts.join(" || "), &model(), &caller());
    assert!(words.ends_with(" or … 8 more conditions"), "{words}");
    let nested = (0..30).fold("Sampled".to_owned(), |inner, at| {
        format!("(ServiceName == \"{at}\" || (SpanAttributes[\"env\"] == \"{at}\" && {inner}))")
    });
    let words = description_of(&nested, &model(), &caller());
    assert!(words.contains('…') && words.chars().count() < MAX_CHARACTERS, "{words}");
}

/// Returns a test as the lowering creates it: with the condition that its values are defined.
fn guarded(atom: Atom, negated: bool) -> Predicate {
    let mut defined = Vec::new();
    let test = Predicate::atom(atom.clone());
    if matches!(atom, Atom::Present(_) | Atom::Defined(_)) {
        return if negated { test.negate() } else { test };
    }
    test.fields()
        .into_iter()
        .for_each(|field| defined.push(Predicate::atom(Atom::Defined(Arc::clone(field)))));
    Predicate::all(defined).and(if negated { test.negate() } else { test })
}

fn test() -> impl Strategy<Value = Predicate> {
    let plain =
        (atom(None), any::<bool>()).prop_filter_map("a test", |(predicate, negated)| match predicate {
            Predicate::Atom(atom) => Some(guarded((**atom).clone(), negated)),
            _ => None,
        });
    let quantifier = prop::sample::select(vec![Quantifier::Exists, Quantifier::All, Quantifier::ExistsOne]);
    let quantified = (quantifier, atom(Some(1)), atom(Some(1)), any::<bool>(), 0..3_u32).prop_map(
        |(quantifier, first, second, negated, shape)| {
            let body = match shape {
                0 => first,
                1 => first.and(second),
                _ => first.or(second.negate()),
            };
            let array = tracewarden_policy::predicate::Array::Field(crate::support::predicates::marked(2));
            guarded(Atom::Quantified { quantifier, array, variable: 1, body }, negated)
        },
    );
    prop_oneof![5 => plain, 2 => quantified]
}

/// Returns a combination of tests, and how to add one more.
fn context() -> impl Strategy<Value = (Vec<Predicate>, u32)> {
    (prop::collection::vec(test(), 0..4), 0..6_u32)
}

fn within(context: &(Vec<Predicate>, u32), test: Predicate) -> Predicate {
    let (others, shape) = context;
    let mut others = others.iter().cloned();
    match shape {
        0 => Predicate::all(others.chain([test])),
        1 => Predicate::any(others.chain([test])),
        2 => {
            let first = others.next().unwrap_or(Predicate::True);
            first.and(Predicate::any(others.chain([test])))
        }
        3 => {
            let first = others.next().unwrap_or(Predicate::False);
            first.or(Predicate::all(others.chain([test])))
        }
        4 => Predicate::exactly_one(others.chain([test])),
        _ => Predicate::all(others.chain([test])).negate(),
    }
}

/// A string is present if and only if it has a value, as in every table; a list may be present without being a list of
/// strings.
fn sensible_spans() -> impl Strategy<Value = Vec<Spans>> {
    let held = |name: &'static str, is_list: bool| {
        let texts = prop::collection::vec(value(), 0..4);
        (0..3_u32, value(), texts).prop_map(move |(state, text, list)| {
            let present = state > 0;
            let defined = if is_list { state > 1 } else { present };
            // ClickHouse returns an empty value where there is none.
            let text = if defined { text } else { String::new() };
            let list = if defined { list } else { Vec::new() };
            (name.to_owned(), FieldValues::texts(present, defined, text, list))
        })
    };
    let span = (held("f", false), held("g", false), held("tags", true));
    prop::collection::vec(span.prop_map(|(f, g, tags)| Spans::from([f, g, tags])), 60).no_shrink()
}

fn is_cut(words: &str) -> bool {
    words.contains('…')
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// If two predicates that differ in one test have the same description, they are equivalent.
    #[test]
    fn equal_descriptions_are_equivalent(
        context in context(),
        left in test(),
        right in test(),
        spans in sensible_spans(),
    ) {
        let (left, right) = (within(&context, left).simplified(), within(&context, right).simplified());
        let (description, other) = (describe(&left), describe(&right));
        if description == other && !is_cut(&description) {
            for span in &spans {
                let none = HashMap::new();
                prop_assert_eq!(
                    holds(&left, span, &none), holds(&right, span, &none),
                    "{}\ndescribes {:?}\nand {:?}\nwhich differ on {:?}", description, left, right, span
                );
            }
        }
    }

    #[test]
    fn descriptions_are_one_line_of_bounded_length(predicate in predicate()) {
        for predicate in [predicate.simplified(), predicate] {
            let words = describe(&predicate);
            prop_assert!(!words.is_empty() && words.chars().count() < MAX_CHARACTERS, "{words}");
            prop_assert!(!words.chars().any(char::is_control), "{words}");
            prop_assert_eq!(words.matches('(').count(), words.matches(')').count(), "{}", words);
        }
    }
}

#[test]
fn the_largest_predicates_are_described_quickly() {
    let leaf = |at: usize| {
        let of = crate::support::predicates::marked(at % 2);
        let present = Predicate::atom(Atom::Defined(Arc::clone(&of)));
        let text = Text::Literal("\u{e0001}".repeat(50 + at));
        present.and(Predicate::atom(Atom::CompareText(Relation::Ne, Text::Field(of), text)))
    };
    let wide = Predicate::any((0..3_000).map(leaf));
    let deep = (0..400).fold(Predicate::True, |inner, at| match at % 2 {
        0 => inner.and(leaf(at)),
        _ => leaf(at).or(inner),
    });
    // Shared nodes: expanded, the tree is larger than any memory.
    let shared = (0..50).fold(leaf(0), |inner, at| {
        let size = Predicate::atom(Atom::CompareInt(
            Relation::Lt,
            Int::TextSize(Text::Field(crate::support::predicates::marked(0))),
            Int::Literal(at),
        ));
        Predicate::exactly_one([inner.clone().and(size.clone()), inner.or(size)])
    });
    for predicate in [wide, deep, shared] {
        let words = describe(&predicate);
        assert!(words.contains('…') && words.chars().count() < MAX_CHARACTERS, "{}", words.len());
    }
}
