use tracewarden_model::{AccessModel, Caller, Condition, Decimal, Test};
use tracewarden_policy::lower_condition;

use super::*;

fn columns(columns: &[(&str, &str)]) -> Vec<Column> {
    let column = |(name, type_text): &(&str, &str)| Column {
        in_parts: true,
        ..Column::new((*name).to_owned(), (*type_text).to_owned())
    };
    columns.iter().map(column).collect()
}

fn table() -> Vec<Column> {
    columns(&[
        ("Name", "LowCardinality(String)"),
        ("Events.Name", "Array(String)"),
        ("Links", "Array(Tuple(Rel Enum8('child' = 1), n Array(UInt8)))"),
        ("Bare", "Array(Tuple(n Tuple(String)))"),
        ("Attributes", "Map(String, String)"),
        ("Odd", "Map(UInt8, String)"),
        ("Doc", "JSON(a.b UUID, list Array(JSON))"),
        ("Torn", "JSON"),
        ("Torn.x", "String"),
        ("Twice", "Nested(Name String)"),
        ("Twice.Name", "Array(String)"),
        ("At", "Tuple(a String)"),
        ("Outer", "JSON"),
        ("Outer.inner", "JSON"),
        ("Text", "String"),
        ("Text.inner", "JSON"),
    ])
}

#[test]
fn fields_are_made_of_columns_keys_members_and_paths() {
    let found = |field: &FieldRef| {
        let PhysicalField { source, column_type, logical_types } = physical_field(field, &table()).unwrap();
        (source, column_type.to_string(), logical_types[0])
    };
    let text = |text: &str| text.to_owned();
    assert_eq!(
        found(&FieldRef::column("Links.Rel")),
        (FieldSource::Column, text("Array(Enum('child'))"), LogicalType::StringArray)
    );
    assert_eq!(
        found(&FieldRef::column("Events.Name")),
        (FieldSource::Column, text("Array(String)"), LogicalType::StringArray)
    );
    assert_eq!(
        found(&FieldRef::key("Attributes", "a.b")),
        (FieldSource::MapKey, text("String"), LogicalType::String)
    );
    assert_eq!(
        found(&FieldRef::key("Doc", "a.b")),
        (FieldSource::JsonPath, text("UUID"), LogicalType::String)
    );
    for field in [FieldRef::key("Doc", "a.c"), FieldRef::key("Text.inner", "a")] {
        assert_eq!(found(&field), (FieldSource::JsonPath, text("Dynamic"), LogicalType::String));
    }
}

