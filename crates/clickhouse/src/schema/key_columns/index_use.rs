//! Which indexes of a key column serve which operator, and that a projection with the column answers alone.

use tracewarden_model::{AccessModel, AttributeValue, Caller, ColumnType, FieldRef, LogicalType};
use tracewarden_policy::check;
use tracewarden_testkit::local_store::LocalStore;

use super::*;
use crate::agreement::{connect, execute, granules};
use crate::schema::layout::key_column_expression;
use crate::sql::{Statement, render};

/// Policies on the key `k`, whether a `bloom_filter` index on its column serves them, and how many of the 64 granules a `set`
/// index leaves. Each of the values is in 8 granules; in 32 the key is absent.
const POLICIES: &[(&str, bool, u32)] = &[
    ("m.k == 'v7'", true, 8),
    ("m.k == ''", true, 8),
    ("m.k in ['v7', 'v9']", true, 8),
    ("m.k in user.attributes.few", true, 8),
    ("m.k in user.attributes.many", true, 8),
    ("m.k == 'v7' || m.k == 'v9' && m.other == 'x'", true, 8),
    ("m.k != 'v7'", false, 24),
    ("!(m.k in ['v7', 'v9'])", false, 24),
    ("'k' in m", false, 32),
    ("!('k' in m)", false, 32),
    ("m.k.startsWith('v7')", false, 8),
    ("m.k.matches('7$')", false, 8),
    ("m.k < 'v1'", false, 8),
    ("size(m.k) == 2", false, 24),
    ("m.flag", false, 64),
];

const ROWS: u32 = 8_192;
const GRANULE: u32 = 128;

fn key(name: &str, logical: LogicalType, column: Option<&str>) -> MarkedField {
    MarkedField {
        field: FieldRef::key("m", name),
        source: FieldSource::MapKey,
        logical,
        column_type: ColumnType::STRING,
        filterable: true,
        policy: true,
        column: column.map(str::to_owned),
    }
}

#[tokio::test]
async fn operators_are_served_through_the_column() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let expression = key_column_expression("m", "k");
    let index = |of_type: &str| format!("INDEX idx held TYPE {of_type} GRANULARITY 1,");
    for (table, index) in
        [("blooming", index("bloom_filter")), ("listed", index("set(4)")), ("projected", String::new())]
    {
        // Neither the table nor the projection is sorted by the key's values; half of the rows lack the key.
        execute(
            &local,
            format!(
                "CREATE TABLE default.{table} (At DateTime64(9), TraceId String, Filler String, Service UInt8, \
                 m Map(LowCardinality(String), String), held {KEY_COLUMN_TYPE} MATERIALIZED {expression}, \
                 {index} PROJECTION by_time (SELECT At, TraceId, held ORDER BY At)) \
                 ENGINE = MergeTree ORDER BY (Service, At) SETTINGS index_granularity = {GRANULE}"
            ),
        )
        .await;
        execute(
            &local,
            format!(
                "INSERT INTO default.{table} (At, TraceId, Filler, Service, m) SELECT toDateTime64(number, 9), \
                 toString(number), repeat('x', 300), number % 4, \
                 if(intDiv(number, 1024) % 2 = 0, map('a', 'b'), \
                 map('flag', 'true', 'k', if(number < 2048, '', concat('v', toString(intDiv(number, 1024)))))) \
                 FROM numbers({ROWS})"
            ),
        )
        .await;
    }
    let fields = vec![
        key("k", LogicalType::String, Some("held")),
        key("other", LogicalType::String, None),
        key("flag", LogicalType::Boolean, None),
    ];
    let model = AccessModel { version: 1, binding: None, fields };
    let list = |count: u32| AttributeValue::Strings((0..count).map(|at| format!("v{}", at + 7)).collect());
    let caller = Caller {
        attributes: [("few".to_owned(), list(2)), ("many".to_owned(), list(20))].into(),
        ..Caller::default()
    };
    let mut wrong = Vec::new();
    for (policy, bloom_serves, set_granules) in POLICIES {
        let predicate = check(policy, &model).unwrap().predicate(&caller).unwrap();
        for table in ["blooming", "listed"] {
            let mut statement = Statement::default();
            let condition = render(&predicate, &mut statement);
            let explain = format!("EXPLAIN indexes = 1 SELECT Filler FROM default.{table} WHERE {condition}");
            statement.push(&explain);
            let found = granules(&store, statement).await;
            let (left, total) = found.get("idx").copied().unwrap_or((64, 64));
            let as_expected =
                if table == "listed" { left == *set_granules } else { (left < total) == *bloom_serves };
            if total != 64 || !as_expected {
                wrong.push(format!("{policy} in {table}: {found:?}\n{condition}"));
            }
        }
        if policy.contains("other") || policy.contains("flag") {
            continue;
        }
        // Where the projection holds all columns that the statement needs, the map is not read at all.
        let mut statement = Statement::default();
        let condition = render(&predicate, &mut statement);
        statement.push(&format!(
            "EXPLAIN projections = 1 SELECT TraceId FROM default.projected WHERE At >= toDateTime64(8000, 9) AND {condition}"
        ));
        let lines: Vec<(String,)> = store.client.rows(statement).await.unwrap();
        if !lines.iter().any(|(line,)| line.contains("ReadFromMergeTree (by_time)")) {
            wrong.push(format!("{policy}: not from the projection: {lines:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} rows of the table of expectations are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
