//! Tests the meaning of expressions on one span, with the reference evaluator.

use std::collections::BTreeMap;

use crate::support::{caller, field, model};
use tracewarden_model::{AccessModel, AttributeValue, Caller, FieldRef, LogicalType};
use tracewarden_policy::{
    AccessScope, BrokenPolicy, CompiledPolicies, FieldValue, KeyConstraint, Outcome, PolicySource,
    RolePolicy, check, evaluate,
};

fn authorise<'a>(
    policies: impl IntoIterator<Item = RolePolicy<'a>>,
    key_constraint: Option<KeyConstraint<'a>>,
    caller: &Caller,
    model: &AccessModel,
) -> Result<AccessScope, BrokenPolicy> {
    tracewarden_policy::authorise(policies, key_constraint, caller, model, &CompiledPolicies::new())
}

fn span() -> BTreeMap<String, FieldValue> {
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
                entry("tenant.id", "t9"),
                entry("flag", "yes"),
                entry("tags", "[\"a\",\"b\"]"),
            ]),
        ),
    ])
}

#[track_caller]
fn expect_outcome(expression: &str, expected: &str) {
    let outcome = match evaluate(expression, &model(), &caller(), &[span()]).as_deref() {
        Ok([Outcome::True]) => "true".to_owned(),
        Ok([Outcome::False]) => "false".to_owned(),
        Ok(_) => "error".to_owned(),
        Err(diagnostics) => format!("refused: {diagnostics:?}"),
    };
    assert_eq!(outcome, expected, "{expression}");
}

/// The library has built-in values named `type` and `string`.
#[test]
fn columns_without_a_value_are_absent_under_any_name() {
    let mut model = model();
    for name in ["type", "string"] {
        model.fields.push(field(FieldRef::column(name), LogicalType::String, "Nullable(String)"));
        let expression = format!("{name} != \"internal\"");
        let mut span = BTreeMap::from([(name.to_owned(), FieldValue::text("external"))]);
        let outcomes = |span: &BTreeMap<String, FieldValue>| {
            evaluate(&expression, &model, &caller(), std::slice::from_ref(span)).unwrap()
        };
        assert!(matches!(outcomes(&span)[..], [Outcome::True]));
        span.insert(name.to_owned(), FieldValue::Null);
        assert!(matches!(outcomes(&span)[..], [Outcome::Error]), "{:?}", outcomes(&span));
        assert!(matches!(outcomes(&BTreeMap::new())[..], [Outcome::Error]));
    }
}

#[test]
fn columns_named_like_caller_attributes_do_not_shadow_them() {
    let mut model = model();
    let mut key = field(FieldRef::key("user.attributes", "k"), LogicalType::String, "String");
    (key.filterable, key.policy) = (true, false);
    model.fields.push(key);
    let asked = evaluate("\"team\" in user.attributes", &model, &caller(), &[span()]).unwrap();
    assert!(matches!(asked[..], [Outcome::True]), "{asked:?}");
}

#[test]
fn values_and_errors() {
    expect_outcome("ServiceName == \"checkout\"", "true");
    expect_outcome("SpanAttributes[\"tenant.id\"] == \"t1\"", "true");
    expect_outcome("SpanAttributes[\"env\"] != \"prod\"", "error");
    expect_outcome("!(SpanAttributes[\"env\"] == \"prod\")", "error");
    expect_outcome("\"env\" in SpanAttributes", "false");
    expect_outcome("has(SpanAttributes.flag)", "true");
    expect_outcome("SpanAttributes[\"flag\"]", "error");
    expect_outcome("SpanAttributes.flag == true", "error");
    expect_outcome("Nick == \"x\"", "error");
    expect_outcome("SpanAttributes[\"tags\"].exists(t, t == \"b\")", "true");
    expect_outcome("Events.Name.all(n, n.startsWith(\"e\"))", "false");
    expect_outcome("Sampled", "false");
}

