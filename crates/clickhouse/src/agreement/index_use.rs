//! Which skip indexes and keys serve which operator, on the OpenTelemetry exporter's table and on additional columns.
//!
//! A table of operators lists, for each, the indexes that serve it, or the reason why none can. The test fails in both
//! directions, so that the table stays accurate.
//!
//! `EXPLAIN` gets the predicate as a condition on rows. A selection in one grouped pass evaluates it on whole traces
//! (`docs/adr/0003`), where no index can serve it. The results here apply to plans that read candidates first.

use std::collections::BTreeMap;

use tracewarden_model::{
    AccessModel, Caller, ColumnType, Condition, Decimal, FieldRef, FieldSource, LogicalType, MarkedField,
    Relation, Test,
};
use tracewarden_policy::{Predicate, check, lower_condition};
use tracewarden_testkit::local_store::LocalStore;

use crate::ClickHouse;
use crate::agreement::differential::{connect, execute};
use crate::sql::{Statement, render};

/// Number of rows of the table, and of each of its granules.
const ROWS: u32 = 8_192;
const GRANULE: u32 = 128;

const PRIMARY_KEY: &str = "PrimaryKey";

/// The indexes that serve an operator.
#[derive(Clone, Copy)]
enum IndexUse {
    /// These, each of which excludes granules.
    Indexes(&'static [&'static str]),
    /// None, with the reason.
    Unsupported(&'static str),
}
use IndexUse::{Indexes, Unsupported};

const KEYS_ONLY: &[&str] = &["idx_span_attr_key"];
const NOT_FOR_ABSENCE: &str = "a bloom filter cannot show that a value is absent";
const KEYS_WRAP: &str = "table keys wrap for years outside `DateTime`; the window of a search uses the key";
const WHOLE_VALUES_ONLY: &str = "a bloom filter contains whole values, not parts of them";

