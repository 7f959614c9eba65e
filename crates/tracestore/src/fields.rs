//! What fields are made of, in a table as it is now.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tracewarden_model::{ColumnType, FieldRef, FieldSource, LogicalType, MarkedField, nearest::nearest};
use tracewarden_policy::{Predicate, can_stand_in};

use crate::StoreError;
use crate::key_columns::{Purpose, with_column};
use crate::table::Column;

/// Where the value of a field is, and what it can be marked as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhysicalField {
    /// Where the value is in a row.
    pub source: FieldSource,
    /// The type of the value: of the column, of the map's values, of what is at the path.
    pub column_type: ColumnType,
    /// The logical types that it can be marked as, the natural one first. Never empty.
    pub logical_types: &'static [LogicalType],
}

/// Why no field can be made of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoField {
    /// The table has no such column.
    UnknownColumn {
        /// Its name.
        name: String,
        /// Columns that resemble it.
        nearest: Vec<String>,
    },
    /// The nested column has no such member.
    UnknownMember {
        /// The column.
        column: String,
        /// The name, without the column's.
        name: String,
        /// Members that resemble it.
        nearest: Vec<String>,
    },
    /// There is such a column, of a kind that no such field can be made of. For people.
    ImpossibleColumn(String),
    /// There may be something under this name, which cannot be a field. For people.
    ImpossibleName(String),
}

/// A marked field of which the table holds something else than when it was marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedField {
    /// The field.
    pub field: MarkedField,
    /// What is there now instead. For people.
    pub now: String,
}

/// Finds what a field is made of.
///
/// # Errors
/// Why no field can be made of it.
pub fn physical_field(field: &FieldRef, columns: &[Column]) -> Result<PhysicalField, NoField> {
    let column = |name: &str| columns.iter().find(|column| column.name == name);
    let unknown = |name: &str| NoField::UnknownColumn {
        name: name.to_owned(),
        nearest: nearest(name, columns.iter().map(|column| column.name.as_str())),
    };
    match &field.map {
        Some(map) => {
            let holder = column(map).ok_or_else(|| unknown(map))?;
            within(holder, &field.name, columns)
        }
        None => match (column(&field.name), nested(&field.name, columns)) {
            (Some(_), Some((holder, _))) => Err(ambiguous(&field.name, holder)),
            (Some(column), None) => of_column(column),
            (None, Some((holder, member))) => of_member(holder, member),
            (None, None) => Err(unknown(&field.name)),
        },
    }
}

/// The parts of a column that are named by its type: members of a nested column, declared paths of a JSON column.
pub fn members(column: &Column) -> Vec<FieldRef> {
    match &column.column_type {
        ColumnType::Nested(members) => {
            members.iter().map(|(member, _)| FieldRef::column(format!("{}.{member}", column.name))).collect()
        }
        ColumnType::Json { typed } => {
            typed.iter().map(|(path, _)| FieldRef::key(&column.name, path)).collect()
        }
        _ => Vec::new(),
    }
}

fn of_column(column: &Column) -> Result<PhysicalField, NoField> {
    let column_type = column.column_type.clone();
    let logical_types = column_type.logical_types();
    if logical_types.is_empty() {
        return Err(NoField::ImpossibleColumn(format!(
            "column `{}` is of type {}{}",
            column.name,
            column.type_text,
            how_to_write(column)
        )));
    }
    Ok(PhysicalField { source: FieldSource::Column, column_type, logical_types })
}

/// For a column that is no field itself, how its parts are named.
fn how_to_write(column: &Column) -> String {
    let Column { name, column_type, .. } = column;
    match column_type {
        ColumnType::Map(..) if !column_type.map_key_logical_types().is_empty() => {
            format!(": mark its keys, each with `map`: `{name}` and the key as `name`")
        }
        ColumnType::Json { .. } => {
            format!(": mark its paths, each with `map`: `{name}` and the path, such as `a.b`, as `name`")
        }
        ColumnType::Nested(members) => {
            let possible = members.iter().find(|(member, _)| {
                column_type.nested_member(member).is_some_and(|array| !array.logical_types().is_empty())
            });
            match possible {
                Some((member, _)) => {
                    format!(": mark its members, each as a column, such as `{name}.{member}`")
                }
                None => ", and no field can be made of any of its members".to_owned(),
            }
        }
        ColumnType::Map(..) => ", and no field can be made of its keys".to_owned(),
        _ => ", and no field can be made of that".to_owned(),
    }
}

