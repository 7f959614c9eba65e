//! Which columns are read, and the results of comparing them, on the real engine.

use tracewarden_model::{
    AccessModel, Binding, Caller, ColumnType, Condition, Display, FieldRef, LogicalType, Test,
};
use tracewarden_testkit::local_store::LocalStore;

use super::*;
use crate::agreement::{connect, execute};
use crate::schema::table::BoundTable;
use crate::{ClickHouse, KeyColumnComparison};

const STANDARD_EXPRESSION: &str =
    "if(mapContains(m, 'it\\'s'), mapValues(m)[indexOf(mapKeys(m), 'it\\'s')], NULL)";

/// The key `it's` of the map `m`, with this column adopted.
fn field(column: Option<&str>) -> MarkedField {
    MarkedField {
        field: FieldRef::key("m", "it's"),
        source: FieldSource::MapKey,
        logical: LogicalType::String,
        column_type: ColumnType::STRING,
        filterable: true,
        policy: true,
        column: column.map(str::to_owned),
    }
}

fn binding(table: &str) -> Binding {
    Binding {
        database: "default".to_owned(),
        table: table.to_owned(),
        trace_id: "TraceId".to_owned(),
        span_id: "SpanId".to_owned(),
        timestamp: "At".to_owned(),
        parent_span_id: "ParentSpanId".to_owned(),
        trace_index: None,
        display: Display::default(),
        ..Binding::default()
    }
}

async fn create(local: &LocalStore, table: &str, columns: &str, engine: &str) {
    let structural = "TraceId String, SpanId String, ParentSpanId String, At DateTime64(9)";
    let map = "m Map(LowCardinality(String), String), n Map(LowCardinality(String), String)";
    execute(
        local,
        format!("CREATE TABLE default.{table} ({structural}, {map}, {columns}) ENGINE = {engine}"),
    )
    .await;
}

/// Returns the conditions on the column or the map: of a policy with this column adopted, and of a filter.
async fn rendered_conditions(store: &ClickHouse, table: &str, adopted: Option<&str>) -> (String, String) {
    let columns = store.catalogue().columns("default", table).await.unwrap();
    let bound = BoundTable::new(&binding(table), columns).unwrap();
    let model = AccessModel { version: 1, binding: None, fields: vec![field(adopted)] };
    let checked = tracewarden_policy::check("m[\"it's\"] == 'x'", &model).unwrap();
    let mut statement = bound.statement();
    let access = bound.condition(&checked.predicate(&Caller::default()).unwrap(), &mut statement).unwrap();
    let condition = Condition { field: field(adopted), test: Test::StringEq("x".to_owned()) };
    (access, bound.any_group([condition].chunks(1), &mut statement).unwrap())
}