/// Policies. `near` is a value of one granule, `far` of none.
const POLICIES: &[(&str, IndexUse)] = &[
    // Keys of maps.
    ("SpanAttributes[\"rare\"] == \"near\"", Indexes(KEYS_ONLY)),
    ("SpanAttributes[\"all\"] == \"near 7\"", Indexes(&["idx_span_attr_value"])),
    ("SpanAttributes[\"all\"] in [\"near 7\", \"near 8\"]", Indexes(&["idx_span_attr_value"])),
    ("SpanAttributes[\"all\"] == user.attributes.team", Indexes(&["idx_span_attr_value"])),
    ("SpanAttributes[\"all\"] in user.attributes.tenants", Indexes(&["idx_span_attr_value"])),
    ("SpanAttributes[\"all\"] in user.attributes.many", Indexes(&["idx_span_attr_value"])),
    ("user.attributes.tenants.exists(t, t == SpanAttributes[\"all\"])", Indexes(&["idx_span_attr_value"])),
    ("SpanAttributes[\"rare\"] != \"x\"", Indexes(KEYS_ONLY)),
    ("!(SpanAttributes[\"rare\"] in [\"x\", \"y\"])", Indexes(KEYS_ONLY)),
    ("SpanAttributes[\"rare\"] < \"x\"", Indexes(KEYS_ONLY)),
    ("SpanAttributes[\"rare\"].startsWith(\"n\")", Indexes(KEYS_ONLY)),
    ("SpanAttributes[\"rare\"].endsWith(\"r\")", Indexes(KEYS_ONLY)),
    ("SpanAttributes[\"rare\"].contains(\"ea\")", Indexes(KEYS_ONLY)),
    ("SpanAttributes[\"rare\"].matches(\"^n\")", Indexes(KEYS_ONLY)),
    ("size(SpanAttributes[\"rare\"]) > 0", Indexes(KEYS_ONLY)),
    ("SpanAttributes[\"rare\"] == SpanAttributes[\"all\"]", Indexes(KEYS_ONLY)),
    ("has(SpanAttributes.rare)", Indexes(KEYS_ONLY)),
    ("\"rare\" in SpanAttributes", Indexes(KEYS_ONLY)),
    ("SpanAttributes[\"flag\"]", Indexes(KEYS_ONLY)),
    ("!SpanAttributes[\"flag\"]", Indexes(KEYS_ONLY)),
    ("\"a\" in SpanAttributes[\"list\"]", Indexes(KEYS_ONLY)),
    ("SpanAttributes[\"list\"].exists(v, v == \"a\")", Indexes(KEYS_ONLY)),
    ("SpanAttributes[\"list\"] == []", Indexes(KEYS_ONLY)),
    (
        "SpanAttributes[\"rare\"] == \"near\" || SpanAttributes[\"all\"] == \"near 7\"",
        Indexes(&["idx_span_attr_value"]),
    ),
    (
        "SpanAttributes[\"rare\"] == \"near\" && ServiceName == \"s1\"",
        Indexes(&[PRIMARY_KEY, "idx_span_attr_key"]),
    ),
    ("ResourceAttributes[\"team\"] == \"team 3\"", Indexes(&["idx_res_attr_value"])),
    ("!(\"rare\" in SpanAttributes)", Unsupported(NOT_FOR_ABSENCE)),
    ("SpanAttributes[\"all\"].startsWith(\"near 7\")", Unsupported(WHOLE_VALUES_ONLY)),
    ("SpanAttributes[\"all\"].matches(\"^near 7$\")", Unsupported(WHOLE_VALUES_ONLY)),
    ("SpanAttributes[\"all\"] != \"near 7\"", Unsupported(NOT_FOR_ABSENCE)),
    ("SpanAttributes[\"all\"] < \"near 1\"", Unsupported("a bloom filter has no order")),
    // The key of the table.
    ("ServiceName == \"s1\"", Indexes(&[PRIMARY_KEY])),
    ("ServiceName in [\"s1\", \"s2\"]", Indexes(&[PRIMARY_KEY])),
    ("ServiceName in user.attributes.services", Indexes(&[PRIMARY_KEY])),
    ("ServiceName.startsWith(\"s1\")", Indexes(&[PRIMARY_KEY])),
    ("ServiceName.matches(\"^s1[0-9]*$\")", Indexes(&[PRIMARY_KEY])),
    ("ServiceName.matches(\"^s\\\\x{31}\")", Indexes(&[PRIMARY_KEY])),
    ("ServiceName.matches(\"s1\")", Unsupported("it may begin with anything")),
    ("!ServiceName.matches(\"^s1\")", Unsupported("nearly all are others")),
    ("ServiceName != \"s1\"", Indexes(&[PRIMARY_KEY])),
    ("!(ServiceName in [\"s1\", \"s2\"])", Indexes(&[PRIMARY_KEY])),
    ("ServiceName == \"s1\" && SpanName == \"op 3\"", Indexes(&[PRIMARY_KEY])),
    ("user.attributes.services.exists(s, s == ServiceName)", Indexes(&[PRIMARY_KEY])),
    ("ServiceName.contains(\"1\")", Unsupported("the key is ordered by prefixes")),
    ("ServiceName.endsWith(\"1\")", Unsupported("the key is ordered by prefixes")),
    ("size(ServiceName) == 3", Unsupported("the key is no function of sizes")),
    ("ServiceName == SpanName", Unsupported("two columns are no range of the key")),
    // Columns of other types, each with an index of its own.
    ("Kind == \"rare\"", Indexes(&["idx_kind"])),
    ("Kind in [\"rare\", \"rarer\"]", Indexes(&["idx_kind"])),
    ("RequestId == \"00000000-0000-0000-0000-000000000007\"", Indexes(&["idx_request"])),
    (
        "RequestId in [\"00000000-0000-0000-0000-000000000007\", \"00000000-0000-0000-0000-000000000008\"]",
        Indexes(&["idx_request"]),
    ),
    ("Code == \"c7\"", Indexes(&["idx_code"])),
    ("Code in [\"c7\", \"c8\"]", Indexes(&["idx_code"])),
    ("Nick == \"n7\"", Indexes(&["idx_nick"])),
    ("Nick in [\"n7\", \"n8\"]", Indexes(&["idx_nick"])),
    ("\"t7\" in Tags", Indexes(&["idx_tags"])),
    ("user.attributes.tags.all(t, t in Tags)", Indexes(&["idx_tags"])),
    ("\"t7\" in Notes", Unsupported("no skip index supports arrays of nullable strings")),
    ("Doc[\"a.b\"] == \"d7\"", Indexes(&["idx_doc"])),
    ("Doc[\"a.b\"] in [\"d7\", \"d8\"]", Indexes(&["idx_doc"])),
    ("Tags.exists(t, t == \"t7\")", Indexes(&["idx_tags"])),
    ("Tags == [\"t7\"]", Unsupported("a bloom filter of elements does not serve equality of arrays")),
];