/// What keys of a map, or paths without a declared type of a JSON column, can be marked as; empty when they cannot.
pub fn key_logical_types(column: &Column, columns: &[Column]) -> &'static [LogicalType] {
    match mistakable(column, columns) {
        Some(_) => &[],
        None => column.column_type.key_logical_types(),
    }
}

/// A column that could be taken for a path of this JSON column, by people and by the trace store; or one of which this column's
/// paths could be taken for paths: where `A` and `A.B` are JSON columns, the store reads `A.B.c` as the path `B.c` of `A`.
fn mistakable<'a>(holder: &Column, columns: &'a [Column]) -> Option<&'a Column> {
    let is_json = |column: &Column| matches!(column.column_type, ColumnType::Json { .. });
    let within = |inner: &Column, outer: &Column| {
        inner.name.strip_prefix(outer.name.as_str()).is_some_and(|rest| rest.starts_with('.'))
    };
    let mistaken = |other: &&Column| within(other, holder) || (is_json(other) && within(holder, other));
    columns.iter().find(mistaken).filter(|_| is_json(holder))
}

fn within(holder: &Column, name: &str, columns: &[Column]) -> Result<PhysicalField, NoField> {
    if let Some(other) = mistakable(holder, columns) {
        let (inner, outer) =
            if other.name.len() > holder.name.len() { (other, holder) } else { (holder, other) };
        return Err(ambiguous(&inner.name, outer));
    }
    match holder.column_type.within(name) {
        Ok((source, column_type, logical_types)) => Ok(PhysicalField { source, column_type, logical_types }),
        Err(reason) if matches!(holder.column_type, ColumnType::Json { .. }) => {
            Err(NoField::ImpossibleName(reason))
        }
        Err(_) => {
            let Column { name: column, type_text, column_type, .. } = holder;
            let written = match column_type {
                ColumnType::Map(..) => ", and no field can be made of its keys".to_owned(),
                ColumnType::Nested(_) => how_to_write(holder),
                other if !other.logical_types().is_empty() => {
                    format!(", which has no keys: leave `map` out, with `name`: `{column}`")
                }
                _ => ", which has no keys".to_owned(),
            };
            Err(NoField::ImpossibleColumn(format!("column `{column}` is of type {type_text}{written}")))
        }
    }
}

/// The nested column and the member that this name means, if it does.
fn nested<'a>(name: &'a str, columns: &'a [Column]) -> Option<(&'a Column, &'a str)> {
    columns.iter().find_map(|column| {
        let member = name.strip_prefix(column.name.as_str())?.strip_prefix('.')?;
        matches!(column.column_type, ColumnType::Nested(_)).then_some((column, member))
    })
}

fn of_member(holder: &Column, member: &str) -> Result<PhysicalField, NoField> {
    let ColumnType::Nested(members) = &holder.column_type else {
        return Err(NoField::ImpossibleColumn(format!("column `{}` is not nested", holder.name)));
    };
    let Some(column_type) = holder.column_type.nested_member(member) else {
        return Err(NoField::UnknownMember {
            column: holder.name.clone(),
            name: member.to_owned(),
            nearest: nearest(member, members.iter().map(|(name, _)| name.as_str())),
        });
    };
    let logical_types = column_type.logical_types();
    if logical_types.is_empty() {
        let detail =
            format!("`{}.{member}` is of type {column_type}, and no field can be made of that", holder.name);
        return Err(NoField::ImpossibleColumn(detail));
    }
    Ok(PhysicalField { source: FieldSource::Column, column_type, logical_types })
}

fn ambiguous(name: &str, holder: &Column) -> NoField {
    NoField::ImpossibleColumn(format!(
        "`{name}` is a column, and could be a part of column `{}` of type {} as well",
        holder.name, holder.type_text
    ))
}

/// The predicate as it is meant for these columns: the same where the columns of its fields are what they were when the
/// fields were marked, and where the difference changes nothing but how a value is read.
///
/// # Errors
/// [`StoreError::FieldsChanged`] with every field of which that cannot be said.
pub(crate) fn fit(
    predicate: &Predicate,
    columns: &[Column],
    purpose: Purpose,
) -> Result<Predicate, StoreError> {
    let mut changed: Vec<ChangedField> = Vec::new();
    let mut renewed: HashMap<Arc<MarkedField>, Arc<MarkedField>> = HashMap::new();
    let mut seen: HashSet<Arc<MarkedField>> = HashSet::new();
    predicate.for_each_field(&mut |field| {
        if !seen.insert(Arc::clone(field)) {
            return;
        }
        match as_it_is(field, columns).map(|now| with_column(now, columns, purpose)) {
            Ok(now) if now == **field => {}
            Ok(now) => {
                renewed.insert(Arc::clone(field), Arc::new(now));
            }
            Err(now) => changed.push(ChangedField { field: field.as_ref().clone(), now }),
        }
    });
    if !changed.is_empty() {
        return Err(StoreError::FieldsChanged(changed));
    }
    if renewed.is_empty() {
        return Ok(predicate.clone());
    }
    let now = |field: &Arc<MarkedField>| Arc::clone(renewed.get(field).unwrap_or(field));
    Ok(predicate.with_fields(&now))
}

