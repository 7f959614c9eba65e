//! The SQL of forms that do not differ in their results, or that no policy needs.

use std::sync::Arc;

use tracewarden_model::{ColumnType, Decimal, FieldRef};

use super::*;

fn column(name: &str, kind: &str) -> MarkedField {
    let column_type = ColumnType::parse(kind);
    let logical = *column_type.logical_types().first().unwrap();
    let field = FieldRef::column(name);
    MarkedField {
        field,
        source: FieldSource::Column,
        logical,
        column_type,
        filterable: true,
        policy: true,
        column: None,
    }
}

/// Returns a field for a key of the map `m`.
fn key(name: &str, values: &str, logical: LogicalType) -> MarkedField {
    let (field, source) = (FieldRef::key("m", name), FieldSource::MapKey);
    MarkedField { field, source, logical, ..column(name, values) }
}

fn path(name: &str, kind: &str, logical: LogicalType) -> MarkedField {
    let (field, source) = (FieldRef::key("j", name), FieldSource::JsonPath);
    let column_type = ColumnType::parse(kind);
    MarkedField { field, source, logical, column_type, ..column(name, "String") }
}

fn of(field: &MarkedField) -> Text {
    Text::Field(Arc::new(field.clone()))
}

fn literal(value: &str) -> Text {
    Text::Literal(value.to_owned())
}

fn owned(values: &[&str]) -> Vec<String> {
    values.iter().map(|&value| value.to_owned()).collect()
}

fn compared(field: &MarkedField, relation: Relation, value: &str) -> Predicate {
    Predicate::atom(Atom::CompareText(relation, of(field), literal(value)))
}

fn is(field: &MarkedField, value: &str) -> Predicate {
    compared(field, Relation::Eq, value)
}

fn one_of(field: &MarkedField, values: &[&str], negated: bool) -> Predicate {
    Predicate::atom(Atom::TextIn(of(field), owned(values), negated))
}

fn present(field: &MarkedField) -> Predicate {
    Predicate::atom(Atom::Present(Arc::new(field.clone())))
}

fn defined(field: &MarkedField) -> Predicate {
    Predicate::atom(Atom::Defined(Arc::new(field.clone())))
}

#[test]
fn values_are_shown_in_place() {
    let literal_is = |left: &str, right: &str| {
        Predicate::atom(Atom::CompareText(Relation::Eq, literal(left), literal(right)))
    };
    let longer =
        Predicate::atom(Atom::CompareInt(Relation::Gt, Int::TextSize(literal("a")), Int::Literal(3)));
    for (predicate, shown) in [
        (literal_is("{p0:String}", "it's"), "('{p0:String}' = 'it\\'s')"),
        (Predicate::all([literal_is("a", "b"), longer]), "(('a' = 'b') AND (lengthUTF8('a') > 3))"),
        // Names that look like a placeholder.
        (is(&column("{p7:String}", "String"), "a"), "(`{p7:String}` = 'a')"),
        (is(&column("{p0}", "String"), "a"), "(`{p0}` = 'a')"),
        (is(&column("{p", "String"), "a"), "(`{p` = 'a')"),
    ] {
        assert_eq!(display_sql(&predicate), shown);
    }
}

#[test]
fn scores_grow_with_each_satisfied_part() {
    let (a, b) = (column("a", "String"), column("b", "String"));
    let mut statement = Statement::default();
    let nested = Predicate::all([is(&a, "1"), Predicate::any([is(&a, "2"), is(&b, "1").negate()])]);
    assert_eq!(
        score(&nested, &mut statement),
        "arrayAvg([toFloat64((`a` = {p0:String})), arrayMax([toFloat64((`a` = {p1:String})), \
         toFloat64(NOT ((`b` = {p0:String})))])])"
    );
    assert_eq!(score(&Predicate::True, &mut statement), "toFloat64(1)");
}