#[tokio::test]
async fn policies_read_adopted_columns_and_filters_any_key_column() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let form = |name: &str| {
        format!(
            "{} LowCardinality(Nullable(String)) MATERIALIZED {STANDARD_EXPRESSION}",
            crate::sql::quote(name)
        )
    };
    let others = "plain LowCardinality(Nullable(String)), \
        defaulted LowCardinality(Nullable(String)) DEFAULT if(mapContains(m, 'it\\'s'), mapValues(m)[indexOf(mapKeys(m), 'it\\'s')], NULL), \
        bare String MATERIALIZED m['it\\'s'], \
        wide Nullable(String) MATERIALIZED if(mapContains(m, 'it\\'s'), mapValues(m)[indexOf(mapKeys(m), 'it\\'s')], NULL), \
        crossed LowCardinality(Nullable(String)) MATERIALIZED if(mapContains(n, 'it\\'s'), mapValues(m)[indexOf(mapKeys(m), 'it\\'s')], NULL), \
        other LowCardinality(Nullable(String)) MATERIALIZED if(mapContains(m, 'its'), mapValues(m)[indexOf(mapKeys(m), 'its')], NULL)";
    let engine = "MergeTree ORDER BY At";
    create(&local, "two", &format!("{others}, {}, {}", form("a `c`"), form("b")), engine).await;
    create(&local, "none", others, engine).await;
    create(&local, "elsewhere", &form("b"), "Memory").await;
    execute(&local, "CREATE VIEW default.seen AS SELECT *, b FROM default.two".to_owned()).await;

    let reads = |sql: &str, column: &str| {
        assert!(sql.contains(&crate::sql::quote(column)) && !sql.contains("`m`"), "{sql}");
    };
    let reads_map = |sql: &str| assert!(sql.contains("`m`") && !sql.contains("assumeNotNull"), "{sql}");
    // Without an adopted column, only the filter reads one: the first.
    let (access, filter) = rendered_conditions(&store, "two", None).await;
    reads_map(&access);
    reads(&filter, "a `c`");
    // The adopted one takes precedence over another of the standard form.
    let (access, filter) = rendered_conditions(&store, "two", Some("b")).await;
    reads(&access, "b");
    reads(&filter, "b");
    // The adopted column is gone, or has another definition now: policies read the map, filters another column of the
    // standard form.
    for gone in ["gone", "plain", "defaulted", "bare", "wide", "crossed", "other", "m", "n", "TraceId"] {
        let (access, filter) = rendered_conditions(&store, "two", Some(gone)).await;
        reads_map(&access);
        reads(&filter, "a `c`");
        let (access, filter) = rendered_conditions(&store, "none", Some(gone)).await;
        reads_map(&access);
        reads_map(&filter);
    }
    // Where the rows are on other servers, a declaration suffices for filters, but not for policies.
    let (access, filter) = rendered_conditions(&store, "elsewhere", Some("b")).await;
    reads_map(&access);
    reads(&filter, "b");
    let (access, filter) = rendered_conditions(&store, "seen", Some("b")).await;
    reads_map(&access);
    reads_map(&filter);

    // The values of the map are no longer strings.
    execute(&local, "CREATE TABLE default.numbers (TraceId String, SpanId String, ParentSpanId String, At DateTime64(9), \
        m Map(String, UInt64), b LowCardinality(Nullable(String)) MATERIALIZED if(mapContains(m, 'it\\'s'), \
        mapValues(m)[indexOf(mapKeys(m), 'it\\'s')], NULL)) ENGINE = MergeTree ORDER BY At".to_owned()).await;
    let columns = store.catalogue().columns("default", "numbers").await.unwrap();
    assert!(columns.iter().all(|column| column.key.is_none()), "{columns:?}");

    let refused = async |table: &str, column: &str| {
        let columns = store.catalogue().columns("default", table).await.unwrap();
        adoption_error(&field(Some(column)), &columns).unwrap_or_default()
    };
    assert_eq!(refused("two", "b").await, "");
    assert_eq!(refused("two", "bb").await, "there is no column `bb`; did you mean `b`?");
    assert!(refused("two", "wide").await.contains("MATERIALIZED if(mapContains(`m`, 'it\\'s'), "));
    // A column of another key of the same map.
    assert!(refused("two", "other").await.contains("not the one that a column of"));
    assert!(
        refused("elsewhere", "b").await.starts_with("policies read key columns only in MergeTree tables")
    );
    assert!(refused("numbers", "b").await.contains("only a key of a map from strings to strings"));
    let path = MarkedField { source: FieldSource::JsonPath, ..field(Some("b")) };
    assert!(adoption_error(&path, &columns).unwrap().contains("not a key of a map"));
    assert_eq!(adoption_error(&field(None), &columns), None);
}

