//! Warnings are correct and rare: each holds on every span, and good policies have none.

use std::collections::BTreeMap;

use crate::support::{caller, model};
use proptest::prelude::*;
use tracewarden_model::{AttributeValue, Caller};
use tracewarden_policy::{CheckedPolicy, FieldValue, Outcome, Span, check, evaluate, role_warnings};

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

/// Returns all combinations of a few values, including hostile ones.
fn spans() -> Vec<Span> {
    let text = |text: &str| FieldValue::String(text.as_bytes().to_vec());
    let entry = |key: &str, value: &str| (key.as_bytes().to_vec(), text(value));
    let mut spans = Vec::new();
    for service in ["a", "ab", "b", ""] {
        for env in [None, Some("a"), Some("ab")] {
            for (sampled, nick, flag, tags, names) in [
                (true, None, Some("false"), None, vec![]),
                (false, Some("b"), Some("no"), Some("[]"), vec![text("a")]),
                (true, Some("b"), None, Some("[\"a\",\"b\"]"), vec![text("ab"), text("")]),
                (false, None, Some("true"), Some("a"), vec![text("b")]),
            ] {
                let entries = [("env", env), ("flag", flag), ("tags", tags)];
                let map = entries.into_iter().filter_map(|(key, value)| Some(entry(key, value?)));
                spans.push(BTreeMap::from([
                    ("ServiceName".to_owned(), text(service)),
                    ("Nick".to_owned(), nick.map_or(FieldValue::Null, text)),
                    ("Sampled".to_owned(), FieldValue::Bool(sampled)),
                    ("Events.Name".to_owned(), FieldValue::Array(names)),
                    ("SpanAttributes".to_owned(), FieldValue::Map(map.collect())),
                ]));
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
    let text = prop::sample::select(vec!["\"a\"", "\"ab\"", "\"b\"", "\"\""]);
    let compare = (value.clone(), prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]), text.clone())
        .prop_map(|(value, relation, text)| format!("{value} {relation} {text}"));
    let call =
        (value.clone(), prop::sample::select(vec!["startsWith", "endsWith", "contains"]), text.clone())
            .prop_map(|(value, function, text)| format!("{value}.{function}({text})"));
    let membership = (value.clone(), prop::collection::vec(text, 0..3))
        .prop_map(|(value, texts)| format!("{value} in [{}]", texts.join(", ")));
    let patterns = prop::sample::select(vec!["", ".*", "^", "a*$", "^.*$", "^a", "b|"]);
    let matches =
        (value.clone(), patterns).prop_map(|(value, pattern)| format!("{value}.matches(\"{pattern}\")"));
    let relation = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let size = (value.clone(), relation, -1..2)
        .prop_map(|(value, relation, bound)| format!("size({value}) {relation} {bound}"));
    let lists = vec!["Events.Name", "SpanAttributes[\"tags\"]", "[\"a\", \"b\"]", "user.attributes.x"];
    let of_elements = (
        prop::sample::select(lists),
        prop::sample::select(vec!["exists", "all", "exists_one"]),
        prop::sample::select(vec!["==", "!="]),
        value.clone(),
        prop::sample::select(vec!["", " && true", " || n == n", " && n == \"a\" && n == \"b\""]),
    )
        .prop_map(|(list, name, relation, value, more)| {
            format!("{list}.{name}(n, n {relation} {value}{more})")
        });
    let pair = (value.clone(), prop::sample::select(vec!["==", "!="]), value)
        .prop_map(|(left, relation, right)| format!("{left} {relation} {right}"));
    let plain = prop::sample::select(vec![
        "Sampled",
        "Sampled == false",
        "SpanAttributes[\"flag\"]",
        "SpanAttributes[\"flag\"] == false",
        "\"env\" in SpanAttributes",
        "(\"env\" in SpanAttributes) == false",
        "1 == 1",
        "\"a\" in [\"b\"]",
        "has(user.attributes.x)",
        "user.attributes.x",
        "user.attributes.x == true",
        "true",
        "false",
    ]);
    let leaf = prop_oneof![3 => compare, 2 => call, 2 => membership, 1 => pair, 2 => plain.prop_map(str::to_owned), 1 => matches, 1 => size, 1 => of_elements];
    leaf.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left} && {right})")),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left} || {right})")),
            inner.clone().prop_map(|inner| format!("!({inner})")),
            inner.clone().prop_map(|inner| format!("({inner}) == false")),
            inner.clone().prop_map(|inner| format!("({inner}) != true")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(condition, yes, no)| format!("({condition} ? {yes} : {no})")),
        ]
    })
}