fn text(text: &str) -> String {
    text.to_owned()
}

fn decimal(digits: &str) -> Decimal {
    Decimal::parse(digits).unwrap()
}

/// Conditions of filters: map, name, test.
fn conditions() -> Vec<(Option<&'static str>, &'static str, Test, IndexUse)> {
    let attributes = Some("SpanAttributes");
    let near = || vec![text("near 7"), text("near 8")];
    vec![
        (attributes, "all", Test::StringEq(text("near 7")), Indexes(&["idx_span_attr_value"])),
        (attributes, "all", Test::StringIn(near()), Indexes(&["idx_span_attr_value"])),
        (attributes, "rare", Test::StringNe(text("x")), Indexes(KEYS_ONLY)),
        (attributes, "rare", Test::StringNotIn(near()), Indexes(KEYS_ONLY)),
        (attributes, "rare", Test::Prefix(text("n")), Indexes(KEYS_ONLY)),
        (attributes, "rare", Test::Exists, Indexes(KEYS_ONLY)),
        (attributes, "rare", Test::NotExists, Unsupported(NOT_FOR_ABSENCE)),
        (attributes, "flag", Test::BoolEq(true), Indexes(KEYS_ONLY)),
        (attributes, "list", Test::Has(text("a")), Indexes(KEYS_ONLY)),
        (attributes, "number", Test::Compare(Relation::Gt, decimal("5")), Indexes(KEYS_ONLY)),
        (None, "ServiceName", Test::StringEq(text("s1")), Indexes(&[PRIMARY_KEY])),
        (None, "ServiceName", Test::Prefix(text("s1")), Indexes(&[PRIMARY_KEY])),
        (None, "Duration", Test::Compare(Relation::Gt, decimal("8000")), Indexes(&["idx_duration"])),
        (None, "Duration", Test::Compare(Relation::Eq, decimal("7")), Indexes(&["idx_duration"])),
        (None, "Duration", Test::Compare(Relation::Lt, decimal("7.5")), Indexes(&["idx_duration"])),
        (None, "Duration", Test::Between(decimal("7"), decimal("9")), Indexes(&["idx_duration"])),
        (None, "Duration", Test::Compare(Relation::Ne, decimal("7")), Unsupported("nearly all are others")),
        (None, "Timestamp", Test::Compare(Relation::Ge, decimal("1700008000.5")), Unsupported(KEYS_WRAP)),
        (None, "Timestamp", Test::Compare(Relation::Eq, decimal("1700000007")), Unsupported(KEYS_WRAP)),
        (
            None,
            "Timestamp",
            Test::Between(decimal("1700000007.1"), decimal("1700000009")),
            Unsupported(KEYS_WRAP),
        ),
        (None, "Milli", Test::Compare(Relation::Lt, decimal("1700000007.0005")), Unsupported(KEYS_WRAP)),
        // Decimals, floats and 32-bit times, nullable ones too: constants of the column's own type.
        (None, "Second", Test::Compare(Relation::Le, decimal("1700000007.5")), Indexes(&["idx_second"])),
        (None, "Spent", Test::Compare(Relation::Gt, decimal("8000.5")), Indexes(&["idx_spent"])),
        (None, "Spent", Test::Compare(Relation::Eq, decimal("7")), Indexes(&["idx_spent"])),
        (None, "Price", Test::Compare(Relation::Eq, decimal("0.07")), Indexes(&["idx_price"])),
        (None, "Price", Test::Compare(Relation::Lt, decimal("0.07001")), Indexes(&["idx_price"])),
        (None, "Ratio", Test::Compare(Relation::Lt, decimal("7.1")), Indexes(&["idx_ratio"])),
        (None, "Ratio64", Test::Compare(Relation::Lt, decimal("7.1")), Indexes(&["idx_ratio64"])),
        (None, "Tags", Test::Has(text("t7")), Indexes(&["idx_tags"])),
        (None, "Tags", Test::HasAny(vec![text("t7"), text("t8")]), Indexes(&["idx_tags"])),
        (None, "Tags", Test::HasAll(vec![text("t7"), text("x")]), Indexes(&["idx_tags"])),
    ]
}