async fn compared(store: &ClickHouse, table: &str) -> KeyColumnComparison {
    let found = store
        .catalogue()
        .compare_key_columns(&binding(table), &[field(None), field(Some("c"))])
        .await
        .unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

#[tokio::test]
async fn comparisons_read_every_row_and_every_copy() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let rows = "SELECT toString(number), toString(number), '', toDateTime64(number, 9), \
        multiIf(number % 4 = 0, map('k', 'v'), number % 4 = 1, map('it\\'s', ''), number % 4 = 2, \
        CAST((['it\\'s', 'it\\'s'], ['first', 'second']), 'Map(LowCardinality(String), String)'), \
        map('it\\'s', '\\xff'))";
    let write = async |table: &str, count: u32| {
        let into = format!("INSERT INTO default.{table} (TraceId, SpanId, ParentSpanId, At, m)");
        execute(&local, format!("{into} {rows} FROM numbers({count})")).await;
    };
    let alter = async |table: &str, what: &str| {
        execute(&local, format!("ALTER TABLE default.{table} {what} SETTINGS mutations_sync = 2")).await;
    };
    let equal = |rows| KeyColumnComparison {
        rows,
        differing: 0,
        stale_projections: Vec::new(),
        unknown_projections: Vec::new(),
    };

    // A column that was created in the standard form agrees, also in parts from before it was created.
    create(&local, "fresh", "filler String DEFAULT 'x'", "MergeTree ORDER BY At").await;
    assert_eq!(store.catalogue().columns("default", "fresh").await.unwrap().len(), 7);
    write("fresh", 100).await;
    alter(
        "fresh",
        &format!("ADD COLUMN c LowCardinality(Nullable(String)) MATERIALIZED {STANDARD_EXPRESSION}"),
    )
    .await;
    write("fresh", 100).await;
    for projection in [
        "ADD PROJECTION narrow (SELECT At, TraceId, c ORDER BY At)",
        "ADD PROJECTION wide (SELECT *, c ORDER BY c)",
        "ADD PROJECTION without (SELECT At, TraceId ORDER BY TraceId)",
    ] {
        alter("fresh", projection).await;
    }
    write("fresh", 100).await;
    assert_eq!(compared(&store, "fresh").await, equal(300));

    // A column that had another expression keeps the old values in old parts.
    let projection = "PROJECTION narrow (SELECT At, TraceId, c ORDER BY At)";
    let old = "c LowCardinality(Nullable(String)) MATERIALIZED if(TraceId = '7', 'old', NULL)";
    create(&local, "altered", &format!("{old}, {projection}"), "MergeTree ORDER BY At").await;
    write("altered", 100).await;
    alter(
        "altered",
        &format!("MODIFY COLUMN c LowCardinality(Nullable(String)) MATERIALIZED {STANDARD_EXPRESSION}"),
    )
    .await;
    write("altered", 60).await;
    let found = compared(&store, "altered").await;
    assert_eq!((found.rows, found.differing), (160, 75));
    assert_eq!(found.stale_projections, [("narrow".to_owned(), 100)]);
    // The column is fixed. Its copy is not, and statements are answered from that.
    alter("altered", "MATERIALIZE COLUMN c").await;
    let found = compared(&store, "altered").await;
    assert_eq!((found.differing, found.is_equal()), (0, false));
    assert_eq!(found.stale_projections, [("narrow".to_owned(), 100)]);
    alter("altered", "CLEAR PROJECTION narrow").await;
    alter("altered", "MATERIALIZE PROJECTION narrow").await;
    assert_eq!(compared(&store, "altered").await, equal(160));

    // A client wrote another value into one row; and a projection that groups by the column cannot be compared by rows.
    execute(
        &local,
        "INSERT INTO default.fresh (TraceId, SpanId, ParentSpanId, At, m, c) SETTINGS \
        insert_allow_materialized_columns = 1 VALUES ('a', 'b', '', 1, map('it\\'s', 'x'), 'y')"
            .to_owned(),
    )
    .await;
    alter("fresh", "ADD PROJECTION counts (SELECT c, count() GROUP BY c)").await;
    let found = compared(&store, "fresh").await;
    assert_eq!((found.rows, found.differing), (301, 1));
    let names: Vec<&str> = found.stale_projections.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["narrow", "wide"]);
    assert_eq!(found.unknown_projections[0].0, "counts");
}
