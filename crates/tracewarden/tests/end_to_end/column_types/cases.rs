//! Each field of the table with policies and conditions on it, and the traces that they match.

use serde_json::{Value, json};

use super::ID;

/// Expected results for a field.
pub struct Case {
    /// `map` and `name`.
    pub field: (Option<&'static str>, &'static str),
    /// The requested type; `None` for the natural one.
    pub logical: Option<&'static str>,
    /// The resulting type.
    pub resulting_type: &'static str,
    /// Policies, each with the traces to which it grants access.
    pub policies: &'static [(&'static str, &'static str)],
    /// Conditions, each with the traces that match.
    pub conditions: Vec<(Value, &'static str)>,
}

fn case(
    field: (Option<&'static str>, &'static str),
    logical: Option<&'static str>,
    resulting_type: &'static str,
    policies: &'static [(&'static str, &'static str)],
    conditions: Vec<(Value, &'static str)>,
) -> Case {
    Case { field, logical, resulting_type, policies, conditions }
}

fn op(op: &str, value: impl Into<Value>) -> Value {
    let value = value.into();
    match op {
        "exists" | "not_exists" => json!({ "op": op }),
        _ if value.is_array() => json!({"op": op, "values": value}),
        _ => json!({"op": op, "value": value}),
    }
}

/// All string operators; `x` is the value of trace `a` only.
fn strings(
    x: &str,
    ne: &'static str,
    exists: &'static str,
    absent: &'static str,
) -> Vec<(Value, &'static str)> {
    vec![
        (op("eq", x), "a"),
        (op("ne", x), ne),
        (op("in", json!([x, "nothing of all"])), "a"),
        (op("not_in", json!([x, "nothing of all"])), ne),
        (op("eq", "nothing of all"), ""),
        (op("exists", Value::Null), exists),
        (op("not_exists", Value::Null), absent),
    ]
}

/// All fields of the table.
pub fn cases() -> Vec<Case> {
    let mut cases = string_cases();
    cases.extend(array_cases());
    cases.extend(other_cases());
    cases
}

fn string_cases() -> Vec<Case> {
    let other = "00000000-0000-0000-0000-000000000001";
    let prefix = |text: &str, found| (op("prefix", text), found);
    let mut fixed = strings("ab", "bcd", "abcd", "");
    fixed.extend([
        prefix("ab", "ab"),
        (op("eq", ""), "c"),
        (op("eq", "a\u{0}b"), "d"),
        (op("eq", "ab\u{0}\u{0}"), ""),
        prefix("", "abcd"),
    ]);
    let mut kind = strings("server", "bcd", "abcd", "");
    kind.extend([
        prefix("s", "a"),
        (op("eq", "it's"), "b"),
        (op("eq", ""), "c"),
        (op("in", json!(["client", "no name of it"])), "d"),
    ]);
    let mut id = strings(ID, "bcd", "abcd", "");
    id.extend([
        prefix("61f0c404-", "a"),
        (op("eq", ID.to_uppercase()), ""),
        (op("ne", ID.to_uppercase()), "abcd"),
        (op("eq", other), "b"),
    ]);
    vec![
        case(
            (None, "Fixed"),
            None,
            "string",
            &[
                ("Fixed == 'ab'", "a"),
                ("Fixed != 'ab'", "bcd"),
                ("size(Fixed) == 4", "b"),
                ("size(Fixed) == 3", "d"),
                ("Fixed == ''", "c"),
                ("Fixed.startsWith('ab')", "ab"),
                ("Fixed.endsWith('b')", "ad"),
                ("Fixed.matches('^ab?$')", "a"),
                ("Fixed == LcFixed", "abc"),
            ],
            fixed.clone(),
        ),
        case(
            (None, "LcFixed"),
            None,
            "string",
            &[("LcFixed == 'ab'", "a"), ("LcFixed in ['abcd', 'ab']", "ab")],
            fixed.into_iter().filter(|(condition, _)| condition["value"] != "a\u{0}b").collect(),
        ),
        case(
            (None, "Kind"),
            None,
            "string",
            &[
                ("Kind == 'server'", "a"),
                ("Kind == \"it's\"", "b"),
                ("Kind in ['client', 'no such']", "d"),
                ("!(Kind in ['client', 'no such'])", "abc"),
                ("Kind < 'd'", "cd"),
                ("Kind.contains('r')", "a"),
                ("Kind == 'no such'", ""),
                ("Kind != 'no such'", "abcd"),
            ],
            kind,
        ),
        case(
            (None, "NKind"),
            None,
            "string",
            &[
                ("NKind == 'a, b'", "a"),
                ("NKind != 'a, b'", "b"),
                ("!(NKind == 'a, b')", "b"),
                ("NKind == 'c' || true", "abcd"),
            ],
            strings("a, b", "b", "ab", "cd"),
        ),
        case(
            (None, "Id"),
            None,
            "string",
            &[
                ("Id == '61f0c404-5cb3-11e7-907b-a6006ad3dba0'", "a"),
                ("Id == '61F0C404-5CB3-11E7-907B-A6006AD3DBA0'", ""),
                ("Id == 'no uuid'", ""),
                ("Id != 'no uuid'", "abcd"),
                ("Id == '00000000-0000-0000-0000-000000000000'", "cd"),
                ("Id == NId", "ab"),
            ],
            id,
        ),
        case(
            (None, "NId"),
            None,
            "string",
            &[("NId.startsWith('61')", "a"), ("NId != 'x'", "ab")],
            strings(ID, "b", "ab", "cd"),
        ),
        case(
            (None, "Lc"),
            None,
            "string",
            &[("Lc == 'x'", "a"), ("Lc != 'x'", "b")],
            strings("x", "b", "ab", "cd"),
        ),
        case(
            (Some("Text"), "s"),
            None,
            "string",
            &[
                ("Text['s'] == 'x'", "a"),
                ("Text.s != 'x'", "bd"),
                ("'s' in Text", "abd"),
                ("!has(Text.s)", "c"),
            ],
            strings("x", "bd", "abd", "c"),
        ),
        case(
            (Some("NText"), "s"),
            None,
            "string",
            &[
                ("NText['s'] == 'x'", "a"),
                ("NText.s != 'x'", "b"),
                ("'s' in NText", "abd"),
                ("!('s' in NText)", "c"),
            ],
            strings("x", "b", "abd", "c"),
        ),
        case(
            (Some("Kinds"), "k"),
            None,
            "string",
            &[("Kinds.k == 'x'", "a"), ("Kinds.k != 'x'", "b"), ("Kinds.k != 'no such'", "ab")],
            strings("x", "b", "ab", "cd"),
        ),
        case(
            (Some("Uuids"), "u"),
            None,
            "string",
            &[("Uuids.u == '61f0c404-5cb3-11e7-907b-a6006ad3dba0'", "a")],
            strings(ID, "b", "ab", "cd"),
        ),
        case(
            (Some("Fixeds"), "f"),
            None,
            "string",
            &[("Fixeds.f == 'ab'", "a"), ("Fixeds.f == ''", "d"), ("size(Fixeds.f) < 3", "ad")],
            strings("ab", "bd", "abd", "c"),
        ),
        case(
            (Some("Doc"), "team"),
            None,
            "string",
            &[
                ("Doc.team == 'blue'", "a"),
                ("Doc['team'] != 'blue'", "b"),
                ("'team' in Doc", "abd"),
                ("has(Doc.team) && Doc.team != 'blue'", "b"),
                ("!has(Doc.team)", "c"),
            ],
            strings("blue", "b", "abd", "c"),
        ),
        case(
            (Some("Doc"), "a \"b\""),
            None,
            "string",
            &[("Doc[\"a \\\"b\\\"\"] == 'quoted'", "a")],
            strings("quoted", "b", "abd", "c"),
        ),
        case(
            (Some("Doc"), "we`ird\\"),
            None,
            "string",
            &[("Doc[\"we`ird\\\\\"] == 'odd'", "a")],
            vec![(op("eq", "odd"), "a"), (op("ne", "odd"), "b")],
        ),
        case(
            (Some("Typed"), "a.b"),
            None,
            "string",
            &[("Typed.a.b == 'x'", "a"), ("Typed['a.b'] != 'x'", "bcd"), ("Typed.a.b == ''", "c")],
            strings("x", "bcd", "abcd", ""),
        ),
        case(
            (Some("Typed"), "free.path"),
            None,
            "string",
            &[("has(Typed.free.path)", ""), ("!has(Typed.free.path)", "abcd")],
            vec![(op("exists", Value::Null), ""), (op("not_exists", Value::Null), "abcd")],
        ),
    ]
}

fn array_cases() -> Vec<Case> {
    let lists = |x: &str, with: &'static str, both: &'static str| {
        vec![
            (op("has", x), with),
            (op("has_any", json!([x, "nothing of all"])), with),
            (op("has_all", json!([x, "nothing of all"])), ""),
            (op("has_any", json!([x, "y"])), both),
        ]
    };
    let mut tags = lists("x", "a", "ab");
    tags.push((op("has", ""), "a"));
    vec![
        case(
            (None, "Tags"),
            None,
            "string_array",
            &[
                ("'x' in Tags", "a"),
                ("!('x' in Tags)", "bcd"),
                ("size(Tags) == 0", "c"),
                ("Tags.all(t, t == 'y')", "bc"),
                ("Tags == ['x', '']", "a"),
                ("Tags.exists_one(t, t != 'z')", "bd"),
            ],
            tags,
        ),
        case(
            (None, "NTags"),
            None,
            "string_array",
            &[
                ("'x' in NTags", "a"),
                ("!('x' in NTags)", "bc"),
                ("size(NTags) == 2", "a"),
                ("NTags.exists(t, t == 'x')", "a"),
            ],
            lists("x", "a", "ab"),
        ),
        case(
            (None, "ETags"),
            None,
            "string_array",
            &[
                ("'x' in ETags", "ab"),
                ("ETags == ['x']", "a"),
                ("'no such' in ETags", ""),
                ("!('no such' in ETags)", "abcd"),
            ],
            vec![(op("has", "x"), "ab"), (op("has_any", json!(["y", "no such"])), "bd")],
        ),
        case(
            (None, "Ids"),
            None,
            "string_array",
            &[
                ("'61f0c404-5cb3-11e7-907b-a6006ad3dba0' in Ids", "a"),
                ("Ids.exists(i, i.startsWith('0'))", "b"),
            ],
            lists(ID, "a", "a"),
        ),
        case(
            (None, "Events.Name"),
            None,
            "string_array",
            &[("'start' in Events.Name", "a"), ("Events.Name.all(n, n != 'start')", "bcd")],
            lists("start", "a", "a"),
        ),
        case(
            (None, "Links.Rel"),
            None,
            "string_array",
            &[
                ("'child' in Links.Rel", "a"),
                ("Links.Rel.exists_one(r, r == 'follows')", "ab"),
                ("size(Links.Rel) == 0", "cd"),
            ],
            lists("child", "a", "a"),
        ),
        case(
            (None, "Links.Trace"),
            None,
            "string_array",
            &[("'t' in Links.Trace", "a"), ("Links.Trace == ['tttt']", "b")],
            lists("t", "a", "a"),
        ),
        case(
            (Some("Text"), "l"),
            Some("string_array"),
            "string_array",
            &[("'x' in Text.l", "a"), ("!('x' in Text.l)", "b"), ("size(Text.l) == 0", "b")],
            lists("x", "a", "a"),
        ),
        case(
            (Some("Lists"), "l"),
            None,
            "string_array",
            &[("'x' in Lists.l", "a"), ("!('x' in Lists.l)", "bd"), ("has(Lists.l)", "abd")],
            lists("x", "a", "a"),
        ),
        case(
            (Some("Doc"), "deep.tags"),
            Some("string_array"),
            "string_array",
            &[
                ("'x' in Doc.deep.tags", "a"),
                ("!('x' in Doc['deep.tags'])", "b"),
                ("has(Doc.deep.tags)", "abd"),
            ],
            lists("x", "a", "ab"),
        ),
        case(
            (Some("Typed"), "ids"),
            None,
            "string_array",
            &[("'x' in Typed.ids", "a"), ("size(Typed.ids) == 0", "cd")],
            lists("x", "a", "ab"),
        ),
    ]
}

fn other_cases() -> Vec<Case> {
    let flags = |not: &'static str| {
        vec![(op("eq", true), "a"), (op("ne", true), not), (op("eq", false), not), (op("ne", false), "a")]
    };
    let numbers = |value: f64, found: &'static str, more: &'static str| {
        vec![(op("eq", value), found), (op("gt", value - 0.25), more)]
    };
    vec![
        case(
            (None, "Flag"),
            None,
            "boolean",
            &[("Flag", "a"), ("!Flag", "bcd"), ("Flag == false", "bcd")],
            flags("bcd"),
        ),
        case(
            (None, "NFlag"),
            None,
            "boolean",
            &[("NFlag", "a"), ("!NFlag", "b"), ("NFlag ? false : true", "b")],
            flags("b"),
        ),
        case(
            (Some("Text"), "b"),
            Some("boolean"),
            "boolean",
            &[("Text.b", "a"), ("!Text.b", "b")],
            flags("b"),
        ),
        case(
            (Some("Flags"), "b"),
            None,
            "boolean",
            &[("Flags.b", "a"), ("!Flags.b", "b"), ("has(Flags.b)", "ab")],
            flags("b"),
        ),
        case(
            (Some("Doc"), "deep.flag"),
            Some("boolean"),
            "boolean",
            &[("Doc.deep.flag", "a"), ("!Doc.deep.flag", "b")],
            flags("b"),
        ),
        case(
            (Some("Typed"), "flag"),
            None,
            "boolean",
            &[("Typed.flag", "a"), ("!Typed.flag", "bcd")],
            flags("bcd"),
        ),
        case(
            (None, "Count"),
            None,
            "number",
            &[],
            vec![
                (op("eq", 9007199254740993_i64), "a"),
                (op("eq", 9007199254740992_i64), ""),
                (op("lt", 0), "bd"),
                (op("ne", -5), "ad"),
                (op("between", json!([-5, 1e18])), "ab"),
            ],
        ),
        case(
            (None, "Ratio"),
            None,
            "number",
            &[],
            vec![(op("eq", 0.1), "a"), (op("gte", 0), "abc"), (op("lt", 1e9), "abc")],
        ),
        case(
            (None, "At"),
            None,
            "number",
            &[],
            vec![(op("eq", 1_767_193_200.5), "a"), (op("gt", 1_700_000_000), "ab")],
        ),
        case(
            (Some("Text"), "n"),
            Some("number"),
            "number",
            &[],
            vec![(op("eq", 12), "a"), (op("lt", 0), "b"), (op("ne", 12), "b")],
        ),
        case(
            (Some("Numbers"), "n"),
            None,
            "number",
            &[],
            [numbers(1.5, "a", "a"), vec![(op("lte", 1.5), "ab"), (op("between", json!([-2, 1.5])), "ab")]]
                .concat(),
        ),
        case((Some("Numbers"), "i"), None, "number", &[], vec![(op("gt", 1e300), "d"), (op("lt", 0), "")]),
        case(
            (Some("Doc"), "deep.n"),
            Some("number"),
            "number",
            &[],
            vec![(op("eq", 3), "a"), (op("eq", 2.5), "b"), (op("lt", 100), "ab"), (op("ne", 3), "b")],
        ),
        case(
            (Some("Typed"), "n"),
            None,
            "number",
            &[],
            vec![(op("eq", u64::MAX), "a"), (op("eq", u64::MAX - 1), ""), (op("lte", 7), "b")],
        ),
    ]
}
