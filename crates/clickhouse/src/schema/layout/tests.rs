use std::time::Duration;

use tracewarden_testkit::chaos_proxy::{ChaosProxy, Fault};
use tracewarden_testkit::local_store::LocalStore;

use super::*;
use crate::agreement::{connect, connect_at, execute};
use crate::client::QueryLimits;
use crate::sql::{Statement, quote_table};
use crate::{ClickHouse, ClickHouseError};

/// Keys that look like other syntax.
const HOSTILE_KEYS: [&str; 12] = [
    "http.status_code",
    "it's",
    "a\\'b\\",
    "\\n",
    "line\nbreak\ttab\rreturn\0zero",
    "\u{8}\u{c}\u{7}\u{1b}\u{1}",
    "ключ 🗝",
    "`quoted`",
    "{p0:String}",
    "'), NULL) --",
    "%s?",
    " ",
];

fn map(type_text: &str) -> ColumnType {
    ColumnType::parse(type_text)
}

#[test]
fn only_the_exact_definition_is_a_key_column() {
    for key in HOSTILE_KEYS {
        for name in ["Attributes", "a b", "ba`ck\\", "from"] {
            let found = parse_key_expression(&key_column_expression(name, key));
            assert_eq!(found, Some(MapKey { map: name.to_owned(), key: key.to_owned() }));
        }
    }
    let form = "if(mapContains(m, 'k'), mapValues(m)[indexOf(mapKeys(m), 'k')], NULL)";
    assert!(parse_key_expression(form).is_some());
    for other in [
        "",
        "m['k']",
        "if(mapContains(m, 'k'), m['k'], NULL)",
        "if(mapContains(m, 'k'), mapValues(m)[indexOf(mapKeys(m), 'k')], '')",
        "if(mapContains(m, 'k'), mapValues(m)[indexOf(mapKeys(m), 'l')], NULL)",
        "if(mapContains(m, 'l'), mapValues(m)[indexOf(mapKeys(m), 'k')], NULL)",
        "if(mapContains(n, 'k'), mapValues(m)[indexOf(mapKeys(m), 'k')], NULL)",
        "if(mapContains(m, 'k'), mapValues(n)[indexOf(mapKeys(m), 'k')], NULL)",
        "if(mapContains(m, 'k'), mapValues(m)[indexOf(mapKeys(n), 'k')], NULL)",
        "if(mapContains(m, 'k'), mapValues(m)[indexOf(mapKeys(m), 'k')], NULL) || ''",
        "lower(if(mapContains(m, 'k'), mapValues(m)[indexOf(mapKeys(m), 'k')], NULL))",
    ] {
        assert_eq!(parse_key_expression(other), None, "{other}");
    }
}

#[test]
fn some_keys_cannot_have_a_column() {
    assert!(can_be_key_column(&map("Map(LowCardinality(String), String)"), "k"));
    assert!(can_be_key_column(&map("Map(String, LowCardinality(Nullable(String)))"), "k"));
    for (other, key) in [
        ("Map(String, String)", ""),
        ("Map(String, String)", "\u{fffd}"),
        ("Map(String, UInt8)", "k"),
        ("Map(String, UUID)", "k"),
        ("Map(UInt8, String)", "1"),
        ("String", "k"),
        ("JSON", "k"),
    ] {
        assert!(!can_be_key_column(&map(other), key), "{other}");
    }
}

