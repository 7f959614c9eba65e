//! Past disagreements, each by its name: ClickHouse, the reference or both once gave another result. A new one is added here
//! when it is fixed.

use std::sync::Arc;

use tracewarden_model::{AttributeValue, Caller};
use tracewarden_policy::{FieldValue, Span};
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::{GeneratedPolicy, Generator};

use super::lowered_policy::{LoweredPolicy, Verdict, evaluate_both};
use super::{connect, load};

/// The expected result of a policy where a column has a value.
struct Case {
    name: &'static str,
    policy: &'static str,
    column: &'static str,
    value: FieldValue,
    expected: Verdict,
}

fn map(entries: &[(&str, &str)]) -> FieldValue {
    FieldValue::Map(
        entries.iter().map(|(key, value)| (key.as_bytes().to_vec(), FieldValue::text(*value))).collect(),
    )
}

fn cases() -> Vec<Case> {
    use Verdict::{Error, False, True};
    let mut cases = Vec::new();
    let mut case =
        |name, policy, column, value, expected| cases.push(Case { name, policy, column, value, expected });
    // `m[k]` first tries the position that the key had in the previous row.
    case(
        "the first of a repeated key counts",
        r#"SpanAttributes["env"] == "a""#,
        "SpanAttributes",
        map(&[("env", "a"), ("flag", "true"), ("env", "b")]),
        True,
    );
    case(
        "the second of a repeated key does not count",
        r#"SpanAttributes["env"] == "b""#,
        "SpanAttributes",
        map(&[("env", "a"), ("flag", "true"), ("env", "b")]),
        False,
    );
    // `has` and `indexOf` do not find a constant empty string among LowCardinality(String).
    case(
        "an empty string in an array of low cardinality",
        r#""" in Events.Name"#,
        "Events.Name",
        FieldValue::texts(["a", ""]),
        True,
    );
    case(
        "the empty key of a map of low cardinality",
        r#"SpanAttributes[""] == "x" && "" in SpanAttributes"#,
        "SpanAttributes",
        map(&[("env", "a"), ("", "x")]),
        True,
    );
    case(
        "the empty key of a map with NULL",
        r#""" in Labels"#,
        "Labels",
        FieldValue::Map(vec![(Vec::new(), FieldValue::Null)]),
        True,
    );
    // ClickHouse's parser skips a byte order mark and accepts an unpaired surrogate; JSON allows neither.
    case(
        "a byte order mark is not JSON",
        r#""a" in SpanAttributes["list"]"#,
        "SpanAttributes",
        map(&[("list", "\u{feff}[\"a\"]")]),
        Error,
    );
    case(
        "half of a surrogate pair is not JSON",
        r#"size(SpanAttributes["list"]) == 1"#,
        "SpanAttributes",
        map(&[("list", "[\"\\ud800\"]")]),
        Error,
    );
    case(
        "a trailing comma is not JSON",
        r#"size(SpanAttributes["list"]) == 1"#,
        "SpanAttributes",
        map(&[("list", "[\"a\",]")]),
        Error,
    );
    // Differences between RE2, as ClickHouse has it, and the reference's engine.
    case(
        "the point of a pattern stays in its line",
        r#"SpanName.matches("a.b")"#,
        "SpanName",
        FieldValue::text("a\nb"),
        False,
    );
    case(
        "the end of a pattern is not before a newline",
        r#"SpanName.matches("b$")"#,
        "SpanName",
        FieldValue::text("b\n"),
        False,
    );
    case(
        "digits of a pattern are those of ASCII",
        r#"SpanName.matches("^\\d$")"#,
        "SpanName",
        FieldValue::text("\u{663}"),
        False,
    );
    case(
        "the boundary of a pattern is that of ASCII",
        r#"SpanName.matches("\\bb")"#,
        "SpanName",
        FieldValue::text("\u{e9}b"),
        True,
    );
    // CEL reads these as members of members.
    case(
        "a path with a dot behind a dot",
        r#"Doc.free.text == "a""#,
        "Doc",
        FieldValue::Map(vec![(b"free.text".to_vec(), FieldValue::text("a"))]),
        True,
    );
    // The variable of a lambda hid a column with its name.
    case(
        "a column with a name of ours within a macro",
        r#"["b", SpanName].exists(v, Tags.exists(w, w == tw_trace))"#,
        "Tags",
        FieldValue::texts(["never a service"]),
        False,
    );
    case(
        "a string that is not UTF-8 has no size, and one side of || suffices",
        r#"size(SpanName) == 1 || SpanName.endsWith("b")"#,
        "SpanName",
        FieldValue::String(b"\xe2\x82b".to_vec()),
        True,
    );
    case(
        "a string that is not UTF-8 has no order",
        r#"!(SpanName < "a")"#,
        "SpanName",
        FieldValue::String(b"\xff".to_vec()),
        Error,
    );
    // The reference's placeholder for a byte that is not UTF-8 was not a part of a character.
    case(
        "a string that is not UTF-8 can be a part of a character",
        "\"\u{10FF80}prod\".endsWith(SpanName) && \"\u{e9}\".contains(SpanName) == false",
        "SpanName",
        FieldValue::String(b"\x80prod".to_vec()),
        True,
    );
    // ClickHouse stores a string that looks like a date as a string in one document and as a date in another.
    case(
        "a JSON string that looks like a date stays a string",
        r#"Doc["free"] == "true""#,
        "Doc",
        FieldValue::Map(vec![(b"free".to_vec(), FieldValue::text("2024-01-01"))]),
        False,
    );
    // `toString` of an enumeration that a map lacks raises an error.
    case(
        "an absent key of a map of enumerations",
        r#"KindOf["k"] == "a" || !("k" in KindOf)"#,
        "KindOf",
        map(&[]),
        True,
    );
    case(
        "a NULL among its elements spoils an array",
        r#""a" in Notes"#,
        "Notes",
        FieldValue::Array(vec![FieldValue::text("a"), FieldValue::Null]),
        Error,
    );
    case(
        "the padding of a FixedString is not part of the value",
        r#"Code == "a" && size(Code) == 1"#,
        "Code",
        FieldValue::text("a"),
        True,
    );
    case(
        "a value of an enumeration that the type does not have",
        r#"Kind != "no such name""#,
        "Kind",
        FieldValue::text("a"),
        True,
    );
    // The reference compared the placeholders for such bytes, and a whole character has none.
    case(
        "the first byte of a character is in it and begins it",
        "\"\u{e9}\".contains(SpanName) && \"\u{e9}\".startsWith(SpanName) && !\"\u{e9}\".endsWith(SpanName)",
        "SpanName",
        FieldValue::String(b"\xc3".to_vec()),
        True,
    );
    case(
        "the last byte of a character ends it, within a macro too",
        "[\"a\u{e9}\"].exists(v, v.endsWith(SpanName) && !v.startsWith(SpanName))",
        "SpanName",
        FieldValue::String(b"\xa9".to_vec()),
        True,
    );
    case(
        "a string that is not UTF-8 begins with a part of a character, and equals none",
        "\"\u{65e5}a\".startsWith(SpanName) && SpanName != \"\u{65e5}\" && SpanName.startsWith(\"\")",
        "SpanName",
        FieldValue::String(b"\xe6\x97".to_vec()),
        True,
    );
    cases
}

