//! Every operator of policies and filters on every kind of field, on every hostile value that a row can hold there: compares
//! ClickHouse with the reference evaluation.

mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::mem::discriminant;
use std::sync::Arc;

use tracewarden_model::{
    AttributeValue, Caller, ColumnType, Condition, Decimal, FieldRef, FieldSource, LogicalType, MarkedField,
    Number, OperandSource, Operator, Test, field::escape,
};
use tracewarden_policy::{FieldValue, Span, check, lower_condition};
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::column_types::text_types;
use tracewarden_testkit::policies::{COLUMNS, GeneratedPolicy, Generator, hostile_values, literals};

use crate::agreement::differential::{LoweredPolicy, Verdict, connect, evaluate_both, execute, load};
use crate::agreement::filter_reference::matches;
use crate::schema::{Column, Purpose, resolve_fields};
use crate::sql::{Statement, render};

use values::{json_values, map_strings};

/// Number of policies and conditions of one statement.
const BATCH: usize = 40;

const UUID: &str = "61f0c404-5cb3-11e7-907b-a6006ad3dba0";

/// Values of a row under a key, at a path or in a column: none, one, or several for a repeated key.
type Slot = Vec<FieldValue>;

/// Returns the slots that rows have in a field, in turn.
fn slots(field: &MarkedField) -> Vec<Slot> {
    let column_type = &field.column_type;
    let mut found = match (field.source, field.logical) {
        (FieldSource::MapKey, LogicalType::Boolean | LogicalType::Number | LogicalType::StringArray)
            if column_type.is_string() =>
        {
            map_strings(field.logical)
        }
        _ if *column_type == ColumnType::Dynamic => json_values(),
        _ => hostile_values(column_type),
    };
    // Documents are UTF-8, and their numbers are finite.
    if field.source == FieldSource::JsonPath {
        found.retain(is_json);
    }
    if column_type.is_nullable() {
        found.push(FieldValue::Null);
    }
    let mut slots: Vec<Slot> = found.iter().map(|value| vec![value.clone()]).collect();
    if field.field.map.is_some() {
        slots.push(Vec::new());
    }
    if field.source == FieldSource::MapKey {
        // A repeated key.
        let reversed: Vec<Slot> =
            found.iter().zip(found.iter().rev()).take(4).map(|(a, b)| vec![a.clone(), b.clone()]).collect();
        slots.extend(reversed);
    }
    slots
}

fn is_json(value: &FieldValue) -> bool {
    match value {
        FieldValue::String(bytes) => std::str::from_utf8(bytes).is_ok(),
        FieldValue::Number(Number::Float(value)) => value.is_finite(),
        FieldValue::Array(elements) => elements.iter().all(is_json),
        _ => true,
    }
}

/// Returns rows in which each field has each of its values at least once.
pub(crate) fn spans(fields: &[MarkedField]) -> Vec<Span> {
    let slots: BTreeMap<&FieldRef, Vec<Slot>> =
        fields.iter().map(|field| (&field.field, slots(field))).collect();
    let rows = slots.values().map(Vec::len).max().unwrap();
    (0..rows)
        .map(|row| {
            let mut span: Span = COLUMNS
                .iter()
                .filter(|(_, text)| {
                    matches!(ColumnType::parse(text), ColumnType::Map(..) | ColumnType::Json { .. })
                })
                .map(|(name, _)| ((*name).to_owned(), FieldValue::Map(Vec::new())))
                .collect();
            for (field, slots) in &slots {
                let slot = &slots[row % slots.len()];
                match &field.map {
                    None => {
                        span.insert(field.name.clone(), slot[0].clone());
                    }
                    Some(map) => {
                        let Some(FieldValue::Map(entries)) = span.get_mut(map) else { panic!("{map}") };
                        entries.extend(
                            slot.iter().map(|value| (field.name.clone().into_bytes(), value.clone())),
                        );
                    }
                }
            }
            // Members of a nested column have the same length.
            let nested = ["Links.State", "Links.Peer"];
            let length = |name: &str| if let FieldValue::Array(list) = &span[name] { list.len() } else { 0 };
            let length = nested.map(length).into_iter().min().unwrap();
            for name in nested {
                if let Some(FieldValue::Array(list)) = span.get_mut(name) {
                    list.truncate(length);
                }
            }
            span
        })
        .collect()
}