#[test]
fn the_strings_of_a_field() {
    let (single, array) = (column("a", "Nullable(String)"), column("t", "Array(String)"));
    let mut statement = Statement::default();
    for (field, prefix, expected) in [
        (&single, None, "[assumeNotNull(`a`)]"),
        (&single, Some("{p0:String}"), "[assumeNotNull(`a`)]"),
        (&array, None, "arrayDistinct(`t`)"),
        (
            &array,
            Some("{p0:String}"),
            "arrayFilter(tw_element -> startsWith(tw_element, {p0:String}), arrayDistinct(`t`))",
        ),
    ] {
        assert_eq!(strings(field, prefix, &mut statement), expected);
    }
}

#[test]
fn presence_is_not_tested_where_a_value_is() {
    let (k, other) = (key("k", "String", LogicalType::String), key("o", "String", LogicalType::String));
    let (nullable, uuid) = (column("n", "Nullable(String)"), column("u", "Nullable(UUID)"));
    let enumerated = key("e", "Enum8('a' = 1)", LogicalType::String);
    let declared = path("d", "Nullable(String)", LogicalType::String);
    let adopted = MarkedField { column: Some("m_k".to_owned()), ..k.clone() };
    let flagged = key("k", "String", LogicalType::Boolean);
    let there = "mapContains(`m`, 'k')";
    let hint = "indexHint(mapContains(`m`, 'k'))";
    for (part, value, is_left) in [
        (present(&k), is(&k, "a"), hint),
        (present(&k), one_of(&k, &["a", "b"], false), hint),
        (defined(&k), is(&k, "a"), hint),
        // The value that is read for an absent key may be the wanted one.
        (present(&k), is(&k, ""), there),
        (present(&k), one_of(&k, &["a", ""], false), there),
        (present(&k), compared(&k, Relation::Ne, "a"), there),
        (present(&k), one_of(&k, &["a", "b"], true), there),
        (present(&k), is(&other, "a"), there),
        (present(&enumerated), is(&enumerated, "a"), "mapContains(`m`, 'e')"),
        (present(&declared), is(&declared, "a"), "isNotNull(`j`.`d`)"),
        // `Defined` checks more than presence for these fields.
        (defined(&flagged), is(&k, "a"), "(mapContains(`m`, 'k') AND "),
        // No check is left for an index.
        (present(&nullable), is(&nullable, "a"), ""),
        (defined(&nullable), is(&nullable, "a"), ""),
        (defined(&uuid), one_of(&uuid, &["a", "b"], false), ""),
        (present(&nullable), compared(&nullable, Relation::Ne, "a"), "isNotNull(`n`)"),
        (present(&adopted), is(&adopted, "a"), ""),
        // Parts that are not tests.
        (present(&k), Predicate::any([is(&k, "a"), is(&k, "b")]), there),
        (present(&k).negate(), is(&k, "a"), "NOT ("),
    ] {
        let shown = display_sql(&Predicate::all([part, value.clone()]));
        let alone = display_sql(&value);
        let expected = if is_left.is_empty() { format!("({alone})") } else { format!("({is_left}") };
        assert!(shown.starts_with(&expected) && shown.ends_with(&format!("{alone})")), "{shown}");
        assert_eq!(shown.contains("indexHint("), is_left == hint || alone.contains("indexHint("), "{shown}");
    }
}

#[test]
fn a_key_with_null_is_present_and_a_column_with_null_is_not() {
    let nullable = key("k", "Nullable(String)", LogicalType::String);
    let adopted = |field: &MarkedField| MarkedField { column: Some("m_k".to_owned()), ..field.clone() };
    let of_strings = key("k", "String", LogicalType::String);
    for (field, is_present) in [
        (of_strings.clone(), "mapContains(`m`, 'k')"),
        (nullable.clone(), "mapContains(`m`, 'k')"),
        (key("", "Nullable(Bool)", LogicalType::Boolean), "hasAny(mapKeys(`m`), [''])"),
        // The column is NULL where the key is absent, and where its value is NULL.
        (adopted(&of_strings), "isNotNull(`m_k`)"),
        (adopted(&nullable), "mapContains(`m`, 'k')"),
        (column("c", "Nullable(String)"), "isNotNull(`c`)"),
        (path("p", "Dynamic", LogicalType::String), "isNotNull(`j`.`p`)"),
    ] {
        assert_eq!(display_sql(&present(&field)), is_present, "{field:?}");
    }
    let value = "mapValues(`m`)[indexOf(mapKeys(`m`), 'k')]";
    assert_eq!(display_sql(&defined(&nullable)), format!("(mapContains(`m`, 'k') AND isNotNull({value}))"));
    assert_eq!(display_sql(&defined(&adopted(&nullable))), "isNotNull(`m_k`)");
}

