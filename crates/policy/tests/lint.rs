//! Warnings are certain, and rare: what they say of a policy is so on every span, and good policies get none.

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use support::{caller, model};
use tracewarden_model::{AttributeValue, Caller};
use tracewarden_policy::{Checked, FieldValue, Outcome, Span, check, evaluate, role_warnings};

#[test]
fn good_policies_get_no_warning() {
    for policy in [
        "ServiceName == \"checkout\"",
        "ServiceName in [\"checkout\", \"payments\"]",
        "ServiceName.startsWith(\"checkout-\")",
        "ServiceName.matches(\"^checkout-v[0-9]+$\")",
        "ServiceName == user.attributes.service",
        "ServiceName in user.attributes.services",
        "ServiceName == user.username",
        "ServiceName in user.roles",
        "ServiceName != \"billing\"",
        "!(ServiceName in [\"billing\", \"payroll\"])",
        "!ServiceName.startsWith(\"internal-\")",
        "!ServiceName.contains(\"secret\")",
        "SpanAttributes[\"tenant.id\"] == \"t1\"",
        "SpanAttributes[\"tenant.id\"] in user.attributes.tenants",
        "SpanAttributes[\"tenant.id\"] == user.attributes.tenant",
        "SpanAttributes.env == \"dev\"",
        "SpanAttributes.env in [\"dev\", \"staging\"]",
        "\"env\" in SpanAttributes",
        "has(SpanAttributes.env)",
        "!(\"tenant.id\" in SpanAttributes)",
        "!(\"env\" in SpanAttributes) || SpanAttributes[\"env\"] != \"prod\"",
        "\"env\" in SpanAttributes && SpanAttributes[\"env\"] != \"prod\"",
        "has(SpanAttributes.env) && !SpanAttributes.env.startsWith(\"prod\")",
        "has(SpanAttributes.env) ? SpanAttributes.env != \"prod\" : true",
        "SpanAttributes.env.startsWith(\"p\") && SpanAttributes.env != \"prod\"",
        "SpanAttributes[\"flag\"]",
        "SpanAttributes[\"flag\"] && Sampled",
        "!Sampled && ServiceName == \"checkout\"",
        "\"vip\" in SpanAttributes[\"tags\"]",
        "SpanAttributes[\"tags\"].exists(tag, tag in user.attributes.tags)",
        "Events.Name.exists(name, name == \"exception\")",
        "\"exception\" in Events.Name && \"oncall\" in user.roles",
        "size(Events.Name) > 0 && ServiceName == \"checkout\"",
        "user.attributes.teams.exists(team, ServiceName.startsWith(team))",
        "\"admin\" in user.roles || ServiceName == \"checkout\"",
        "user.attributes.lead ? ServiceName.startsWith(\"pay\") : ServiceName == \"payments\"",
        "has(user.attributes.team) && ServiceName == user.attributes.team",
        "!(\"contractor\" in user.roles) && ServiceName == \"checkout\"",
        "ServiceName == \"checkout\" && SpanAttributes[\"tenant.id\"].endsWith(\"-test\")",
        "ServiceName == \"checkout\" && Events.Name.exists(n, n.contains(\"timeout\"))",
        "Nick == \"ada\" || Nick == \"grace\"",
        "ServiceName == \"a\" && Sampled || ServiceName == \"b\" && !Sampled",
    ] {
        let checked = check(policy, &model()).unwrap_or_else(|errors| panic!("{policy}: {errors:?}"));
        let warnings = role_warnings(&[("only", &checked)]);
        assert!(warnings[0].is_empty(), "{policy}: {warnings:?}");
    }
}

/// Every combination of a few values, hostile ones among them.
fn spans() -> Vec<Span> {
    let text = |text: &str| FieldValue::String(text.as_bytes().to_vec());
    let entry = |key: &str, value: &str| (key.as_bytes().to_vec(), text(value));
    let mut spans = Vec::new();
    for service in ["a", "ab", "b", ""] {
        for env in [None, Some("a"), Some("ab")] {
            for nick in [None, Some("b")] {
                for (sampled, flag) in [(true, "false"), (false, "no")] {
                    let map = env.map(|env| entry("env", env)).into_iter().chain([entry("flag", flag)]);
                    spans.push(BTreeMap::from([
                        ("ServiceName".to_owned(), text(service)),
                        ("Nick".to_owned(), nick.map_or(FieldValue::Null, text)),
                        ("Sampled".to_owned(), FieldValue::Bool(sampled)),
                        ("SpanAttributes".to_owned(), FieldValue::Map(map.collect())),
                    ]));
                }
            }
        }
    }
    spans
}

fn callers() -> Vec<Caller> {
    let with = |value| Caller { attributes: [("x".to_owned(), value)].into(), ..caller() };
    vec![
        caller(),
        with(AttributeValue::String("a".to_owned())),
        with(AttributeValue::Strings(vec!["a".to_owned(), "b".to_owned()])),
        with(AttributeValue::Bool(true)),
    ]
}

fn outcomes(expression: &str, spans: &[Span]) -> Vec<Outcome> {
    let of = |caller: &Caller| evaluate(expression, &model(), caller, spans).unwrap();
    callers().iter().flat_map(of).collect()
}