#[test]
fn errors_about_invalid_fields_suggest_valid_ones() {
    let cases = [
        (FieldRef::column("Nam"), "did you mean Name"),
        (FieldRef::key("Attribute", "x"), "did you mean Attributes"),
        (FieldRef::column("Links.rel"), "column Links has no rel, but Rel"),
        (FieldRef::column("Links.n"), "`Links.n` is of type Array(Array(UInt8))"),
        (FieldRef::column("Links"), "mark its members, each as a column, such as `Links.Rel`"),
        (FieldRef::column("Bare"), "no field can be made of any of its members"),
        (FieldRef::column("Attributes"), "mark its keys, each with `map`: `Attributes`"),
        (FieldRef::column("Odd"), "no field can be made of its keys"),
        (FieldRef::key("Odd", "1"), "of type Map(UInt8, String), and no field can be made of its keys"),
        (FieldRef::column("Doc"), "mark its paths, each with `map`: `Doc` and the path"),
        (FieldRef::key("Doc", "a..b"), "names joined by dots"),
        (FieldRef::key("Doc", "a.b.c"), "`a.b` is declared as UUID"),
        (FieldRef::key("Doc", "list"), "type Array(JSON)"),
        (FieldRef::key("Torn", "x"), "`Torn.x` is a column, and could be a part of column `Torn`"),
        (FieldRef::key("Torn", "y"), "`Torn.x` is a column, and could be a part of column `Torn`"),
        (FieldRef::key("Outer", "x"), "`Outer.inner` is a column, and could be a part of column `Outer`"),
        (
            FieldRef::key("Outer.inner", "x"),
            "`Outer.inner` is a column, and could be a part of column `Outer`",
        ),
        (FieldRef::column("Twice.Name"), "`Twice.Name` is a column, and could be a part"),
        (FieldRef::key("Name", "x"), "has no keys: leave `map` out, with `name`: `Name`"),
        (FieldRef::key("Links", "Rel"), "mark its members, each as a column, such as `Links.Rel`"),
        (FieldRef::key("At", "a"), "column `At` is of type Tuple(a String), which has no keys"),
        (FieldRef::column("At"), "is of type Tuple(a String), and no field can be made of that"),
    ];
    for (field, expected) in cases {
        let reason = match physical_field(&field, &table()).unwrap_err() {
            FieldLookupError::UnknownColumn { nearest, .. } => format!("did you mean {}", nearest.join(", ")),
            FieldLookupError::UnknownMember { column, name, nearest } => {
                format!("column {column} has no {name}, but {}", nearest.join(", "))
            }
            FieldLookupError::UnsupportedColumn(reason) | FieldLookupError::UnsupportedName(reason) => reason,
        };
        assert!(reason.contains(expected), "{field}: {reason}");
    }
}

#[test]
fn fields_without_a_remaining_condition_are_checked() {
    let field = |name: &str| MarkedField {
        field: FieldRef::column(name),
        source: FieldSource::Column,
        logical: LogicalType::String,
        column_type: ColumnType::STRING,
        filterable: false,
        policy: true,
        column: None,
    };
    let (x, y) = (field("x"), field("y"));
    let now = columns(&[("x", "Nullable(String)"), ("y", "String")]);
    assert!(current_fields([&y, &y], &now).is_ok());
    let Err(ClickHouseError::FieldsChanged(changed)) = current_fields([&y, &x, &x], &now) else {
        panic!("x changed")
    };
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].now, "Nullable(String) instead of String");
}