#[test]
fn errors_are_absorbed() {
    expect_outcome("SpanAttributes[\"env\"] == \"prod\" || true", "true");
    expect_outcome("true || SpanAttributes[\"env\"] == \"prod\"", "true");
    expect_outcome("SpanAttributes[\"env\"] == \"prod\" && false", "false");
    expect_outcome("SpanAttributes[\"env\"] == \"prod\" || false", "error");
    expect_outcome("user.attributes.team || true", "true");
    expect_outcome("user.attributes.missing == \"x\" || ServiceName == \"checkout\"", "true");
}

#[test]
fn the_caller() {
    expect_outcome("\"dev\" in user.roles && user.username == \"ada\"", "true");
    expect_outcome("SpanAttributes[\"tenant.id\"] in user.attributes.tenants", "true");
    expect_outcome("user.attributes.tenants.exists(t, SpanAttributes[\"tenant.id\"].startsWith(t))", "true");
    expect_outcome("ServiceName == user.attributes.tenants", "false");
    expect_outcome("ServiceName in user.attributes.team", "error");
    expect_outcome("has(user.attributes.team) && !(\"x\" in user.attributes)", "true");
    expect_outcome("user.attributes[\"lead\"] ? ServiceName.contains(\"eck\") : false", "true");
}

#[test]
fn errors_have_positions_and_hints() {
    let refused = |text: &str| {
        let errors = check(text, &model()).unwrap_err();
        let first = &errors[0];
        (first.code, first.line, first.column, first.length, first.hint.is_some())
    };
    assert_eq!(refused("ServiceNam == \"x\""), ("unmarked_field", 1, 1, 10, true));
    assert_eq!(refused("true &&\n  SpanAttributes[\"secret\"] == \"x\""), ("unmarked_field", 2, 3, 24, true));
    assert_eq!(refused("SpanAttributes[\"nope\"] == \"x\"").0, "unmarked_field");
    assert_eq!(refused("Duration > 5"), ("number_field", 1, 1, 8, true));
    assert_eq!(refused("\"status\" in SpanAttributes").0, "number_field");
    assert_eq!(refused("ServiceName = \"x\"").0, "syntax");
    assert_eq!(refused("").0, "syntax");
    assert_eq!(refused("ServiceName"), ("type_mismatch", 1, 1, 11, true));
    assert_eq!(refused("ServiceName == 3").0, "type_mismatch");
    assert_eq!(refused("ServiceName + \"x\" == \"y\"").0, "unsupported");
    assert_eq!(refused("ServiceName.matches(\"(\")").0, "invalid_pattern");
    assert_eq!(refused("ServiceName.matches(user.username)").0, "unsupported");
    assert_eq!(refused("\"größe\" == ServiceNam"), ("unmarked_field", 1, 12, 10, true));
    assert_eq!(refused("user.role == \"x\""), ("unknown_name", 1, 1, 9, true));
    assert_eq!(refused("true && foo(\"x\")"), ("unknown_function", 1, 9, 8, true));
    assert_eq!(refused("Sampled && SpanAttributes.taem == \"a\""), ("unmarked_field", 1, 12, 19, true));
    assert_eq!(refused("size(ServiceName) > 1.25"), ("unsupported", 1, 21, 4, true));
    assert_eq!(refused("Events.Name.exists(user, user == \"x\")").0, "unsupported");
    assert_eq!(refused("ServiceName.lowerAscii() == \"x\"").0, "unknown_function");
    assert_eq!(refused("Events.Name.map(n, n) == []").0, "unknown_function");
    assert_eq!(refused("Sampled < user.attributes.lead").0, "type_mismatch");
    assert_eq!(refused("user.attributes.lead >= Sampled").0, "type_mismatch");
    assert_eq!(refused("user.attributes.tenants < Events.Name").0, "type_mismatch");
    // These are errors in CEL, on every span.
    assert_eq!(refused("-(-9223372036854775808) < 0").0, "unsupported");
    assert_eq!(refused("Events.Name.exists(.n, .n == \"a\")").0, "unsupported");
    assert_eq!(refused("Events.Name.exists(.ServiceName, .ServiceName == \"a\")").0, "unsupported");
    assert!(check("size(ServiceName) > -(-9223372036854775807)", &model()).is_ok());
    assert_eq!(refused("SpanAttributes == SpanAttributes").0, "type_mismatch");
    assert_eq!(refused("null == ServiceName").0, "unsupported");
    assert_eq!(refused("Sampled // \0"), ("syntax", 1, 12, 1, true));
    assert_eq!(refused("ServiceName == \"\0\""), ("syntax", 1, 17, 1, true));
    assert!(check("ServiceName == \"\\u0000\"", &model()).is_ok());
    assert_eq!(check("A == \"x\" || B == \"y\"", &model()).unwrap_err().len(), 2);
}