fn model() -> AccessModel {
    let columns: [(&str, &str, LogicalType); 17] = [
        ("ServiceName", "LowCardinality(String)", LogicalType::String),
        ("SpanName", "LowCardinality(String)", LogicalType::String),
        ("Duration", "UInt64", LogicalType::Number),
        ("Kind", "Enum8('common' = 1, 'rare' = 2, 'rarer' = 3)", LogicalType::String),
        ("RequestId", "UUID", LogicalType::String),
        ("Code", "FixedString(4)", LogicalType::String),
        ("Nick", "Nullable(String)", LogicalType::String),
        ("Tags", "Array(String)", LogicalType::StringArray),
        ("Notes", "Array(Nullable(String))", LogicalType::StringArray),
        ("Timestamp", "DateTime64(9)", LogicalType::Number),
        ("Milli", "DateTime64(3)", LogicalType::Number),
        ("Second", "DateTime", LogicalType::Number),
        ("Spent", "Nullable(UInt32)", LogicalType::Number),
        ("Price", "Decimal(9, 2)", LogicalType::Number),
        ("Ratio", "Float32", LogicalType::Number),
        ("Ratio64", "Nullable(Float64)", LogicalType::Number),
        ("Doc", "JSON", LogicalType::String),
    ];
    let mark = |field, source, logical, text: &str| MarkedField {
        field,
        source,
        logical,
        column_type: ColumnType::parse(text),
        filterable: true,
        policy: logical != LogicalType::Number,
        column: None,
    };
    let mut fields: Vec<MarkedField> = columns[..16]
        .iter()
        .map(|(name, text, logical)| mark(FieldRef::column(*name), FieldSource::Column, *logical, text))
        .collect();
    for (key, logical) in [
        ("rare", LogicalType::String),
        ("all", LogicalType::String),
        ("flag", LogicalType::Boolean),
        ("list", LogicalType::StringArray),
        ("number", LogicalType::Number),
    ] {
        fields.push(mark(FieldRef::key("SpanAttributes", key), FieldSource::MapKey, logical, "String"));
    }
    fields.push(mark(
        FieldRef::key("ResourceAttributes", "team"),
        FieldSource::MapKey,
        LogicalType::String,
        "String",
    ));
    fields.push(mark(FieldRef::key("Doc", "a.b"), FieldSource::JsonPath, LogicalType::String, "Dynamic"));
    AccessModel { version: 1, binding: None, fields }
}

