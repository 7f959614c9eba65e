//! Predicates on a real server of the oldest supported version. It parses some statements differently from the engine of the
//! other tests.

use tracewarden_model::{Condition, FieldSource, MarkedField};
use tracewarden_policy::{check, lower_condition};
use tracewarden_testkit::clickhouse::{Options, PASSWORD, Server};
use tracewarden_testkit::policies::{COLUMNS, Generator, literals};

use crate::ClickHouse;
use crate::agreement::differential::connect_at;
use crate::agreement::exact_numbers::compare_all;
use crate::agreement::exhaustive::{caller, conditions, policies, spans, stored_value};
use crate::agreement::filter_reference::matches;
use crate::sql::{Statement, render};

fn start() -> (Server, ClickHouse) {
    let server = Server::start(&Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let store = connect_at(&server.url, PASSWORD);
    (server, store)
}

#[tokio::test]
async fn numbers_compare_exactly_on_a_real_server() {
    let (server, store) = start();
    compare_all(&store, async |statement| {
        server.run(&statement).unwrap_or_else(|error| panic!("{error}\n{statement:.2000}"));
    })
    .await;
}

/// Conditions, policies and samples of JSON paths, with and without a declared type.
#[tokio::test]
async fn paths_of_json_are_read_on_a_real_server() {
    let (server, store) = start();
    let run = |statement: &str| {
        server.run(statement).unwrap_or_else(|error| panic!("{error}\n{statement:.2000}"));
    };
    let columns: Vec<(&str, &str)> =
        COLUMNS.iter().filter(|(_, kind)| kind.starts_with("JSON(")).copied().collect();
    assert_eq!(columns.len(), 2);
    let fields: Vec<MarkedField> =
        Generator::model().fields.into_iter().filter(|field| field.source == FieldSource::JsonPath).collect();
    let spans = spans(&Generator::model().fields);
    run(&format!(
        "CREATE TABLE default.documents (id UInt32, {}) ENGINE = MergeTree ORDER BY id",
        literals::definitions(&columns)
    ));
    for (id, span) in spans.iter().enumerate() {
        run(&format!("INSERT INTO default.documents VALUES ({id}, {})", literals::row(&columns, span)));
    }
    let conditions: Vec<Condition> = fields.iter().flat_map(conditions).collect();
    let (mut cells, mut held) = (0, 0);
    for part in conditions.chunks(40) {
        let mut statement = Statement::default();
        let rendered: Vec<String> = part
            .iter()
            .map(|condition| format!("toUInt8({})", render(&lower_condition(condition), &mut statement)))
            .collect();
        statement.push(&format!("SELECT [{}] FROM default.documents ORDER BY id", rendered.join(", ")));
        let rows: Vec<(Vec<u8>,)> =
            store.client.rows(statement).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(rows.len(), spans.len());
        for (span, (row,)) in spans.iter().zip(rows) {
            for (condition, found) in part.iter().zip(row) {
                let value = stored_value(&condition.field, span);
                let expected = matches(value.as_ref(), condition);
                assert_eq!(found == 1, expected, "{condition:?}\n{value:?}");
                cells += 1;
                held += usize::from(expected);
            }
        }
    }
    assert!(cells > 5_000 && held > 500, "{held} of {cells}");
    // No policy on a path raises an error.
    let model = Generator::model();
    let texts = fields.iter().filter(|field| field.policy).flat_map(policies);
    let alone: Vec<String> = texts
        .filter(|text| !["Tags", "Sampled", "SpanName"].iter().any(|other| text.contains(other)))
        .collect();
    for part in alone.chunks(40) {
        let mut statement = Statement::default();
        let rendered: Vec<String> = part
            .iter()
            .map(|text| {
                let policy = check(text, &model).unwrap_or_else(|error| panic!("{text}: {error:?}"));
                format!("toUInt8({})", render(&policy.predicate(&caller()).unwrap(), &mut statement))
            })
            .collect();
        statement.push(&format!("SELECT [{}] FROM default.documents ORDER BY id", rendered.join(", ")));
        let rows: Vec<(Vec<u8>,)> =
            store.client.rows(statement).await.unwrap_or_else(|error| panic!("{error}\n{part:#?}"));
        assert_eq!(rows.len(), spans.len());
    }
    let columns = store.catalogue().columns("default", "documents").await.unwrap();
    let sampled = store.catalogue().sample_keys("default", "documents", &columns, None).await.unwrap();
    for column in sampled {
        let with_examples = column.keys.iter().filter(|key| !key.examples.is_empty()).count();
        assert!(!column.stopped_early && with_examples > 3, "{column:?}");
    }
}