#[test]
fn hostile_text_is_refused_quickly() {
    let chains = [
        "a".to_owned() + &".b".repeat(4_000),
        "a".to_owned() + &".b".repeat(490),
        "1".to_owned() + &"+1".repeat(490),
        "-".repeat(990) + "1",
        "(".repeat(400) + "true" + &")".repeat(400),
        "true ? ".repeat(240) + "true" + &" : true".repeat(240),
        "true".to_owned() + &" == true".repeat(490),
        "ServiceName".to_owned() + &"[0]".repeat(300),
        "Events.Name.exists(x, ".repeat(60) + "true" + &")".repeat(60),
        "\"".to_owned() + &"\\".repeat(8_000),
        "'''".to_owned() + &"x".repeat(8_000),
        "\u{202e}\u{0}\u{feff} == 1".to_owned(),
        "ServiceName.matches(\"(((((((((((a{10}){10}){10}){10}){10}){10}){10})))))\")".to_owned(),
        "true".to_owned() + &" && true ?".repeat(100),
        "{".repeat(64),
        "? : ".repeat(200),
    ];
    for text in chains {
        let started = std::time::Instant::now();
        let outcome = check(&text, &model());
        let took = started.elapsed();
        assert!(took.as_secs_f64() < 1.0, "{took:?} for {text:.40}");
        assert!(outcome.is_err(), "{text:.40}");
    }
    // The parser folds negations, and a long flat chain is not a deep tree.
    assert!(check(&("[".repeat(60) + &"]".repeat(60) + " == []"), &model()).is_ok());
    assert!(check(&("!".repeat(990) + "true"), &model()).is_ok());
    let flat = "ServiceName == \"a\"".to_owned() + &" || ServiceName == \"b\"".repeat(200);
    assert!(check(&flat, &model()).is_ok());
}

#[test]
fn lists_of_a_caller_that_multiply_are_refused() {
    let list = |prefix: &str, count: u32| {
        AttributeValue::Strings((0..count).map(|number| format!("{prefix}{number}")).collect())
    };
    let mut caller = caller();
    caller.attributes.insert("many".to_owned(), list("m", 1_000));
    caller.attributes.insert("some".to_owned(), list("s", 45));
    let expression = "user.attributes.some.exists(s, user.attributes.many.exists(m, ServiceName.startsWith(m) && Nick == s))";
    let policy = RolePolicy { role: "r", title: "t", expression };
    assert_eq!(authorise([policy], None, &caller, &model()).unwrap_err().diagnostics[0].code, "too_large");
    caller.attributes.insert("some".to_owned(), list("s", 1));
    assert!(authorise([policy], None, &caller, &model()).is_ok());
}

#[test]
fn warnings_are_given() {
    let codes = |text: &str| -> Vec<&'static str> {
        check(text, &model()).unwrap().warnings().iter().map(|warning| warning.code).collect()
    };
    assert_eq!(codes("SpanAttributes[\"env\"] != \"prod\""), ["negated_absent_key"]);
    assert_eq!(codes("!(SpanAttributes[\"env\"] == \"prod\")"), ["negated_absent_key"]);
    assert_eq!(codes("SpanAttributes[\"env\"] == \"prod\""), [""; 0]);
    assert_eq!(codes("true"), ["constant"]);
}