#[tokio::test]
async fn past_disagreements_stay_fixed() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let mut generator = Generator::new(3);
    let cases = cases();
    // Before each row with a case comes one that holds the same keys at other positions.
    let mut spans: Vec<Span> = Vec::new();
    for case in &cases {
        let mut before = generator.span();
        before.insert("SpanAttributes".to_owned(), map(&[("", "z"), ("list", "[]"), ("env", "z")]));
        let mut span = generator.span();
        span.insert(case.column.to_owned(), case.value.clone());
        spans.extend([before, span]);
    }
    load(&local, &spans).await;
    let caller = Caller {
        username: "ada".to_owned(),
        roles: ["dev".to_owned()].into(),
        attributes: [("team".to_owned(), AttributeValue::String("a".to_owned()))].into(),
    };
    let written =
        |text: &str| GeneratedPolicy { text: text.to_owned(), operations: Vec::new(), standalone: false };
    let lowered: Vec<LoweredPolicy> = cases
        .iter()
        .map(|case| {
            LoweredPolicy::new(written(case.policy), caller.clone())
                .unwrap_or_else(|| panic!("{}", case.name))
        })
        .collect();
    let spans = Arc::new(spans);
    let (by_store, by_reference) = evaluate_both(&store, &Arc::new(lowered), &spans).await;
    for (at, case) in cases.iter().enumerate() {
        let row = 2 * at + 1;
        assert_eq!(
            (by_store[at][row], by_reference[at][row]),
            (case.expected, case.expected),
            "{}",
            case.name
        );
        assert_eq!(by_store[at], by_reference[at], "{}", case.name);
    }
    println!("{} cases, each on {} spans", cases.len(), spans.len());
}
