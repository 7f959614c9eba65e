//! Discovery and suggestions for a distributed table.

use tracewarden_testkit::local_store::LocalStore;

use super::statements::{ask, binding, copy_to_one, fill_spans, tenant};
use super::{CLUSTER, shards};
use crate::agreement::differential::{connect, execute};
use crate::schema::{TableEngine, key_column_expression};
use crate::{ClickHouse, DdlSuggestion};

/// Runs suggested statements without `ON CLUSTER`. The engine supports clusters, but has no queue that distributes DDL
/// statements; here both shards are this server.
async fn run(local: &LocalStore, suggestion: &DdlSuggestion) {
    for statement in suggestion.statements.iter().chain(&suggestion.follow_up) {
        let local_statement = statement.replace(&format!(" ON CLUSTER '{CLUSTER}'"), "");
        assert!(local_statement != *statement || local_statement.starts_with("INSERT"), "{statement}");
        let wait_setting =
            if local_statement.contains(" MATERIALIZE ") { " SETTINGS mutations_sync = 2" } else { "" };
        execute(local, format!("{local_statement}{wait_setting}")).await;
    }
}

async fn proposed_index(store: &ClickHouse, table: &str) -> Option<Option<String>> {
    let tables = store.catalogue().tables().await.unwrap();
    let found = tables.into_iter().find(|found| found.name == table).unwrap();
    found.proposal.map(|proposal| proposal.trace_index)
}

#[tokio::test]
async fn a_distributed_table_is_found_bound_and_improved() {
    let local = shards();
    let store = connect(&local);
    let rows = fill_spans(&local).await;
    copy_to_one(&local, &rows).await;

    // A local table behind a distributed one is not proposed, and binding it gives a warning.
    assert_eq!(proposed_index(&store, "spans").await, Some(None));
    assert_eq!(proposed_index(&store, "spans_rows").await, None);
    let warnings = store.catalogue().check_binding(&binding("spans", false)).await.unwrap();
    assert!(warnings.iter().all(|warning| warning.contains("without a trace index")), "{warnings:?}");
    let warnings = store.catalogue().check_binding(&binding("spans_rows", false)).await.unwrap();
    assert!(warnings.iter().any(|warning| warning.contains("traces are incomplete")), "{warnings:?}");

    let layout = store.catalogue().current_layout("default", "spans").await.unwrap();
    let TableEngine::Distributed { cluster, database, table } = &layout.engine else { panic!("{layout:?}") };
    assert_eq!([cluster, database, table], [CLUSTER, "default", "spans_rows"]);
    assert_eq!(layout.underlying().sorting_key, ["ServiceName", "Timestamp"]);

    // All suggestions can be run, are then reported as in place, and change no answer.
    let fields = [tenant()];
    let unindexed = binding("spans", false);
    let before = ask(&store, "one", |_| {}).await;
    let advice = store.ddl(&unindexed, &fields, true).await.unwrap();
    assert!(advice.suggestions.len() >= 4, "{advice:?}");
    for suggestion in &advice.suggestions {
        run(&local, suggestion).await;
    }
    let indexed = binding("spans", true);
    let index = advice.suggestions.iter().find_map(|suggestion| suggestion.bind_trace_index.clone());
    assert_eq!(index, indexed.trace_index);
    let left = store.ddl(&indexed, &fields, true).await.unwrap();
    assert_eq!(left.suggestions, []);
    assert!(left.in_place.len() >= advice.suggestions.len(), "{left:?}");
    let layout = store.catalogue().current_layout("default", "spans").await.unwrap();
    assert!(layout.key_column("SpanAttributes", "tenant").is_some());
    // A new client, since the previous one may have cached the layout.
    let store = connect(&local);
    assert_eq!(ask(&store, "spans", |_| {}).await, before);

    // The new index is distributed. The index of the server behind it is not proposed as an index of the whole table.
    assert_eq!(proposed_index(&store, "spans").await, Some(index));
    assert_eq!(store.catalogue().check_binding(&indexed).await.unwrap(), Vec::<String>::new());
    let of_one_server =
        tracewarden_model::Binding { trace_index: Some("spans_rows_trace_id_ts".to_owned()), ..indexed };
    let warnings = store.catalogue().check_binding(&of_one_server).await.unwrap();
    assert!(warnings.iter().any(|warning| warning.contains("searches miss spans")), "{warnings:?}");
}

/// As exporters that write on every server leave the tables: each server has its own trace index, without a distributed table
/// over them.
#[tokio::test]
async fn local_indexes_are_not_an_index_of_the_distributed_table() {
    let local = shards();
    let store = connect(&local);
    fill_spans(&local).await;
    execute(
        &local,
        "CREATE TABLE default.spans_rows_trace_id_ts (TraceId String, Start DateTime, End DateTime) \
         ENGINE = MergeTree ORDER BY TraceId"
            .to_owned(),
    )
    .await;
    assert_eq!(proposed_index(&store, "spans").await, Some(None));
    let advice = store.ddl(&binding("spans", false), &[], false).await.unwrap();
    let index = advice.suggestions.iter().find(|suggestion| suggestion.bind_trace_index.is_some()).unwrap();
    assert_eq!(index.bind_trace_index.as_deref(), Some("spans_trace_id_ts"));
    run(&local, index).await;
    assert_eq!(store.catalogue().check_binding(&binding("spans", true)).await.unwrap(), Vec::<String>::new());
}

/// A column that only the distributed table declares is not read: the servers' tables decide the answer.
#[tokio::test]
async fn a_key_column_is_read_only_if_the_servers_have_it() {
    let local = shards();
    let rows = fill_spans(&local).await;
    copy_to_one(&local, &rows).await;
    let expression = key_column_expression("SpanAttributes", "status");
    let column =
        |expression: &str| format!("status LowCardinality(Nullable(String)) MATERIALIZED {expression}");
    for (table, expression) in [(rows.as_str(), "'200'"), ("default.spans", expression.as_str())] {
        execute(&local, format!("ALTER TABLE {table} ADD COLUMN {}", column(expression))).await;
    }
    let key_columns = async |store: &ClickHouse| {
        let columns = store.catalogue().columns("default", "spans").await.unwrap();
        columns.into_iter().filter_map(|column| column.key).map(|key| key.key).collect::<Vec<_>>()
    };
    let expected = ask(&connect(&local), "one", |_| {}).await;
    let store = connect(&local);
    assert_eq!(key_columns(&store).await, Vec::<String>::new());
    assert_eq!(ask(&store, "spans", |_| {}).await, expected);
    execute(&local, format!("ALTER TABLE {rows} MODIFY COLUMN {}", column(&expression))).await;
    execute(&local, format!("ALTER TABLE {rows} MATERIALIZE COLUMN status SETTINGS mutations_sync = 2"))
        .await;
    let store = connect(&local);
    assert_eq!(key_columns(&store).await, ["status"]);
    assert_eq!(ask(&store, "spans", |_| {}).await, expected);
    execute(&local, format!("ALTER TABLE {rows} DROP COLUMN status")).await;
    let store = connect(&local);
    assert_eq!(key_columns(&store).await, Vec::<String>::new());
    assert_eq!(ask(&store, "spans", |_| {}).await, expected);
}