#[test]
fn a_key_policy_only_restricts_access() {
    let scope = |policy: &str, key_constraint: Option<&str>| {
        let policy = RolePolicy { role: "r", title: "t", expression: policy };
        let key_constraint =
            key_constraint.map(|expression| KeyConstraint { expression, knows_policy_fields: false });
        authorise([policy], key_constraint, &caller(), &model()).unwrap()
    };
    let granting = "ServiceName == \"checkout\"";
    let restricting = "SpanAttributes[\"tenant.id\"] in user.attributes.tenants";
    let narrowed = scope(granting, Some(restricting));
    assert_eq!(narrowed.predicate(), scope(granting, None).predicate());
    assert_eq!(narrowed.key_constraint(), Some(scope(restricting, None).predicate()));
    // Key constraints that hold for this caller on every span, or on none.
    assert!(scope(granting, Some("\"dev\" in user.roles")).key_constraint().is_none());
    assert!(scope(granting, Some("\"admin\" in user.roles")).is_empty());
    assert!(scope(granting, Some("user.attributes.missing")).is_empty());
    assert!(scope("\"admin\" in user.roles", Some("true")).is_empty());
    assert!(scope("\"dev\" in user.roles", Some(restricting)).key_constraint().is_some());
    let key_constraint = KeyConstraint { expression: "true", knows_policy_fields: true };
    assert!(authorise([], Some(key_constraint), &caller(), &model()).unwrap().is_empty());
}

#[test]
fn a_key_policy_that_does_not_compile_denies_everything() {
    let caller = caller();
    let policy = RolePolicy { role: "r", title: "t", expression: "true" };
    for expression in ["Gone == \"x\"", "Duration > 5", "", "ServiceName"] {
        let key_constraint = Some(KeyConstraint { expression, knows_policy_fields: true });
        for policies in [&[policy][..], &[]] {
            let broken = authorise(policies.iter().copied(), key_constraint, &caller, &model()).unwrap_err();
            assert_eq!(broken.source, PolicySource::KeyConstraint, "{expression}");
        }
    }
    // Together they are too large, but neither is on its own.
    let list = |prefix: usize| {
        let values: Vec<String> = (0..480).map(|number| format!("{}", 1_000 * prefix + number)).collect();
        format!("size(ServiceName) in [{}]", values.join(", "))
    };
    let lists: Vec<String> = (0..41).map(list).collect();
    let policies = || lists.iter().map(|expression| RolePolicy { expression, ..policy });
    let large = list(41);
    let key_constraint = Some(KeyConstraint { expression: &large, knows_policy_fields: true });
    assert!(authorise(policies(), None, &caller, &model()).is_ok());
    assert!(authorise([policy], key_constraint, &caller, &model()).is_ok());
    let broken = authorise(policies(), key_constraint, &caller, &model()).unwrap_err();
    assert_eq!(broken.diagnostics[0].code, "too_large");
}

#[test]
fn the_size_of_a_scope_is_limited() {
    // Each comparison with this text takes 10,000 nodes, the maximum for one policy.
    let caller = |text: usize| {
        let mut caller = caller();
        caller.attributes.insert("long".to_owned(), AttributeValue::String("a".repeat(text)));
        caller
    };
    let most = 32 * 9_998;
    let expression = "ServiceName == user.attributes.long";
    let policy = RolePolicy { role: "r", title: "t", expression };
    let key_constraint = Some(KeyConstraint { expression, knows_policy_fields: true });
    let another = RolePolicy { expression: "Sampled", ..policy };
    let source = PolicySource::Role { role: "r".to_owned(), title: "t".to_owned() };
    assert!(authorise([policy], key_constraint, &caller(most), &model()).is_ok());
    for (policies, caller) in [(&[policy, another][..], caller(most)), (&[policy], caller(most + 32))] {
        let broken = authorise(policies.iter().copied(), key_constraint, &caller, &model()).unwrap_err();
        assert_eq!((broken.diagnostics[0].code, broken.source), ("too_large", source.clone()));
    }
}