#[test]
fn distributed_tables_name_their_local_tables() {
    let distributed = |cluster: &str, database: &str, table: &str| TableEngine::Distributed {
        cluster: cluster.to_owned(),
        database: database.to_owned(),
        table: table.to_owned(),
    };
    let read = |full: &str| TableEngine::from_system_table("Distributed", full);
    assert_eq!(
        read("Distributed('prod', 'otel', 'otel_traces', cityHash64(TraceId))"),
        distributed("prod", "otel", "otel_traces")
    );
    assert_eq!(
        read("Distributed('it\\'s', '', 'a,b)', rand(), 'policy') SETTINGS fsync_after_insert = 0"),
        distributed("it's", "", "a,b)")
    );
    assert_eq!(read("Distributed(prod, otel, t)"), distributed("prod", "otel", "t"));
    // Arguments in another form are not guessed.
    assert_eq!(read("Distributed(f(x), 'otel', 't')"), TableEngine::Other("Distributed".to_owned()));
    assert_eq!(
        TableEngine::from_system_table("ReplicatedMergeTree", "ReplicatedMergeTree('/x') ORDER BY a"),
        TableEngine::MergeTree { name: "ReplicatedMergeTree".to_owned() }
    );
    assert_eq!(TableEngine::from_system_table("View", "View"), TableEngine::Other("View".to_owned()));
}

const TABLE: &str = "odd `name\\";

async fn create(local: &LocalStore) -> String {
    let table = quote_table("default", TABLE);
    execute(
        local,
        format!(
            "CREATE TABLE {table} (`at` DateTime64(9), `trace` String, `from the \\`start\\\\` \
             Map(LowCardinality(String), String), `n` Map(String, UInt8), INDEX idx_keys mapKeys(`from the \\`start\\\\`) \
             TYPE bloom_filter(0.01) GRANULARITY 2, PROJECTION by_time (SELECT `at`, `trace`, \
             `from the \\`start\\\\` ORDER BY `at`), PROJECTION counts (SELECT count() GROUP BY `trace`), \
             PROJECTION whole (SELECT *, `at` ORDER BY `trace`, `at`)) \
             ENGINE = MergeTree PARTITION BY toDate(`at`) ORDER BY (`trace`, toDateTime(`at`))"
        ),
    )
    .await;
    table
}

#[tokio::test]
async fn added_and_dropped_objects_are_detected() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let table = create(&local).await;
    let map = "from the `start\\";
    for (at, key) in HOSTILE_KEYS.iter().enumerate() {
        execute(
            &local,
            format!(
                "ALTER TABLE {table} ADD COLUMN `k.{at}` {KEY_COLUMN_TYPE} MATERIALIZED {}",
                key_column_expression(map, key)
            ),
        )
        .await;
    }
    // None of these has the standard form.
    for (name, text) in [
        ("wrong type", format!("Nullable(String) MATERIALIZED {}", key_column_expression(map, "k"))),
        ("wrong kind", format!("{KEY_COLUMN_TYPE} DEFAULT {}", key_column_expression(map, "k"))),
        ("alias", format!("{KEY_COLUMN_TYPE} ALIAS {}", key_column_expression(map, "k"))),
        ("numbers", format!("{KEY_COLUMN_TYPE} MATERIALIZED {}", key_column_expression("n", "k"))),
        ("empty", format!("{KEY_COLUMN_TYPE} MATERIALIZED {}", key_column_expression(map, ""))),
        ("other", format!("{KEY_COLUMN_TYPE} MATERIALIZED {}['k']", quote(map))),
    ] {
        execute(&local, format!("ALTER TABLE {table} ADD COLUMN {} {text}", quote(name))).await;
    }

    let layout = store.catalogue().layout("default", TABLE).await.unwrap();
    assert_eq!(layout.engine, TableEngine::MergeTree { name: "MergeTree".to_owned() });
    assert_eq!(layout.sorting_key, ["trace", "toDateTime(at)"]);
    assert_eq!(layout.partition_key, "toDate(at)");
    assert_eq!(layout.rows, Some(0));
    assert!(layout.unknown.is_empty(), "{:?}", layout.unknown);
    for (at, key) in HOSTILE_KEYS.iter().enumerate() {
        let column = layout.key_column(map, key).unwrap_or_else(|| panic!("{key}: {layout:#?}"));
        assert_eq!(column.name, format!("k.{at}"));
    }
    assert_eq!(layout.columns.iter().filter(|column| column.key.is_some()).count(), HOSTILE_KEYS.len());
    let [index] = layout.indexes.as_slice() else { panic!("{:?}", layout.indexes) };
    assert_eq!(
        (index.name.as_str(), index.index_type.as_str(), index.granularity),
        ("idx_keys", "bloom_filter(0.01)", 2)
    );
    assert_eq!(index.expression, "mapKeys(`from the \\`start\\\\`)");
    let projection = |name: &str| layout.projections.iter().find(|found| found.name == name).unwrap();
    assert!(projection("by_time").normal && !projection("counts").normal);
    assert_eq!(projection("by_time").sorting_key, ["at"]);
    assert_eq!(
        projection("by_time").columns(),
        ProjectedColumns { all: false, named: vec!["at".to_owned(), "trace".to_owned(), map.to_owned()] }
    );
    assert_eq!(projection("whole").columns(), ProjectedColumns { all: true, named: vec!["at".to_owned()] });

    // The layout is cached for a while, and not longer.
    execute(&local, format!("ALTER TABLE {table} DROP PROJECTION by_time")).await;
    execute(&local, format!("ALTER TABLE {table} DROP COLUMN `k.0`")).await;
    execute(&local, format!("ALTER TABLE {table} ADD INDEX more `trace` TYPE minmax")).await;
    let cached = store.catalogue().layout("default", TABLE).await.unwrap();
    assert!(Arc::ptr_eq(&cached, &layout));
    assert_eq!(store.catalogue().current_layout("default", TABLE).await.unwrap().projections.len(), 2);
    store.layouts.age(Duration::from_secs(30));
    let layout = store.catalogue().layout("default", TABLE).await.unwrap();
    assert!(layout.projections.iter().all(|projection| projection.name != "by_time"));
    assert!(layout.key_column(map, HOSTILE_KEYS[0]).is_none());
    assert_eq!(layout.indexes.len(), 2);

    let none = store.catalogue().layout("default", "no such table").await.unwrap();
    assert_eq!(none.engine, TableEngine::Other(String::new()));
    assert!(none.columns.is_empty());
}