#[test]
fn long_lists_are_one_parameter() {
    let texts: Vec<String> = (0..17).map(|number| format!("{number:02}")).collect();
    let few = &texts[..16];
    let element = Text::Element(1);
    let array = Array::Field(Arc::new(column("t", "Array(String)")));
    let call = |function, values: &[String]| {
        Predicate::atom(Atom::TextCallAny(function, element.clone(), values.to_vec()))
    };
    let parameters = |predicate: &Predicate| {
        let mut statement = Statement::default();
        let sql = render(predicate, &mut statement);
        (statement.parameters.len(), sql)
    };
    for predicate in [
        |array: &Array, values: &[String]| Atom::ArrayHasAny(array.clone(), values.to_vec()),
        |_: &Array, values: &[String]| Atom::TextIn(Text::Element(1), values.to_vec(), false),
        |_: &Array, values: &[String]| {
            Atom::TextCallAny(TextFunction::StartsWith, Text::Element(1), values.to_vec())
        },
    ] {
        assert_eq!(parameters(&Predicate::atom(predicate(&array, few))).0, 16);
        assert_eq!(parameters(&Predicate::atom(predicate(&array, &texts))).0, 1);
    }
    // Prefixes and suffixes by length.
    let mut mixed = texts.clone();
    mixed.push("abc".to_owned());
    for (function, side) in [(TextFunction::StartsWith, "left"), (TextFunction::EndsWith, "right")] {
        let (parameters, sql) = parameters(&call(function, &mixed));
        assert_eq!(
            (parameters, sql),
            (
                2,
                format!(
                    "(({side}(tw_x1, 2) IN {{p0:Array(String)}}) OR ({side}(tw_x1, 3) IN ({{p1:String}})))"
                )
            )
        );
    }
    let needles: Vec<String> = (0..256).map(|number| number.to_string()).collect();
    for (count, chunks) in [(17, 1), (255, 1), (256, 2)] {
        let (parameters, sql) = parameters(&call(TextFunction::Contains, &needles[..count]));
        assert_eq!((parameters, sql.matches("multiSearchAny(tw_x1, ").count()), (chunks, chunks), "{count}");
    }
}

#[test]
fn value_index_conditions_accompany_row_conditions() {
    let k = key("k", "String", LogicalType::String);
    let equal = "(mapValues(`m`)[indexOf(mapKeys(`m`), {p0:String})] = {p1:String})";
    let indexed = format!("(hasAny(mapValues(`m`), [{{p1:String}}]) AND {equal})");
    assert_eq!(render(&is(&k, "a"), &mut Statement::default()), indexed);
    assert_eq!(render(&is(&k, "a"), &mut Statement::default().evaluated_per_row()), equal);
    for other in [
        compared(&k, Relation::Ne, "a"),
        one_of(&k, &["a", "b"], true),
        is(&key("k", "Enum8('a' = 1)", LogicalType::String), "a"),
        is(&column("k", "String"), "a"),
        is(&path("k", "String", LogicalType::String), "a"),
    ] {
        let sql = render(&other, &mut Statement::default());
        assert!(!sql.contains("hasAny("), "{sql}");
    }
}

