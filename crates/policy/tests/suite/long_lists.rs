//! Callers with lists of thousands of elements: predicates stay small, and lowering is fast.

use crate::support::{caller, model};
use tracewarden_model::{AttributeValue, Caller};
use tracewarden_policy::{Predicate, check};

fn caller_with(count: usize) -> Caller {
    let mut caller = caller();
    let list = (0..count).map(|number| format!("team-{number}/")).collect();
    caller.attributes.insert("list".to_owned(), AttributeValue::Strings(list));
    caller
}

fn predicate(expression: &str, caller: &Caller) -> Option<Predicate> {
    check(expression, &model()).ok()?.predicate(caller)
}

#[test]
fn a_macro_over_ten_thousand_elements_becomes_one_test() {
    for expression in [
        "user.attributes.list.exists(x, ServiceName.startsWith(x))",
        "user.attributes.list.exists(x, Nick.endsWith(x))",
        "user.attributes.list.exists(x, SpanAttributes[\"env\"].contains(x))",
        "user.attributes.list.exists(x, SpanAttributes[\"env\"] == x)",
        "user.attributes.list.exists(x, x in Events.Name)",
        "user.attributes.list.exists(x, Events.Name.exists(e, e.startsWith(x)))",
        "user.attributes.list.exists(x, Sampled && SpanAttributes[\"env\"].startsWith(x))",
        "user.attributes.list.all(x, !ServiceName.startsWith(x))",
        "user.attributes.list.all(x, SpanAttributes[\"env\"] != x)",
        "!user.attributes.list.exists(x, SpanAttributes[\"env\"].startsWith(x))",
        "user.attributes.list.all(x, x in Events.Name)",
        "SpanAttributes[\"env\"] in user.attributes.list",
        "!(SpanAttributes[\"env\"] in user.attributes.list)",
    ] {
        let small = predicate(expression, &caller_with(2)).unwrap();
        let large = predicate(expression, &caller_with(10_000)).unwrap_or_else(|| panic!("{expression}"));
        let tests = |predicate: &Predicate| format!("{predicate:?}").matches("atom:").count();
        assert_eq!(tests(&large), tests(&small), "{expression}\n{small:?}");
        assert!(large.size() < 10_000, "{expression}: {}", large.size());
    }
}

#[test]
fn macros_that_need_several_tests_are_too_large() {
    for expression in [
        "user.attributes.list.exists(x, size(ServiceName) == size(x) && ServiceName < x && Nick > x)",
        "user.attributes.list.exists(x, user.attributes.list.exists(y, ServiceName.startsWith(x) && Nick == y))",
        "user.attributes.list.all(x, user.attributes.list.exists(y, x == y || Nick == y))",
    ] {
        assert!(predicate(expression, &caller_with(1)).is_some(), "{expression}");
        assert!(predicate(expression, &caller_with(10_000)).is_none(), "{expression}");
    }
}

#[test]
fn products_of_choice_lists_are_limited() {
    let choices = vec!["(Sampled ? ServiceName : Nick)"; 60].join(", ");
    let nine = (0..9).map(|at| format!("(Nick == \"{at}\" ? ServiceName : Nick)"));
    let nine = nine.collect::<Vec<_>>().join(", ");
    let numbers = |count| (0..count).map(|at| format!("\"{at}\"")).collect::<Vec<_>>().join(", ");
    for expression in [
        format!("Events.Name == [{choices}]"),
        format!("[{choices}] != Events.Name"),
        format!("[{choices}] in [Events.Name]"),
        format!("[[{choices}]] == [Events.Name]"),
        // Large intermediate results that become small when simplified.
        format!("[{}].exists(x, [{nine}] == Events.Name && x == ServiceName)", numbers(150)),
        format!("[{}].exists(x, [{nine}] == Events.Name && x == \"9\")", numbers(9)),
        format!("[{0}].all(x, [{0}].exists(y, [{nine}] != Events.Name || x == y))", numbers(20)),
    ] {
        let codes: Vec<&str> =
            check(&expression, &model()).unwrap_err().iter().map(|error| error.code).collect();
        assert_eq!(codes, ["too_large"], "{expression}");
    }
}

#[test]
fn hundreds_of_alternatives_are_compared_with_one_another() {
    let list = |kind: &str, count: usize| {
        let elements: Vec<String> = (0..count).map(|at| format!("\"{kind}{at}\"")).collect();
        format!("[{}]", elements.join(", "))
    };
    let texts = ["Nick", "ServiceName", "SpanAttributes[\"env\"]"];
    let all = texts.map(|text| format!("{text}.contains(x) && {text}.startsWith(x) && {text}.endsWith(x)"));
    let two = "Nick.contains(x) && ServiceName.contains(x)";
    let larger = format!("{}.exists(x, {})", list("b", 110), all.join(" && "));
    for expression in [
        format!("{}.exists(x, {two})", list("a", 220)),
        format!("{}.exists(x, {two}) || {larger}", list("a", 140)),
    ] {
        assert!(predicate(&expression, &caller()).is_some(), "{expression}");
    }
}

#[test]
fn lists_of_the_caller_that_multiply_are_refused_when_saved() {
    let nine = (0..9).map(|at| format!("(Nick == \"{at}\" ? ServiceName : Nick)"));
    let nine = nine.collect::<Vec<_>>().join(", ");
    let x = "user.attributes.x";
    let text = format!("{x}.exists(a, {x}.exists(b, {x}.exists(c, [a, b, c, {nine}] == Events.Name)))");
    assert_eq!(check(&text, &model()).unwrap_err()[0].code, "too_large");
}

#[test]
fn four_macros_can_be_nested() {
    let nested = |depth: usize| {
        let open: String = (0..depth).map(|at| format!("user.roles.exists(v{at}, ")).collect();
        check(&format!("{open}true{}", ")".repeat(depth)), &model())
    };
    assert!(nested(4).is_ok());
    assert_eq!(nested(5).unwrap_err()[0].code, "too_deep");
}