#[tokio::test]
async fn the_layout_is_empty_without_a_catalogue() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    for missing in ["SELECT 1 FROM system.no_such_table", "SELECT no_such_column FROM system.projections"] {
        let rows = store.catalogue().optional_system_rows::<(u8,)>(Statement::new(missing)).await.unwrap();
        assert_eq!(rows, None, "{missing}");
    }
    let wrong = store.catalogue().optional_system_rows::<(u8,)>(Statement::new("SELECT throwIf(1)")).await;
    assert!(matches!(wrong, Err(ClickHouseError::Exception { code: Some(395), .. })), "{wrong:?}");
}

/// No caller waits for the time limits of the others.
#[tokio::test]
async fn concurrent_callers_of_a_hanging_server_fail_together() {
    let local = LocalStore::start().unwrap();
    let proxy = ChaosProxy::start(local.url.trim_start_matches("http://").parse().unwrap()).unwrap();
    let store = connect_at(&proxy.url(), &local.password);
    let store = ClickHouse { client: store.client.with_limits(QueryLimits { seconds: 1, rows: 0 }), ..store };
    proxy.set(Fault::Silence);
    let begun = std::time::Instant::now();
    let catalogue = store.catalogue();
    let results = futures::future::join_all((0..10).map(|_| catalogue.layout("default", TABLE))).await;
    assert!(results.iter().all(|layout| matches!(layout, Err(ClickHouseError::Timeout(_)))), "{results:?}");
    // The time limit of a statement, plus the second that the client waits in addition.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    proxy.set(Fault::None);
    let results = futures::future::join_all((0..10).map(|_| catalogue.layout("default", TABLE))).await;
    let first = results[0].as_ref().unwrap();
    assert!(results.iter().all(|layout| Arc::ptr_eq(layout.as_ref().unwrap(), first)));
}