/// Returns the SQL of `expression` over a field that was marked when its column had the type `then`.
fn resolved(
    field: FieldRef,
    logical: LogicalType,
    then: &str,
    now: &str,
    expression: &str,
) -> Result<String, String> {
    let holder = field.map.clone().unwrap_or_else(|| field.name.clone());
    let marked = physical_field(&field, &columns(&[(&holder, then)])).unwrap();
    let marked = MarkedField {
        field,
        source: marked.source,
        logical,
        column_type: marked.column_type,
        filterable: false,
        policy: true,
        column: None,
    };
    let model = AccessModel { version: 1, binding: None, fields: vec![marked] };
    let checked = tracewarden_policy::check(expression, &model).unwrap();
    let predicate = checked.predicate(&Caller::default()).unwrap();
    let mut types = Vec::new();
    match resolve_fields(&predicate, &columns(&[(&holder, now)]), Purpose::Access) {
        Ok(resolved) => {
            resolved.fields().into_iter().for_each(|field| types.push(field.column_type.to_string()));
            types.dedup();
            Ok(types.join(", "))
        }
        Err(ClickHouseError::FieldsChanged(changed)) => {
            Err(changed.iter().map(|changed| changed.now.clone()).collect())
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn changed_columns_are_read_in_their_current_type_or_denied() {
    use LogicalType::*;
    let column = || FieldRef::column("x");
    let string = |then, now| resolved(column(), String, then, now, "x != 'a' || x.startsWith('b')");
    let read = |now: &str| Ok(ColumnType::parse(now).to_string());
    for now in ["String", "LowCardinality(String)", "FixedString(4)", "Enum8('a' = 1, 'b' = 2)", "UUID"] {
        assert_eq!(string("String", now), read(now));
        assert_eq!(
            string("Nullable(String)", now),
            read(now),
            "a type that is never NULL can replace a nullable one"
        );
        assert_eq!(string(now, "String"), read("String"));
    }
    // A field that was always present may now be absent: a comparison would be NULL.
    let nullable = string("String", "Nullable(String)");
    assert_eq!(nullable, Err("Nullable(String) instead of String".to_owned()));
    assert!(string("Enum8('a' = 1)", "LowCardinality(Nullable(String))").is_err());
    assert_eq!(
        string("Nullable(UUID)", "LowCardinality(Nullable(String))"),
        read("LowCardinality(Nullable(String))")
    );
    for now in ["UInt8", "Bool", "Array(String)", "Map(String, String)", "JSON", "Tuple(a String)", "Date"] {
        assert!(string("String", now).is_err(), "{now}");
    }
    let array = |then, now| resolved(column(), StringArray, then, now, "!('a' in x)");
    assert_eq!(array("Array(String)", "Array(UUID)"), read("Array(UUID)"));
    assert_eq!(array("Array(Nullable(String))", "Array(String)"), read("Array(String)"));
    assert!(array("Array(String)", "Array(Nullable(String))").is_err());
    assert!(array("Array(String)", "String").is_err());
    let key =
        |logical, then, now, expression| resolved(FieldRef::key("x", "k"), logical, then, now, expression);
    let (map, flag) = ("Map(String, String)", "!x.k");
    assert_eq!(key(Boolean, map, "Map(String, Bool)", flag), read("Bool"));
    assert_eq!(key(String, map, "Map(String, Nullable(String))", "x.k != 'a'"), read("Nullable(String)"));
    assert!(key(String, map, "Map(String, Bool)", "x.k != 'a'").is_err());
    assert!(key(String, map, "JSON", "x.k != 'a'").is_err(), "a path is another thing than a key");
    assert!(key(String, map, "String", "x.k != 'a'").is_err());
    for declared in ["JSON(k String)", "JSON(k Nullable(String))"] {
        // Documents without the path, or with a number there, would suddenly have a string.
        assert!(key(String, "JSON", declared, "x.k != 'a'").is_err(), "{declared}");
    }
    assert_eq!(key(String, "JSON(k String)", "JSON(k UUID)", "x.k != 'a'"), read("UUID"));
    assert!(key(String, "JSON(k Nullable(String))", "JSON(k String)", "x.k != 'a'").is_err());
    assert!(key(String, "JSON(k String)", "JSON", "x.k != 'a'").is_err());
    assert!(key(Boolean, "JSON", "JSON(k String)", "x.k").is_err());
    assert!(key(String, "JSON(`k` String)", "JSON(`k.l` String)", "x.k != 'a'").is_err());
    let list = |then, now| key(StringArray, then, now, "'a' in x.k");
    assert!(list("JSON(k Array(Nullable(String)))", "JSON").is_err(), "it was present everywhere");
    assert!(list("JSON", "JSON(k Array(Nullable(String)))").is_err(), "it would be");
    assert_eq!(list("JSON(k Array(String))", "JSON(k Array(UUID))"), read("Array(UUID)"));
    let gone = resolved(column(), String, "String", "String", "x != 'a'");
    assert!(gone.is_ok());
}

#[test]
fn conditions_that_only_filters_have_are_checked() {
    let condition = |logical, column_type: &str, test| {
        let field = MarkedField {
            field: FieldRef::column("x"),
            source: FieldSource::Column,
            logical,
            column_type: ColumnType::parse(column_type),
            filterable: true,
            policy: false,
            column: None,
        };
        lower_condition(&Condition { field, test })
    };
    let list = || vec!["a".to_owned()];
    let (text, flag) = ("String", "Bool");
    for (predicate, now) in [
        (condition(LogicalType::StringArray, "Array(String)", Test::HasAny(list())), "Array(UUID)"),
        (condition(LogicalType::StringArray, "Array(String)", Test::HasAll(list())), "Array(UUID)"),
        (
            condition(
                LogicalType::Number,
                "UInt8",
                Test::Between(Decimal::from(1_u64), Decimal::from(2_u64)),
            ),
            "Float64",
        ),
        (condition(LogicalType::String, text, Test::StringNotIn(list())), "UUID"),
        (condition(LogicalType::String, text, Test::Prefix("a".to_owned())), "UUID"),
        (condition(LogicalType::Boolean, "Nullable(Bool)", Test::BoolNe(true)), flag),
    ] {
        let resolved = resolve_fields(&predicate, &columns(&[("x", now)]), Purpose::Filter).unwrap();
        let mut types = Vec::new();
        resolved.fields().into_iter().for_each(|field| types.push(field.column_type.clone()));
        assert!(
            !types.is_empty() && types.iter().all(|seen| *seen == ColumnType::parse(now)),
            "{resolved:?}"
        );
        assert!(
            resolve_fields(&predicate, &columns(&[("x", "Array(Array(UInt8))")]), Purpose::Filter).is_err(),
            "{predicate:?}"
        );
    }
}

#[test]
fn every_occurrence_of_a_field_is_visited() {
    let field = |name: &str, logical, text: &str| MarkedField {
        field: FieldRef::column(name),
        source: FieldSource::Column,
        logical,
        column_type: ColumnType::parse(text),
        filterable: false,
        policy: true,
        column: None,
    };
    let fields = vec![
        field("s", LogicalType::String, "Nullable(String)"),
        field("t", LogicalType::String, "Nullable(String)"),
        field("l", LogicalType::StringArray, "Array(Nullable(String))"),
        field("m", LogicalType::StringArray, "Array(Nullable(String))"),
        field("b", LogicalType::Boolean, "Nullable(Bool)"),
    ];
    let now = columns(&[
        ("s", "String"),
        ("t", "String"),
        ("l", "Array(String)"),
        ("m", "Array(String)"),
        ("b", "Bool"),
    ]);
    let model = AccessModel { version: 1, binding: None, fields };
    for expression in [
        "s == 'a'",
        "!(s < t)",
        "s in ['a', 'b']",
        "s.startsWith(t)",
        "s.matches('a')",
        "size(s) == 2",
        "size(l) == size(m)",
        "s in l",
        "'a' in l",
        "['a', 'b'].all(x, x in l)",
        "l == m",
        "l == [s, t]",
        "l == []",
        "b",
        "!b",
        "l.exists(x, x == s)",
        "l.exists_one(x, m.all(y, x == y))",
        "b ? s == 'a' : t == 'b'",
        "[s, t].exists(x, x == 'a')",
    ] {
        let checked = match tracewarden_policy::check(expression, &model) {
            Ok(checked) => checked,
            Err(diagnostics) => panic!("{expression}: {diagnostics:?}"),
        };
        let predicate = checked.predicate(&Caller::default()).unwrap();
        let resolved = resolve_fields(&predicate, &now, Purpose::Access).unwrap();
        let mut before = 0;
        predicate.fields().into_iter().for_each(|field| {
            before += 1;
            assert_ne!(current_field(field, &now).as_ref(), Ok(field.as_ref()), "{expression}");
        });
        let mut after = 0;
        resolved.fields().into_iter().for_each(|field| {
            after += 1;
            assert_eq!(current_field(field, &now).as_ref(), Ok(field.as_ref()), "{expression}");
        });
        assert!(before > 0 && before == after, "{expression}: {before}, {after}");
        // A place that the conversion misses would keep its old type.
        let sent = format!("{resolved:?}");
        assert!(!sent.contains("Nullable"), "{expression}: {sent}");
        assert!(resolve_fields(&predicate, &columns(&[]), Purpose::Access).is_err(), "{expression}");
    }
}