fn caller() -> Caller {
    use tracewarden_model::AttributeValue::{String, Strings};
    let list = |texts: &[&str]| Strings(texts.iter().map(|text| (*text).to_owned()).collect());
    let attributes = [
        ("team", String(text("near 7"))),
        ("tenants", list(&["near 7", "near 8"])),
        ("many", Strings((0..200).map(|number| format!("nowhere {number}")).collect())),
        ("services", list(&["s1", "s2"])),
        ("tags", list(&["t7", "x"])),
    ];
    Caller {
        attributes: attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        ..Caller::default()
    }
}

/// Creates the exporter's own table, with small granules, additional columns and an index on each of them.
async fn fill(local: &LocalStore) {
    for statement in [
        format!(
            "CREATE TABLE default.indexed AS otel.otel_traces ENGINE = MergeTree \
             ORDER BY (ServiceName, SpanName, toDateTime(Timestamp)) SETTINGS index_granularity = {GRANULE}"
        ),
        text(
            "ALTER TABLE default.indexed \
             ADD COLUMN Kind Enum8('common' = 1, 'rare' = 2, 'rarer' = 3), ADD INDEX idx_kind Kind TYPE set(4) GRANULARITY 1, \
             ADD COLUMN RequestId UUID, ADD INDEX idx_request RequestId TYPE bloom_filter GRANULARITY 1, \
             ADD COLUMN Code FixedString(4), ADD INDEX idx_code Code TYPE bloom_filter GRANULARITY 1, \
             ADD COLUMN Nick Nullable(String), ADD INDEX idx_nick Nick TYPE bloom_filter GRANULARITY 1, \
             ADD COLUMN Tags Array(String), ADD INDEX idx_tags Tags TYPE bloom_filter GRANULARITY 1, \
             ADD COLUMN Notes Array(Nullable(String)), \
             ADD INDEX idx_time Timestamp TYPE minmax GRANULARITY 1, \
             ADD COLUMN Milli DateTime64(3) MATERIALIZED Timestamp, ADD INDEX idx_milli Milli TYPE minmax GRANULARITY 1, \
             ADD COLUMN Second DateTime MATERIALIZED Timestamp, ADD INDEX idx_second Second TYPE minmax GRANULARITY 1, \
             ADD COLUMN Spent Nullable(UInt32) MATERIALIZED Duration, ADD INDEX idx_spent Spent TYPE minmax GRANULARITY 1, \
             ADD COLUMN Price Decimal(9, 2) MATERIALIZED Duration / 100, ADD INDEX idx_price Price TYPE minmax GRANULARITY 1, \
             ADD COLUMN Ratio Float32 MATERIALIZED Duration, ADD INDEX idx_ratio Ratio TYPE minmax GRANULARITY 1, \
             ADD COLUMN Ratio64 Nullable(Float64) MATERIALIZED Duration, ADD INDEX idx_ratio64 Ratio64 TYPE minmax GRANULARITY 1, \
             ADD COLUMN Doc JSON, ADD INDEX idx_doc Doc.a.b.:String TYPE bloom_filter GRANULARITY 1",
        ),
        // Rare values are in one granule; the other values increase with the granule.
        format!(
            "INSERT INTO default.indexed (Timestamp, ServiceName, SpanName, SpanAttributes, ResourceAttributes, Duration, \
             Kind, RequestId, Code, Nick, Tags, Notes, Doc) \
             SELECT toDateTime64(1700000000 + number, 9), concat('s', toString(intDiv(granule, 16))), \
             concat('op ', toString(intDiv(granule, 4))), \
             if(granule = 7, map('rare', 'near', 'flag', 'true', 'list', '[\"a\"]', 'number', '7', 'all', 'near 7'), \
                             map('all', concat('near ', toString(granule)))), \
             map('team', concat('team ', toString(granule))), number, \
             multiIf(granule = 7, 'rare', granule = 8, 'rarer', 'common'), \
             toUUID(concat('00000000-0000-0000-0000-', leftPad(toString(granule), 12, '0'))), \
             concat('c', toString(granule)), concat('n', toString(granule)), [concat('t', toString(granule)), 'x'], \
             [concat('t', toString(granule)), NULL], concat('{{\"a\":{{\"b\":\"d', toString(granule), '\"}}}}') \
             FROM (SELECT number, toUInt32(intDiv(number, {GRANULE})) AS granule FROM numbers({ROWS}))"
        ),
        text("OPTIMIZE TABLE default.indexed FINAL"),
    ] {
        execute(local, statement).await;
    }
}