#[test]
fn policy_only_fields_are_unknown_in_key_policies_of_users() {
    let mut model = model();
    for name in ["env", "ServiceName"] {
        model.fields.iter_mut().find(|field| field.field.name == name).unwrap().filterable = false;
    }
    let check = |expression: &str, knows_policy_fields| {
        KeyConstraint { expression, knows_policy_fields }.check(&model)
    };
    let mut without = model.clone();
    without.fields.retain(|field| field.filterable);
    for (hidden, misspelt) in [
        ("SpanAttributes[\"env\"] == \"x\"", "SpanAttributes[\"enw\"] == \"x\""),
        ("SpanAttributes.env == \"x\"", "SpanAttributes.enw == \"x\""),
        ("has(SpanAttributes.env)", "has(SpanAttributes.enw)"),
        ("\"env\" in SpanAttributes", "\"enw\" in SpanAttributes"),
        ("ServiceName == \"x\"", "ServiceNam == \"x\""),
        ("ServiceName == 1 || size(ServiceName) > \"x\"", "ServiceNam == 1 || size(ServiceNam) > \"x\""),
    ] {
        let as_if_absent = KeyConstraint { expression: hidden, knows_policy_fields: true }.check(&without);
        assert_eq!(check(hidden, false).unwrap_err(), as_if_absent.unwrap_err());
        let tells = |knows| {
            let diagnostics = format!("{:?}", check(misspelt, knows).unwrap_err());
            diagnostics.contains("env") || diagnostics.contains("ServiceName")
        };
        assert!(!tells(false) && tells(true), "{misspelt}");
    }
    assert!(check("ServiceName == \"x\" && has(SpanAttributes.env)", true).is_ok());
    // A variable may shadow the name of a hidden field.
    assert!(check("Events.Name.exists(ServiceName, ServiceName == \"x\")", false).is_ok());
    assert!(check("Nick == \"x\"", false).is_ok());
    let expression = "ServiceName == \"x\"";
    let policy = RolePolicy { role: "r", title: "t", expression };
    let key_constraint = |knows_policy_fields| Some(KeyConstraint { expression, knows_policy_fields });
    assert!(authorise([policy], key_constraint(true), &caller(), &model).is_ok());
    assert!(authorise([policy], key_constraint(false), &caller(), &model).is_err());
}

/// Prefix, suffix and substring tests compare bytes, as ClickHouse does.
#[test]
fn parts_of_characters_are_compared_by_bytes() {
    let on = |bytes: &[u8], policy: &str| {
        let span = BTreeMap::from([("Nick".to_owned(), FieldValue::String(bytes.to_vec()))]);
        evaluate(policy, &model(), &caller(), &[span]).unwrap().remove(0)
    };
    for (bytes, policy, expect_outcome) in [
        (&b"\xc3"[..], "\"é\".contains(Nick)", true),
        (b"\xc3", "\"é\".startsWith(Nick)", true),
        (b"\xc3", "\"é\".endsWith(Nick)", false),
        (b"\xa9", "\"aé\".endsWith(Nick)", true),
        (b"\xe6\x97", "[\"日é\"].exists(v, v.startsWith(Nick))", true),
        (b"\xe6\x97", "[\"日é\"].exists(v, v.endsWith(Nick))", false),
        (b"a\xc3", "Nick.startsWith(\"a\") && Nick.contains(Nick)", true),
        (b"\xc3", "Nick == \"é\"", false),
    ] {
        assert_eq!(
            on(bytes, policy),
            if expect_outcome { Outcome::True } else { Outcome::False },
            "{policy}"
        );
    }
}

#[test]
fn referenced_fields_do_not_depend_on_policy_order() {
    // Both are true on every span as long as the column type stays the same.
    let names =
        ["!(ServiceName in [])", "!(ServiceName in []) || !Sampled || Sampled", "ServiceName == \"x\""];
    let referenced_fields = |order: &[usize]| {
        let policies = order.iter().map(|at| RolePolicy { role: "r", title: "t", expression: names[*at] });
        let scope = authorise(policies, None, &caller(), &model()).unwrap();
        assert_eq!(scope.predicate(), &tracewarden_policy::Predicate::True);
        scope.referenced_fields().iter().map(|field| field.field.to_string()).collect::<Vec<_>>()
    };
    for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0], [1, 2, 0]] {
        assert_eq!(referenced_fields(&order), ["ServiceName"], "{order:?}");
    }
}