/// Checks that fields are what they were marked as, or can be read as if they were.
///
/// # Errors
/// [`StoreError::FieldsChanged`] with all that are not.
pub(crate) fn check<'a>(
    fields: impl IntoIterator<Item = &'a MarkedField>,
    columns: &[Column],
) -> Result<(), StoreError> {
    let mut changed: Vec<ChangedField> = Vec::new();
    let mut seen: HashSet<&MarkedField> = HashSet::new();
    for field in fields {
        if seen.insert(field)
            && let Err(now) = as_it_is(field, columns)
        {
            changed.push(ChangedField { field: field.clone(), now });
        }
    }
    if changed.is_empty() { Ok(()) } else { Err(StoreError::FieldsChanged(changed)) }
}

/// The field with what the table has now; else what that is.
fn as_it_is(field: &MarkedField, columns: &[Column]) -> Result<MarkedField, String> {
    let physical = physical_field(&field.field, columns).map_err(|no_field| match no_field {
        NoField::UnknownColumn { .. } | NoField::UnknownMember { .. } => "nothing".to_owned(),
        NoField::ImpossibleColumn(reason) | NoField::ImpossibleName(reason) => {
            format!("nothing that a field can be made of: {reason}")
        }
    })?;
    let PhysicalField { source, column_type, logical_types } = physical;
    let now = MarkedField { source, column_type, ..field.clone() };
    if logical_types.contains(&field.logical) && can_stand_in(&now, field) {
        Ok(now)
    } else {
        Err(format!("{} instead of {}", now.column_type, field.column_type))
    }
}

#[cfg(test)]
mod tests {
    use tracewarden_model::{AccessModel, Caller, Condition, Number, Test};
    use tracewarden_policy::lower_condition;

    use super::*;

    fn columns(columns: &[(&str, &str)]) -> Vec<Column> {
        let column = |(name, type_text): &(&str, &str)| Column {
            name: (*name).to_owned(),
            column_type: ColumnType::parse(type_text),
            type_text: (*type_text).to_owned(),
            derived: false,
            key: None,
            in_parts: true,
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
            let PhysicalField { source, column_type, logical_types } =
                physical_field(field, &table()).unwrap();
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
    fn what_is_no_field_is_told_how_to_be_one() {
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
                NoField::UnknownColumn { nearest, .. } => format!("did you mean {}", nearest.join(", ")),
                NoField::UnknownMember { column, name, nearest } => {
                    format!("column {column} has no {name}, but {}", nearest.join(", "))
                }
                NoField::ImpossibleColumn(reason) | NoField::ImpossibleName(reason) => reason,
            };
            assert!(reason.contains(expected), "{field}: {reason}");
        }
    }

    #[test]
    fn fields_of_which_nothing_is_left_are_checked_too() {
        let field = |name: &str| MarkedField {
            field: FieldRef::column(name),
            source: FieldSource::Column,
            logical: LogicalType::String,
            column_type: ColumnType::String,
            filterable: false,
            policy: true,
            column: None,
        };
        let (x, y) = (field("x"), field("y"));
        let now = columns(&[("x", "Nullable(String)"), ("y", "String")]);
        assert!(check([&y, &y], &now).is_ok());
        let Err(StoreError::FieldsChanged(changed)) = check([&y, &x, &x], &now) else { panic!("x changed") };
        assert_eq!(changed.len(), 1);
        assert_eq!(changed[0].now, "Nullable(String) instead of String");
    }