/// Returns policies with the operators of the language on a field.
pub(crate) fn policies(field: &MarkedField) -> Vec<String> {
    let f = field.field.to_string();
    let text = |text: &str| format!("\"{}\"", escape(text));
    let mut found = Vec::new();
    if let Some(map) = &field.field.map {
        found.push(format!("{} in {map}", text(&field.field.name)));
        let plain = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
        let levels: Vec<&str> = field.field.name.split('.').collect();
        // A key with dots cannot be written as a chain of members; a path can.
        if levels.iter().all(|name| plain(name))
            && (levels.len() == 1 || field.source == FieldSource::JsonPath)
        {
            found.push(format!("has({map}.{})", field.field.name));
        }
    }
    found.extend(["[{f}] == [{f}]", "({f} == {f}) ? true : false"].map(|form| form.replace("{f}", &f)));
    let forms: &[&str] = match field.logical {
        LogicalType::Number => &[],
        LogicalType::Boolean => &[
            "{f}",
            "!{f}",
            "{f} == true",
            "{f} != true",
            "{f} && true",
            "{f} || false",
            "{f} ? Sampled : !Sampled",
            "(Sampled ? {f} : false) == false",
            "{f} in [true]",
            "{f} in user.attributes.tenants",
            "{f} == user.attributes.team",
            "{f} == user.attributes.lead",
            "user.roles.exists(r, r == \"a\" && {f})",
        ],
        LogicalType::String => &[
            "{f} == \"\"",
            "{f} == \"a\"",
            "{f} != \"prod\"",
            "{f} == \"a\\u0000\"",
            "{f} == \"61f0c404-5cb3-11e7-907b-a6006ad3dba0\"",
            "{f} != \"61F0C404-5CB3-11E7-907B-A6006AD3DBA0\"",
            "{f} == \"no such name, and longer than any FixedString\"",
            "{f} < \"a\"",
            "{f} <= \"a\"",
            "{f} > \"\"",
            "{f} >= \"\u{e9}\"",
            "\"a\" < {f}",
            "{f} in [\"a\", \"prod\"]",
            "{f} in [\"\", \"61f0c404-5cb3-11e7-907b-a6006ad3dba0\"]",
            "{f} in []",
            "{f} in user.roles",
            "{f} in user.attributes.tenants",
            "{f} in Tags",
            "{f} in [SpanName, \"a\"]",
            "\"a\" in [{f}]",
            "{f}.startsWith(\"a\")",
            "{f}.startsWith(\"\")",
            "{f}.endsWith(\"\\u0000\")",
            "{f}.contains(\"\\n\")",
            "\"prod a\".contains({f})",
            "\"abcde\".startsWith({f})",
            "{f}.endsWith({f})",
            "{f}.matches(\"^a.b$\")",
            "{f}.matches(\"\")",
            "{f}.matches(\"[^a]\")",
            "size({f}) == 1",
            "size({f}) < 4",
            "{f} == user.username",
            "{f} == user.attributes.team",
            "{f} != user.attributes.tenants",
            "{f} == user.attributes.missing",
            "[{f}, \"a\"] == [\"a\", \"a\"]",
            "[{f}] == Tags",
            "[{f}, \"a\"].exists(v, v == \"a\")",
            "[{f}, \"a\"].all(v, v != \"\")",
            "[{f}, \"a\"].exists_one(v, v == \"a\")",
            "(Sampled ? {f} : \"a\") == \"a\"",
            "{f} == \"a\" || true",
            "{f} == \"a\" && false",
        ],
        LogicalType::StringArray => &[
            "\"\" in {f}",
            "\"a\" in {f}",
            "SpanName in {f}",
            "user.username in {f}",
            "user.roles.all(r, r in {f})",
            "{f} == []",
            "{f} == [\"a\"]",
            "{f} != [\"a\", \"prod\"]",
            "{f} == [SpanName]",
            "{f} == Tags",
            "{f} == user.attributes.tenants",
            "{f} == user.attributes.team",
            "{f} in [[\"a\"], []]",
            "size({f}) == 0",
            "size({f}) > 1",
            "{f}.exists(v, v == \"a\")",
            "{f}.exists(v, v != \"\")",
            "{f}.exists(v, v < \"b\")",
            "{f}.all(v, v == \"a\")",
            "{f}.all(v, size(v) > 0)",
            "{f}.exists_one(v, v == \"a\")",
            "{f}.exists_one(v, v.matches(\"a\"))",
            "{f}.all(v, {f}.exists(w, v == w))",
            "{f}.exists(v, v in user.attributes.tenants)",
            "(Sampled ? {f} : Tags).exists(v, v == \"a\")",
        ],
    };
    found.extend(forms.iter().map(|form| form.replace("{f}", &f)));
    found
}