/// The granules that each index leaves, of those that it was given.
async fn explain(store: &ClickHouse, predicate: &Predicate) -> BTreeMap<String, (u32, u32)> {
    let mut statement = Statement::default();
    let condition = render(predicate, &mut statement);
    statement.push(&format!("EXPLAIN indexes = 1 SELECT SpanId FROM default.indexed WHERE {condition}"));
    granules(store, statement).await
}

/// Parses an `EXPLAIN`: for each index, the granules that it leaves, of those that it was given.
pub(crate) async fn granules(store: &ClickHouse, explain: Statement) -> BTreeMap<String, (u32, u32)> {
    let text = explain.text.clone();
    let lines: Vec<(String,)> =
        store.client.rows(explain).await.unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut found = BTreeMap::new();
    let mut name = String::new();
    for (line,) in lines {
        let line = line.trim();
        if ["PrimaryKey", "Partition", "MinMax"].contains(&line) {
            name = line.to_owned();
        } else if let Some(index) = line.strip_prefix("Name: ") {
            name = index.to_owned();
        } else if let Some((left, total)) =
            line.strip_prefix("Granules: ").and_then(|rest| rest.split_once('/'))
        {
            found.insert(name.clone(), (left.parse().unwrap(), total.parse().unwrap()));
        }
    }
    found
}

fn mismatch(what: &str, expected: IndexUse, found: &BTreeMap<String, (u32, u32)>) -> Option<String> {
    let used: Vec<&str> =
        found.iter().filter(|(_, (left, total))| left < total).map(|(name, _)| name.as_str()).collect();
    match expected {
        Indexes(names) if names.iter().all(|name| used.contains(name)) => None,
        Indexes(names) => Some(format!("{what}: {names:?} should serve it, {used:?} do: {found:?}")),
        Unsupported(_) if used.is_empty() => None,
        Unsupported(why) => {
            Some(format!("{what}: {used:?} serve it, although that was thought impossible: {why}"))
        }
    }
}

#[tokio::test]
async fn each_operator_is_served_by_the_indexes_that_can_serve_it() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    fill(&local).await;
    let (model, caller) = (model(), caller());
    let mut wrong = Vec::new();
    let (mut served_by_index, mut unsupported) = (0, 0);
    let mut count = |expected: IndexUse| match expected {
        Indexes(_) => served_by_index += 1,
        Unsupported(_) => unsupported += 1,
    };
    for (policy, expected) in POLICIES {
        let predicate = check(policy, &model)
            .unwrap_or_else(|error| panic!("{policy}: {error:?}"))
            .predicate(&caller)
            .unwrap();
        count(*expected);
        wrong.extend(mismatch(policy, *expected, &explain(&store, &predicate).await));
    }
    for (map, name, test, expected) in conditions() {
        let field = FieldRef { map: map.map(str::to_owned), name: name.to_owned() };
        let field = model.field(&field).unwrap().clone();
        let condition = Condition { field, test };
        count(expected);
        let what = format!("filter {} {:?}", condition.field.field, condition.test);
        wrong.extend(mismatch(&what, expected, &explain(&store, &lower_condition(&condition)).await));
    }
    println!("{served_by_index} operators are served by an index, {unsupported} by none");
    assert!(
        wrong.is_empty(),
        "{} rows of the table of expectations are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