/// Returns the text that a warning refers to.
fn underlined(expression: &str, column: u32, length: u32) -> &str {
    let start = expression.char_indices().nth(column as usize - 1).unwrap().0;
    &expression[start..start + length as usize]
}

/// Checks all conclusions from one or two facts about a value to a third, for a few facts.
#[test]
fn conclusions_from_facts_are_correct() {
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
    let single: Vec<CheckedPolicy> = facts.iter().map(|fact| checked(fact)).collect();
    let mut reported = [0; 2];
    for (one, first) in facts.iter().enumerate() {
        for (two, second) in facts.iter().enumerate().take(one + 1) {
            let both = checked(&format!("{first} && {second}"));
            let both_hold: Vec<bool> =
                truths[one].iter().zip(&truths[two]).map(|(one, two)| *one && *two).collect();
            if both.warnings().iter().any(|warning| warning.message.contains("access to no trace")) {
                reported[0] += 1;
                assert!(!both_hold.contains(&true), "{first} && {second} is never true");
            }
            for (three, third) in single.iter().enumerate() {
                let warnings = role_warnings(&[("both", &both), ("third", third)]);
                let shadowed = warnings[0].iter().any(|warning| warning.code == "shadowed");
                reported[1] += u32::from(shadowed);
                let follows = both_hold.iter().zip(&truths[three]).all(|(both, third)| !both || *third);
                assert!(!shadowed || follows, "{first} && {second} implies {}", facts[three]);
            }
        }
    }
    assert!(reported[0] > 30 && reported[1] > 500, "{reported:?}");
}

/// Checks warnings about spans without a field: the statement is true, and each suggestion has the effect that it
/// names.
fn check_negation_warnings(expression: &str, spans: &[Span]) -> u32 {
    let checked = check(expression, &model()).unwrap();
    let warnings_about = |checked: &CheckedPolicy, field: &str| {
        let warnings = checked.warnings().iter().filter(|warning| warning.code == "negated_absent_key");
        warnings.filter(|warning| warning.message.contains(field)).count()
    };
    let mut checked_count = 0;
    for warning in checked.warnings().iter().filter(|warning| warning.code == "negated_absent_key") {
        let part = underlined(expression, warning.column, warning.length);
        if check(part, &model()).is_err() {
            continue;
        }
        checked_count += 1;
        let field = format!("`{}`", warning.message.split('`').nth(1).unwrap());
        let without: Vec<Span> = spans
            .iter()
            .filter(|span| {
                match field.strip_prefix("`SpanAttributes[\"").and_then(|key| key.strip_suffix("\"]`")) {
                    None => span["Nick"] == FieldValue::Null,
                    Some(key) => match &span["SpanAttributes"] {
                        FieldValue::Map(entries) => entries.iter().all(|(name, _)| name != key.as_bytes()),
                        _ => panic!("a map"),
                    },
                }
            })
            .cloned()
            .collect();
        let never_true = !outcomes(part, &without).contains(&Outcome::True);
        let offers: Vec<&str> = warning.hint.as_deref().unwrap().split('`').skip(1).step_by(2).collect();
        let [absent, present] = offers[..] else {
            // Another part of the chain may be true.
            let alone = !warning.message.contains("these") || !part.contains("||");
            assert!(never_true || !alone, "{part}: {}", warning.message);
            continue;
        };
        if offers.iter().any(|offer| offer.contains('…')) {
            continue;
        }
        let truths = |text: &str, spans: &[Span]| -> Vec<bool> {
            outcomes(text, spans).into_iter().map(|outcome| outcome == Outcome::True).collect()
        };
        let absence = format!("!(\"{}\" in SpanAttributes) || ", field.split('"').nth(1).unwrap());
        if absent.trim_start_matches('(').starts_with(&absence) {
            assert!(never_true, "{part}: {}", warning.message);
            assert!(truths(absent, &without).iter().all(|holds| *holds), "{absent} for {part}");
        }
        let with: Vec<Span> = spans.iter().filter(|span| !without.contains(span)).cloned().collect();
        assert_eq!(truths(absent, &with), truths(part, &with), "{absent} for {part}");
        assert_eq!(truths(present, spans), truths(part, spans), "{present} for {part}");
        let start = expression.char_indices().nth(warning.column as usize - 1).unwrap().0;
        let end = start + warning.length as usize;
        for offer in [absent, present] {
            let pasted = format!("{}{offer}{}", &expression[..start], &expression[end..]);
            let checked_again =
                check(&pasted, &model()).unwrap_or_else(|errors| panic!("{pasted}: {errors:?}"));
            assert!(
                warnings_about(&checked_again, &field) < warnings_about(&checked, &field),
                "{pasted} for {expression}"
            );
        }
    }
    checked_count
}