#[test]
fn numbers_are_compared_in_their_column_type() {
    use Relation::{Eq, Ge, Gt, Le, Lt, Ne};
    let number = |field: &MarkedField, relation, digits: &str| {
        let field = MarkedField { logical: LogicalType::Number, ..field.clone() };
        let wanted = Decimal::parse(digits).unwrap();
        display_sql(&Predicate::atom(Atom::CompareNumber(relation, Arc::new(field), wanted)))
    };
    let nano = |relation: &str, count: &str| format!("(reinterpret(`c`, 'Int64') {relation} {count})");
    for (kind, relation, digits, sql) in [
        ("UInt64", Ge, "5.0", "(`c` >= 5)"),
        ("UInt64", Ge, "18446744073709551615", "(`c` >= 18446744073709551615)"),
        ("UInt64", Ge, "18446744073709551616", "0"),
        ("UInt64", Le, "18446744073709551616", "1"),
        ("UInt64", Gt, "-1", "1"),
        ("LowCardinality(UInt64)", Eq, "-1", "0"),
        ("Int8", Ge, "4.5", "(`c` > 4)"),
        ("Int8", Gt, "4.5", "(`c` > 4)"),
        ("Int8", Lt, "4.5", "(`c` <= 4)"),
        ("Int8", Le, "-4.5", "(`c` <= -5)"),
        ("Int8", Eq, "4.5", "0"),
        ("Int8", Ne, "4.5", "1"),
        ("Int8", Ne, "128", "1"),
        ("Int8", Lt, "127.5", "(`c` <= 127)"),
        ("Int8", Gt, "-128.5", "1"),
        ("Nullable(Int8)", Ge, "5", "ifNull(`c` >= 5, 0)"),
        ("Nullable(Int8)", Ge, "-200", "isNotNull(`c`)"),
        ("Nullable(Int8)", Eq, "0.5", "0"),
        ("Decimal(9, 2)", Eq, "1.50", "(`c` = 1.5)"),
        ("Decimal(9, 2)", Ge, "1.505", "(`c` > 1.5)"),
        ("Decimal(9, 2)", Lt, "1e7", "1"),
        ("DateTime", Ge, "5.5", "(`c` > toDateTime(5, 'UTC'))"),
        ("DateTime", Lt, "0", "(`c` < toDateTime(0, 'UTC'))"),
        ("DateTime", Lt, "-0.5", "0"),
        ("DateTime64(9)", Ge, "1700010800.901161215", &nano(">=", "1700010800901161215")),
        ("DateTime64(9)", Lt, "1700010800.0000000005", &nano("<=", "1700010800000000000")),
        ("DateTime64(9)", Lt, "9223372037", "1"),
        ("Float64", Ge, "0.5", "(`c` >= reinterpretAsFloat64(4602678819172646912))"),
        ("Float32", Eq, "0.5", "(`c` = reinterpretAsFloat32(1056964608))"),
        ("Float32", Eq, "1e39", "0"),
        ("Float32", Gt, "1e39", "(`c` >= reinterpretAsFloat32(2139095040))"),
        ("Float32", Gt, "-1e39", "(`c` > reinterpretAsFloat32(4286578688))"),
    ] {
        assert_eq!(number(&column("c", kind), relation, digits), sql, "{kind} {relation:?} {digits}");
    }
    let parsed = number(&key("k", "String", LogicalType::Number), Ge, "5");
    let value = "mapValues(`m`)[indexOf(mapKeys(`m`), 'k')]";
    let integers =
        format!("multiIf(isNotNull(toInt64OrNull({value})), (assumeNotNull(toInt64OrNull({value})) >= 5), ");
    assert!(parsed.starts_with(&integers), "{parsed}");
    assert_eq!(
        number(&path("n", "Dynamic", LogicalType::Number), Gt, "4.5"),
        "(ifNull(`j`.`n`.:`Int64` > 4, 0) OR ifNull(`j`.`n`.:`UInt64` > 4, 0) OR \
         ifNull(`j`.`n`.:`Float64` > reinterpretAsFloat64(4616752568008179712), 0))"
    );
}

#[test]
fn value_types_are_tested_where_they_can_differ() {
    let k = |kind, logical| key("k", kind, logical);
    let there = "mapContains(`m`, 'k')";
    let value = "mapValues(`m`)[indexOf(mapKeys(`m`), 'k')]";
    for (field, sql) in [
        (column("c", "String"), "1".to_owned()),
        (column("c", "Bool"), "1".to_owned()),
        (column("c", "Nullable(Bool)"), "isNotNull(`c`)".to_owned()),
        (column("c", "Nullable(UUID)"), "isNotNull(`c`)".to_owned()),
        (column("c", "Array(String)"), "1".to_owned()),
        (
            column("c", "Array(Nullable(String))"),
            "(1 AND NOT arrayExists(tw_element -> isNull(tw_element), `c`))".to_owned(),
        ),
        (k("String", LogicalType::String), there.to_owned()),
        (k("Bool", LogicalType::Boolean), there.to_owned()),
        (k("Nullable(Bool)", LogicalType::Boolean), format!("({there} AND isNotNull({value}))")),
        (k("String", LogicalType::Boolean), format!("({there} AND ({value} IN ('true', 'false')))")),
        (k("String", LogicalType::Number), format!("({there} AND {})", numbers::is_number(value))),
    ] {
        assert_eq!(display_sql(&defined(&field)), sql, "{field:?}");
    }
}