fn conditions() -> impl Strategy<Value = String> {
    let value =
        prop::sample::select(vec!["ServiceName", "SpanAttributes[\"env\"]", "Nick", "user.attributes.x"]);
    let text = prop::sample::select(vec!["\"a\"", "\"ab\"", "\"b\""]);
    let compare = (value.clone(), prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]), text.clone())
        .prop_map(|(value, relation, text)| format!("{value} {relation} {text}"));
    let call =
        (value.clone(), prop::sample::select(vec!["startsWith", "endsWith", "contains"]), text.clone())
            .prop_map(|(value, function, text)| format!("{value}.{function}({text})"));
    let among = (value.clone(), prop::collection::vec(text, 0..3))
        .prop_map(|(value, texts)| format!("{value} in [{}]", texts.join(", ")));
    let pair = (value.clone(), prop::sample::select(vec!["==", "!="]), value)
        .prop_map(|(left, relation, right)| format!("{left} {relation} {right}"));
    let plain = prop::sample::select(vec![
        "Sampled",
        "Sampled == false",
        "SpanAttributes[\"flag\"]",
        "\"env\" in SpanAttributes",
        "has(user.attributes.x)",
        "user.attributes.x",
        "user.attributes.x == true",
        "true",
        "false",
    ]);
    let leaf =
        prop_oneof![3 => compare, 2 => call, 2 => among, 1 => pair, 2 => plain.prop_map(str::to_owned)];
    leaf.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left} && {right})")),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left} || {right})")),
            inner.clone().prop_map(|inner| format!("!({inner})")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(condition, yes, no)| format!("({condition} ? {yes} : {no})")),
        ]
    })
}

/// The text that a warning is about.
fn covered<'a>(expression: &'a str, column: u32, length: u32) -> &'a str {
    let start = expression.char_indices().nth(column as usize - 1).unwrap().0;
    &expression[start..start + length as usize]
}

/// What one or two facts about a value say of a third, for all of a few.
#[test]
fn what_follows_from_facts_about_a_value_is_so() {
    let mut facts = Vec::new();
    for text in ["a", "ab", "b"] {
        for function in ["startsWith", "endsWith", "contains"] {
            facts.push(format!("ServiceName.{function}(\"{text}\")"));
        }
        facts.push(format!("ServiceName == \"{text}\""));
    }
    facts.push("ServiceName in [\"a\", \"ab\"]".to_owned());
    facts.push("ServiceName in [\"ab\", \"ba\", \"\"]".to_owned());
    facts.extend(facts.clone().into_iter().map(|fact| format!("!({fact})")));
    let spans: Vec<Span> = ["", "a", "b", "ab", "ba", "aab", "bab", "c"]
        .map(|name| BTreeMap::from([("ServiceName".to_owned(), FieldValue::String(name.into()))]))
        .into();
    let holds = |fact: &String| -> Vec<bool> {
        let outcomes = evaluate(fact, &model(), &caller(), &spans).unwrap();
        outcomes.into_iter().map(|outcome| outcome == Outcome::True).collect()
    };
    let truths: Vec<Vec<bool>> = facts.iter().map(holds).collect();
    let checked = |text: &str| check(text, &model()).unwrap();
    let single: Vec<Checked> = facts.iter().map(|fact| checked(fact)).collect();
    let mut said = [0; 2];
    for (one, first) in facts.iter().enumerate() {
        for (two, second) in facts.iter().enumerate().take(one + 1) {
            let both = checked(&format!("{first} && {second}"));
            let both_hold: Vec<bool> =
                truths[one].iter().zip(&truths[two]).map(|(one, two)| *one && *two).collect();
            if both.warnings().iter().any(|warning| warning.message.contains("opens nothing")) {
                said[0] += 1;
                assert!(!both_hold.contains(&true), "{first} && {second} is never true");
            }
            for (three, third) in single.iter().enumerate() {
                let warnings = role_warnings(&[("both", &both), ("third", third)]);
                let shadowed = warnings[0].iter().any(|warning| warning.code == "shadowed");
                said[1] += u32::from(shadowed);
                let follows = both_hold.iter().zip(&truths[three]).all(|(both, third)| !both || *third);
                assert!(!shadowed || follows, "{first} && {second} implies {}", facts[three]);
            }
        }
    }
    assert!(said[0] > 30 && said[1] > 500, "{said:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_said_is_so_on_every_span(first in conditions(), second in conditions(), joined in 0..3) {
        // What belongs together, so that there is something to be said.
        let second = match joined {
            0 => second,
            1 => format!("{first} && {second}"),
            _ => format!("{second} || {first}"),
        };
        let checked = |text: &str| -> Checked { check(text, &model()).unwrap() };
        let (one, other) = (checked(&first), checked(&second));
        let spans = spans();
        for expression in [&first, &second] {
            for warning in checked(expression).warnings().iter().filter(|warning| warning.code == "constant") {
                let part = covered(expression, warning.column, warning.length);
                let says = |words: &str| warning.message.contains(words);
                let unlike = match () {
                    () if says("or none") => continue,
                    () if says("always true") || says("wherever") || says("opens every trace") => Outcome::False,
                    () => Outcome::True,
                };
                let outcomes = outcomes(part, &spans);
                prop_assert!(!outcomes.contains(&unlike), "{part} in {expression}: {}", warning.message);
                if says("always true") {
                    prop_assert!(outcomes.iter().all(|outcome| *outcome == Outcome::True), "{part}");
                }
                if says("the policy opens nothing") {
                    prop_assert!(!self::outcomes(expression, &spans).contains(&Outcome::True), "{expression}");
                }
            }
        }
        let warnings = role_warnings(&[("one", &one), ("other", &other)]);
        let (firsts, seconds) = (outcomes(&first, &spans), outcomes(&second, &spans));
        let said = |at: usize, code: &str| warnings[at].iter().any(|warning| warning.code == code);
        for (first, second) in firsts.iter().zip(&seconds) {
            let (first, second) = (*first == Outcome::True, *second == Outcome::True);
            prop_assert!(!said(0, "shadowed") || !first || second);
            prop_assert!(!said(1, "shadowed") || !second || first);
            prop_assert!(!said(1, "repeated") || first == second);
        }
    }
}