#[test]
fn warnings_about_negations_are_correct_and_fixes_compile() {
    let checked_count = |expression: &str| check_negation_warnings(expression, &spans());
    let env = "SpanAttributes[\"env\"]";
    for (expression, expected) in [
        // If one part is false, the negation is true, with or without the key.
        (format!("!({env} == \"a\" && ServiceName == \"b\")"), 0),
        (format!("!(Sampled ? {env} == \"a\" : ServiceName == \"b\")"), 0),
        (format!("!(Events.Name.exists(n, n == {env}))"), 0),
        (format!("!({env} == \"a\" || ServiceName == \"b\")"), 1),
        (format!("!(Sampled ? {env} == \"a\" : {env} == \"b\")"), 1),
        (format!("{env} != \"a\" && {env} != \"b\""), 1),
        (format!("({env} != \"a\") && ({env} != \"b\")"), 1),
        (format!("{env} != \"a\" || Sampled || {env} != \"b\""), 1),
        (format!("Sampled || {env} != \"a\" && (Sampled || Nick == \"b\") && {env} != \"b\""), 1),
        ("SpanAttributes[\"flag\"] == false".to_owned(), 1),
        ("false == SpanAttributes[\"flag\"]".to_owned(), 1),
        ("SpanAttributes[\"flag\"] != true".to_owned(), 1),
        (format!("{env} in [\"a\"] == false"), 1),
        (format!("({env} == \"a\") == false"), 1),
        (format!("({env} != \"a\") == false"), 0),
        ("(\"env\" in SpanAttributes) == false".to_owned(), 0),
        (format!("(\"env\" in SpanAttributes) == false || {env} != \"a\""), 0),
    ] {
        assert_eq!(checked_count(&expression), expected, "{expression}");
    }
}