#[test]
fn elements_are_compared_as_stored() {
    for (kind, sql) in [
        ("Array(String)", "hasAny(`t`, ['a'])"),
        ("Array(LowCardinality(String))", "hasAny(`t`, ['a'])"),
        ("Array(Nullable(String))", "hasAny(`t`, ['a'])"),
        ("Array(UUID)", "hasAny(arrayMap(tw_element -> toString(tw_element), `t`), ['a'])"),
        (
            "Array(Nullable(UUID))",
            "hasAny(arrayMap(tw_element -> assumeNotNull(toString(tw_element)), `t`), ['a'])",
        ),
    ] {
        let array = Array::Field(Arc::new(column("t", kind)));
        assert_eq!(display_sql(&Predicate::atom(Atom::ArrayHas(array, literal("a")))), sql);
    }
    let array = Array::Field(Arc::new(column("t", "Array(Nullable(String))")));
    let equal = Atom::ArrayEq(array, Array::List(vec![literal("a")]));
    let sql = "(arrayMap(tw_element -> assumeNotNull(tw_element), `t`) = ['a'])";
    assert_eq!(display_sql(&Predicate::atom(equal)), sql);
}

#[test]
fn strings_are_compared_with_other_types_as_stored() {
    let uuid = "61f0c404-5cb3-11e7-907b-a6006ad3dba0";
    let upper = uuid.to_uppercase();
    let parts = uuid.replace('-', "_");
    let inside = uuid.replace("c404", "c4-4");
    for (kind, wanted, stored) in [
        ("UUID", uuid, true),
        ("UUID", &upper, false),
        ("UUID", &parts, false),
        ("UUID", &inside, false),
        ("UUID", &uuid[..35], false),
        ("UUID", &format!("{uuid}0"), false),
        ("FixedString(4)", "abcd", true),
        ("FixedString(4)", "abcde", false),
        ("FixedString(4)", "a\0", false),
        ("FixedString(4)", "", true),
        ("Enum8('a' = 1)", "a", true),
        ("Enum8('a' = 1)", "b", false),
    ] {
        let sql = render(&is(&column("c", kind), wanted), &mut Statement::default());
        let literal = if kind == "UUID" { "toUUID({p0:String})" } else { "{p0:String}" };
        let expected =
            if stored { format!("(`c` = {literal})") } else { "(toString(`c`) = {p0:String})".to_owned() };
        assert_eq!(sql, expected, "{kind} {wanted}");
    }
    // An invalid value of the type may raise an error: then the general comparison is used for all of them.
    let either = one_of(&column("c", "UUID"), &[uuid, "a"], false);
    assert_eq!(render(&either, &mut Statement::default()), "(toString(`c`) IN ({p0:String}, {p1:String}))");
}

#[test]
fn booleans_are_read_as_stored() {
    for (field, sql) in [
        (column("c", "Bool"), "`c`"),
        (column("c", "Nullable(Bool)"), "assumeNotNull(`c`)"),
        (key("k", "Bool", LogicalType::Boolean), "mapValues(`m`)[indexOf(mapKeys(`m`), 'k')]"),
        (key("k", "String", LogicalType::Boolean), "(mapValues(`m`)[indexOf(mapKeys(`m`), 'k')] = 'true')"),
        (path("b", "Dynamic", LogicalType::Boolean), "assumeNotNull(`j`.`b`.:`Bool`)"),
    ] {
        assert_eq!(display_sql(&Predicate::atom(Atom::Flag(Arc::new(field)))), sql);
    }
}