/// Operands of each kind in turn.
struct NumberedOperands(usize);

const NUMBERS: [&str; 13] = [
    "0",
    "5",
    "5.000000000000000000000000000001",
    "4.9999",
    "9007199254740993",
    "-9223372036854775808",
    "9223372036854775807.5",
    "18446744073709551615",
    "18446744073709551616",
    "0.1",
    "-0.001",
    "1700000000.0005",
    "1.7976931348623157e308",
];
const TEXTS: [&str; 4] = ["", "a", UUID, "\u{e9}"];
const LISTS: [&[&str]; 4] = [&["a", UUID, "x"], &["a", UUID, ""], &["prod", "a", UUID], &["", "a"]];

impl NumberedOperands {
    fn nth<T: Copy>(&self, all: &[T], offset: usize) -> T {
        all[(self.0 + offset) % all.len()]
    }
}

impl OperandSource for NumberedOperands {
    type Error = Infallible;

    fn none(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn string(&mut self) -> Result<String, Infallible> {
        Ok(self.nth(&TEXTS, 0).to_owned())
    }

    fn boolean(&mut self) -> Result<bool, Infallible> {
        Ok(self.nth(&[true, false], 0))
    }

    fn number(&mut self) -> Result<Decimal, Infallible> {
        Ok(Decimal::parse(self.nth(&NUMBERS, 0)).unwrap())
    }

    fn strings(&mut self) -> Result<Vec<String>, Infallible> {
        Ok(self.nth(&LISTS, 0).iter().map(|text| (*text).to_owned()).collect())
    }

    fn range(&mut self) -> Result<(Decimal, Decimal), Infallible> {
        Ok([0, 1].map(|offset| Decimal::parse(self.nth(&NUMBERS, offset)).unwrap()).into())
    }
}

/// Returns conditions with every operator of filters on a field, and all operands.
pub(crate) fn conditions(field: &MarkedField) -> Vec<Condition> {
    let mut tests = Vec::new();
    for operator in Operator::of_type(field.logical) {
        for number in 0..NUMBERS.len() {
            let Ok(test) = Test::new(operator, field.logical, &mut NumberedOperands(number));
            if !tests.contains(&test) {
                tests.push(test);
            }
        }
    }
    tests.into_iter().map(|test| Condition { field: field.clone(), test }).collect()
}

pub(crate) fn caller() -> Caller {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Caller {
        username: "prod".to_owned(),
        roles: ["a".to_owned(), String::new()].into(),
        attributes: [
            ("team".to_owned(), AttributeValue::String("a".to_owned())),
            ("lead".to_owned(), AttributeValue::Bool(true)),
            ("tenants".to_owned(), AttributeValue::Strings(texts(&["a", "prod", ""]))),
        ]
        .into(),
    }
}

/// Returns the value of a field as the column returns it, with the default of a declared path; `None` for an absent
/// value.
pub(crate) fn stored_value(field: &MarkedField, span: &Span) -> Option<FieldValue> {
    let found = match &field.field.map {
        None => span.get(&field.field.name),
        Some(map) => span.get(map).and_then(|map| map.value_of_key(field.field.name.as_bytes())),
    };
    let declared = field.source == FieldSource::JsonPath && !field.column_type.is_nullable();
    let value = match found.cloned() {
        None | Some(FieldValue::Null) if declared => Some(default_value(&field.column_type)),
        found => found,
    };
    value.map(|value| normalized(value, &field.column_type))
}

fn default_value(column_type: &ColumnType) -> FieldValue {
    match column_type.bare() {
        ColumnType::Bool => FieldValue::Bool(false),
        ColumnType::Array(_) => FieldValue::Array(Vec::new()),
        ColumnType::Text(text_type) => FieldValue::text(text_type.default_value().unwrap()),
        ColumnType::Number(_) => FieldValue::Number(Number::Int(0)),
        other => panic!("{other}"),
    }
}

fn normalized(value: FieldValue, column_type: &ColumnType) -> FieldValue {
    match (value, column_type.bare()) {
        (FieldValue::String(bytes), ColumnType::Text(text_type)) => {
            FieldValue::String(text_type.normalize(&bytes).into_owned())
        }
        (FieldValue::Array(elements), ColumnType::Array(inner)) => {
            FieldValue::Array(elements.into_iter().map(|element| normalized(element, inner)).collect())
        }
        (value, _) => value,
    }
}

#[tokio::test]
async fn every_operator_on_every_hostile_value() {
    let model = Generator::model();
    for known in text_types().map(|text_type| discriminant(&text_type)) {
        let has_type = |field: &MarkedField| match field.column_type.bare() {
            ColumnType::Text(text_type) => discriminant(text_type) == known,
            _ => false,
        };
        assert!(model.fields.iter().any(has_type), "{known:?}");
    }
    // One field of each kind, and for each kind the empty key, which ClickHouse looks up in another way.
    let mut kinds = BTreeSet::new();
    let kind = |field: &MarkedField| {
        (field.source.as_str(), field.column_type.to_string(), field.logical, field.field.name.is_empty())
    };
    let one_of_each: Vec<&MarkedField> =
        model.fields.iter().filter(|field| field.policy && kinds.insert(kind(field))).collect();
    let texts: Vec<(String, String)> = one_of_each
        .iter()
        .flat_map(|field| policies(field).into_iter().map(|text| (field.field.to_string(), text)))
        .collect();
    let refused: Vec<&String> =
        texts.iter().map(|(_, text)| text).filter(|text| check(text, &model).is_err()).collect();
    assert!(refused.is_empty(), "refused: {refused:#?}");
    let spans = Arc::new(spans(&model.fields));
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    load(&local, &[]).await;
    for (at, span) in spans.iter().enumerate() {
        execute(&local, format!("INSERT INTO default.pairs VALUES ({at}, {})", literals::row(COLUMNS, span)))
            .await;
    }
    let (caller, mut wrong, mut cells) = (caller(), Vec::new(), 0);
    let mut results: BTreeMap<Verdict, usize> = BTreeMap::new();
    let mut verdict_counts: BTreeMap<(String, Verdict), usize> = BTreeMap::new();
    let written = |(field, text): &(String, String)| {
        let written = GeneratedPolicy { text: text.clone(), operations: Vec::new(), standalone: true };
        let lowered =
            LoweredPolicy::new(written, caller.clone()).unwrap_or_else(|| panic!("refused: {text}"));
        (field.clone(), lowered)
    };
    let mut every_policy: Vec<(String, LoweredPolicy)> = texts.iter().map(written).collect();
    // Again, with values of keys read from key columns.
    let with_key_columns: Vec<(String, LoweredPolicy)> = every_policy
        .iter()
        .filter_map(|(field, lowered)| Some((field.clone(), lowered.with_key_columns()?)))
        .collect();
    let policies_with_key_columns = with_key_columns.len();
    every_policy.extend(with_key_columns);
    for part in every_policy.chunks(BATCH) {
        let lowered: Arc<Vec<LoweredPolicy>> =
            Arc::new(part.iter().map(|(_, lowered)| lowered.clone()).collect());
        let (by_store, by_reference) = evaluate_both(&store, &lowered, &spans).await;
        for (((lowered, (field, _)), by_store), by_reference) in
            lowered.iter().zip(part).zip(&by_store).zip(&by_reference)
        {
            cells += by_store.len();
            for ((span, store), reference) in spans.iter().zip(by_store).zip(by_reference) {
                *results.entry(*reference).or_default() += 1;
                *verdict_counts.entry((field.clone(), *reference)).or_default() += 1;
                if store != reference {
                    wrong.push(lowered.describe_disagreement(span, *store, *reference));
                }
            }
        }
    }
    let conditions: Vec<Condition> = model.fields.iter().flat_map(conditions).collect();
    let mut matching = 0;
    // As filters are sent, which read any key column of the standard form; and with the map only.
    let found = store.catalogue().columns("default", "pairs").await.unwrap();
    let without: Vec<Column> = found.iter().map(|column| Column { key: None, ..column.clone() }).collect();
    let key_column_count = found.iter().filter(|column| column.key.is_some()).count();
    let reads_key_column = |condition: &&Condition| {
        let mut columns = Vec::new();
        let resolved = resolve_fields(&lower_condition(condition), &found, Purpose::Filter).unwrap();
        resolved.fields().into_iter().for_each(|field| columns.extend(field.column.clone()));
        !columns.is_empty()
    };
    let with_key_columns: Vec<Condition> = conditions.iter().filter(reads_key_column).cloned().collect();
    for (conditions, columns) in [(&conditions, &without), (&with_key_columns, &found)] {
        for part in conditions.chunks(BATCH) {
            let mut statement = Statement::for_columns(COLUMNS.iter().map(|(name, _)| *name));
            let rendered: Vec<String> = part
                .iter()
                .map(|condition| {
                    let predicate =
                        resolve_fields(&lower_condition(condition), columns, Purpose::Filter).unwrap();
                    render(&predicate, &mut statement)
                })
                .collect();
            let result = statement.alias("result");
            statement.push(&format!(
                "SELECT [{}] AS {result}, toTypeName({result}) FROM default.pairs ORDER BY id",
                rendered.iter().map(|column| format!("toUInt8({column})")).collect::<Vec<_>>().join(", ")
            ));
            let text = statement.text.clone();
            let rows: Vec<(Vec<u8>, String)> =
                store.client.rows(statement).await.unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(rows.len(), spans.len());
            for (span, (row, type_name)) in spans.iter().zip(rows) {
                assert!(
                    matches!(type_name.as_str(), "Array(UInt8)" | "Array(LowCardinality(UInt8))"),
                    "a predicate may be NULL: {type_name}"
                );
                for ((condition, sql), found) in part.iter().zip(&rendered).zip(row) {
                    cells += 1;
                    let value = stored_value(&condition.field, span);
                    let expected = matches(value.as_ref(), condition);
                    matching += usize::from(expected);
                    if expected != (found == 1) {
                        wrong.push(format!(
                            "store {found}, reference {expected}\n{condition:?}\n{value:?}\n{sql}"
                        ));
                    }
                }
            }
        }
    }
    println!(
        "{cells} cells: {} policies, {policies_with_key_columns} through columns too, and {} conditions, {} through \
         columns too, on {} rows; {results:?}, {matching} conditions match, {} wrong",
        texts.len(),
        conditions.len(),
        with_key_columns.len(),
        spans.len(),
        wrong.len()
    );
    assert!(
        key_column_count >= 8 && policies_with_key_columns >= 100 && with_key_columns.len() >= 100,
        "columns are not read"
    );
    wrong.sort_by_key(String::len);
    assert!(
        wrong.is_empty(),
        "{} are wrong, the shortest:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(8)].join("\n\n")
    );
    for field in one_of_each {
        for verdict in [Verdict::True, Verdict::False] {
            assert!(
                verdict_counts.contains_key(&(field.field.to_string(), verdict)),
                "{} is never {verdict:?}",
                field.field
            );
        }
    }
    assert!(cells >= 90_000, "only {cells} cells");
}