    /// What becomes of `expression` over a field that was marked when its column had the type `then`.
    fn fitted(
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
        match fit(&predicate, &columns(&[(&holder, now)]), Purpose::Access) {
            Ok(fitted) => {
                fitted.for_each_field(&mut |field| types.push(field.column_type.to_string()));
                types.dedup();
                Ok(types.join(", "))
            }
            Err(StoreError::FieldsChanged(changed)) => {
                Err(changed.iter().map(|changed| changed.now.clone()).collect())
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_changed_column_is_read_as_it_is_now_or_denies() {
        use LogicalType::*;
        let column = || FieldRef::column("x");
        let string = |then, now| fitted(column(), String, then, now, "x != 'a' || x.startsWith('b')");
        let read = |now: &str| Ok(ColumnType::parse(now).to_string());
        for now in ["String", "LowCardinality(String)", "FixedString(4)", "Enum8('a' = 1, 'b' = 2)", "UUID"] {
            assert_eq!(string("String", now), read(now));
            assert_eq!(
                string("Nullable(String)", now),
                read(now),
                "what is never NULL will do for what may be"
            );
            assert_eq!(string(now, "String"), read("String"));
        }
        // What was always there no longer is: a comparison would be NULL.
        let nullable = string("String", "Nullable(String)");
        assert_eq!(nullable, Err("Nullable(String) instead of String".to_owned()));
        assert!(string("Enum8('a' = 1)", "LowCardinality(Nullable(String))").is_err());
        assert_eq!(
            string("Nullable(UUID)", "LowCardinality(Nullable(String))"),
            read("LowCardinality(Nullable(String))")
        );
        for now in
            ["UInt8", "Bool", "Array(String)", "Map(String, String)", "JSON", "Tuple(a String)", "Date"]
        {
            assert!(string("String", now).is_err(), "{now}");
        }
        let array = |then, now| fitted(column(), StringArray, then, now, "!('a' in x)");
        assert_eq!(array("Array(String)", "Array(UUID)"), read("Array(UUID)"));
        assert_eq!(array("Array(Nullable(String))", "Array(String)"), read("Array(String)"));
        assert!(array("Array(String)", "Array(Nullable(String))").is_err());
        assert!(array("Array(String)", "String").is_err());
        let key =
            |logical, then, now, expression| fitted(FieldRef::key("x", "k"), logical, then, now, expression);
        let (map, flag) = ("Map(String, String)", "!x.k");
        assert_eq!(key(Boolean, map, "Map(String, Bool)", flag), read("Bool"));
        assert_eq!(key(String, map, "Map(String, Nullable(String))", "x.k != 'a'"), read("Nullable(String)"));
        assert!(key(String, map, "Map(String, Bool)", "x.k != 'a'").is_err());
        assert!(key(String, map, "JSON", "x.k != 'a'").is_err(), "a path is another thing than a key");
        assert!(key(String, map, "String", "x.k != 'a'").is_err());
        for declared in ["JSON(k String)", "JSON(k Nullable(String))"] {
            // Documents without the path, or with a number there, would have a string at once.
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
        let gone = fitted(column(), String, "String", "String", "x != 'a'");
        assert!(gone.is_ok());
    }

    #[test]
    fn what_only_filters_ask_is_seen_too() {
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
                condition(LogicalType::Number, "UInt8", Test::Between(Number::Int(1), Number::Int(2))),
                "Float64",
            ),
            (condition(LogicalType::String, text, Test::StringNotIn(list())), "UUID"),
            (condition(LogicalType::String, text, Test::Prefix("a".to_owned())), "UUID"),
            (condition(LogicalType::Boolean, "Nullable(Bool)", Test::BoolNe(true)), flag),
        ] {
            let fitted = fit(&predicate, &columns(&[("x", now)]), Purpose::Filter).unwrap();
            let mut types = Vec::new();
            fitted.for_each_field(&mut |field| types.push(field.column_type.clone()));
            assert!(
                !types.is_empty() && types.iter().all(|seen| *seen == ColumnType::parse(now)),
                "{fitted:?}"
            );
            assert!(
                fit(&predicate, &columns(&[("x", "Array(Array(UInt8))")]), Purpose::Filter).is_err(),
                "{predicate:?}"
            );
        }
    }

    #[test]
    fn every_place_of_a_field_is_seen() {
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
            let fitted = fit(&predicate, &now, Purpose::Access).unwrap();
            let mut before = 0;
            predicate.for_each_field(&mut |field| {
                before += 1;
                assert_ne!(as_it_is(field, &now).as_ref(), Ok(field.as_ref()), "{expression}");
            });
            let mut after = 0;
            fitted.for_each_field(&mut |field| {
                after += 1;
                assert_eq!(as_it_is(field, &now).as_ref(), Ok(field.as_ref()), "{expression}");
            });
            assert!(before > 0 && before == after, "{expression}: {before}, {after}");
            // A place that is not seen would be sent as it was.
            let sent = format!("{fitted:?}");
            assert!(!sent.contains("Nullable"), "{expression}: {sent}");
            assert!(fit(&predicate, &columns(&[]), Purpose::Access).is_err(), "{expression}");
        }
    }
}