#[test]
fn constant_policies_get_warnings() {
    for (expression, consequence) in [
        ("ServiceName == \"a\" || 1 == 1", "access to every trace"),
        ("ServiceName == \"a\" || true", "access to every trace"),
        ("ServiceName == ServiceName", "access to every trace"),
        ("ServiceName in [\"a\", ServiceName]", "access to every trace"),
        ("ServiceName.startsWith(\"\")", "access to every trace"),
        ("ServiceName.endsWith(\"\")", "access to every trace"),
        ("ServiceName.contains(\"\")", "access to every trace"),
        ("!(ServiceName != ServiceName)", "access to every trace"),
        ("1 == 1", "access to every trace"),
        ("\"a\" in user.roles || !(\"a\" in user.roles)", "access to every trace"),
        // A string that is not UTF-8 has no size and matches no pattern.
        ("ServiceName.matches(\"\")", "true wherever its fields have a value"),
        ("ServiceName.matches(\".*\")", "true wherever its fields have a value"),
        ("ServiceName.matches(\"^\")", "true wherever its fields have a value"),
        ("size(ServiceName) >= 0", "true wherever its fields have a value"),
        ("-1 < size(ServiceName)", "true wherever its fields have a value"),
        ("ServiceName >= \"\"", "true wherever its fields have a value"),
        ("SpanAttributes[\"env\"] == SpanAttributes[\"env\"]", "true wherever its fields have a value"),
        ("SpanAttributes[\"env\"].contains(\"\")", "true wherever its fields have a value"),
        ("ServiceName == \"a\" && false", "access to no trace"),
        ("size(ServiceName) < 0", "access to no trace"),
        ("size(ServiceName) == -1", "access to no trace"),
        ("ServiceName < ServiceName", "access to no trace"),
        ("Events.Name.exists(n, n == \"a\" && n == \"b\")", "access to no trace"),
    ] {
        let checked = check(expression, &model()).unwrap();
        let [only] = checked.warnings() else { panic!("{expression}: {:?}", checked.warnings()) };
        assert_eq!(only.code, "constant");
        assert!(only.message.contains(consequence), "{expression}: {}", only.message);
    }
    for expression in
        ["ServiceName.matches(\"^.*$\")", "ServiceName.matches(\"a|^$\")", "size(ServiceName) > 0"]
    {
        let warnings = check(expression, &model()).unwrap().warnings().to_vec();
        assert!(warnings.iter().all(|warning| warning.code != "constant"), "{expression}: {warnings:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn warnings_are_correct_on_every_span(first in conditions(), second in conditions(), joined in 0..3) {
        // Combine related conditions, so that there is something to warn about.
        let second = match joined {
            0 => second,
            1 => format!("{first} && {second}"),
            _ => format!("{second} || {first}"),
        };
        let checked = |text: &str| -> CheckedPolicy { check(text, &model()).unwrap() };
        check_negation_warnings(&second, &spans());
        let (one, other) = (checked(&first), checked(&second));
        let spans = spans();
        for expression in [&first, &second] {
            for warning in checked(expression).warnings().iter().filter(|warning| warning.code == "constant") {
                let part = underlined(expression, warning.column, warning.length);
                // A statement about the whole policy applies to it regardless of the part.
                let consequences = [("access to no trace", false), ("access to every trace", true)];
                for (consequence, outcome) in consequences {
                    let message = &warning.message;
                    let reported = message.contains(consequence) && !message.contains("or to none");
                    let so = |of: &Outcome| (*of == Outcome::True) == outcome;
                    prop_assert!(!reported || outcomes(expression, &spans).iter().all(so), "{expression}");
                }
                // The body of a macro has no meaning without the macro.
                if check(part, &model()).is_err() {
                    continue;
                }
                let says = |words: &str| warning.message.contains(words);
                let unlike = match () {
                    () if says("or to none") => continue,
                    () if says("always true") || says("wherever") => Outcome::False,
                    () if says("this policy grants access to every trace") => Outcome::False,
                    () => Outcome::True,
                };
                let outcomes = outcomes(part, &spans);
                prop_assert!(!outcomes.contains(&unlike), "{part} in {expression}: {}", warning.message);
                if says("always true") {
                    prop_assert!(outcomes.iter().all(|outcome| *outcome == Outcome::True), "{part}");
                }
            }
        }
        let warnings = role_warnings(&[("one", &one), ("other", &other)]);
        let (firsts, seconds) = (outcomes(&first, &spans), outcomes(&second, &spans));
        let reported = |at: usize, code: &str| warnings[at].iter().any(|warning| warning.code == code);
        for (first, second) in firsts.iter().zip(&seconds) {
            let (first, second) = (*first == Outcome::True, *second == Outcome::True);
            prop_assert!(!reported(0, "shadowed") || !first || second);
            prop_assert!(!reported(1, "shadowed") || !second || first);
            prop_assert!(!reported(1, "repeated") || first == second);
        }
    }
}
