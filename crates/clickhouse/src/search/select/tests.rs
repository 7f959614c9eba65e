//! Searches with cached tables, before the current ones have been read, on the real engine.

use std::sync::Mutex;
use tracewarden_model::Filter;

use tracewarden_model::{
    AccessModel, Caller, ColumnType, Condition, Display, FieldRef, FieldSource, LogicalType, MarkedField,
    Test, Timestamp,
};
use tracewarden_policy::{AccessScope, CompiledPolicies, RolePolicy, authorise};
use tracewarden_testkit::local_store::LocalStore;

use super::*;
use crate::agreement::{connect, execute};
use crate::schema::key_column_expression;
use crate::{
    Comparison, ImpactRequest, Result, SelectRequest, StatsOrder, StatsRequest, StatsUnit, TraceOrder,
};

const BEGIN: i64 = 1_790_000_000;

fn model() -> AccessModel {
    let key = MarkedField {
        field: FieldRef::key("m", "k"),
        source: FieldSource::MapKey,
        logical: LogicalType::String,
        column_type: ColumnType::STRING,
        filterable: true,
        policy: true,
        column: Some("held".to_owned()),
    };
    AccessModel { version: 1, binding: None, fields: vec![key] }
}

fn binding() -> Binding {
    Binding {
        database: "default".to_owned(),
        table: "spans".to_owned(),
        trace_id: "TraceId".to_owned(),
        span_id: "SpanId".to_owned(),
        timestamp: "At".to_owned(),
        parent_span_id: "ParentSpanId".to_owned(),
        trace_index: Some("ends".to_owned()),
        display: Display::default(),
        ..Binding::default()
    }
}

/// Returns the traces that the policy `m["k"] == "x"` grants access to, and the numbers of traces in the progress reports.
async fn select_ids(store: &ClickHouse) -> (Result<Vec<String>>, Vec<u32>) {
    select_ids_with(store, &Filter::default()).await
}

/// The scope of the policy.
fn scope() -> AccessScope {
    let policy = RolePolicy { role: "r", title: "t", expression: "m[\"k\"] == \"x\"" };
    authorise([policy], None, &Caller::default(), &model(), &CompiledPolicies::new()).unwrap()
}

fn window() -> Window {
    let at = |seconds: i64| Timestamp::from_nanos((BEGIN + seconds) * 1_000_000_000);
    Window::new(at(0), at(100)).unwrap()
}

/// Like [`select_ids`], with a filter.
async fn select_ids_with(store: &ClickHouse, filter: &Filter) -> (Result<Vec<String>>, Vec<u32>) {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&reports);
    let request = SelectRequest {
        binding: &binding(),
        scope: &scope(),
        filter,
        window: window(),
        order: TraceOrder::Newest,
        limit: 10,
        after: None,
        progress: Some(Arc::new(move |progress| sink.lock().unwrap().push(progress.traces))),
    };
    let found = store.select(request).await;
    let reports = reports.lock().unwrap().clone();
    (found.map(|found| found.trace_ids().map(str::to_owned).collect()), reports)
}

/// Returns the number of traces that statistics count.
async fn count_traces(store: &ClickHouse) -> u64 {
    let request = StatsRequest {
        binding: &binding(),
        scope: &scope(),
        filter: &Filter::default(),
        window: window(),
        group: &[],
        per: StatsUnit::Trace,
        order: StatsOrder::Count,
        limit: 1,
        buckets: None,
        facets: &[],
        max_traces: 10,
    };
    store.stats(request).await.unwrap().total.traces
}

/// Returns the number of traces that only the policy grants access to.
async fn gained_traces(store: &ClickHouse) -> u64 {
    let (scope, comparison) = (scope(), Comparison { before: Vec::new(), after: vec![0] });
    let request = ImpactRequest {
        binding: &binding(),
        binding_after: None,
        predicates: &[scope.predicate().clone()],
        comparisons: &[comparison],
        collateral: None,
        window: window(),
        readable: &scope,
        only_readable: false,
        referenced_fields: scope.referenced_fields(),
        samples: 10,
        timeout: Duration::from_secs(60),
    };
    store.impact(request).await.unwrap().compared[0].gained
}

#[tokio::test]
async fn reads_do_not_rely_on_the_cached_schema() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let others = [connect(&local), connect(&local), connect(&local)];
    let run = |statement: &str| execute(&local, statement.to_owned());
    let form = key_column_expression("m", "k");
    run(&format!(
        "CREATE TABLE default.spans (At DateTime64(9), TraceId String, SpanId String, ParentSpanId String, \
         m Map(LowCardinality(String), String), held LowCardinality(Nullable(String)) MATERIALIZED {form}) \
         ENGINE = MergeTree ORDER BY At"
    ))
    .await;
    run("CREATE TABLE default.ends (TraceId String, Start DateTime, End DateTime) ENGINE = MergeTree ORDER BY TraceId")
        .await;
    let insert = |id: &str, value: &str| {
        format!(
            "INSERT INTO default.spans (At, TraceId, SpanId, ParentSpanId, m) \
             VALUES (toDateTime64({}, 9), '{id}', 's', '', map('k', '{value}'))",
            BEGIN + 10
        )
    };
    run(&insert("a", "x")).await;
    for store in [&store].into_iter().chain(&others) {
        for _ in 0..2 {
            assert_eq!(select_ids(store).await.0, Ok(vec!["a".to_owned()]));
        }
    }

    // The key column now has the policy's value in every new span. A search that relied on it would find them.
    run("ALTER TABLE default.spans MODIFY COLUMN held LowCardinality(Nullable(String)) MATERIALIZED 'x'")
        .await;
    run(&insert("b", "y")).await;
    let (found, reports) = select_ids(&store).await;
    assert_eq!(found, Ok(vec!["a".to_owned()]));
    assert!(reports.iter().all(|count| *count <= 1), "{reports:?}");
    let [finding, counting, comparing] = &others;
    assert!(finding.find(&binding(), &scope(), "b").await.unwrap().is_none());
    assert_eq!(count_traces(counting).await, 1);
    assert_eq!(gained_traces(comparing).await, 1);
    // The current tables are cached now, until they change as well.
    assert_eq!(select_ids(&store).await.0, Ok(vec!["a".to_owned()]));

    // A failure of the search with cached tables does not fail the request.
    run("DROP TABLE default.ends").await;
    run("ALTER TABLE default.spans DROP COLUMN held").await;
    assert_eq!(select_ids(&store).await.0, Ok(vec!["a".to_owned()]));
    run("DROP TABLE default.spans").await;
    let gone = select_ids(&store).await.0.unwrap_err();
    assert!(gone.to_string().contains("no longer exists"), "{gone}");
}

/// The index may have the start of a trace in nanoseconds, and the column only in milliseconds, which seems earlier.
#[tokio::test]
async fn a_span_at_the_beginning_counts_where_the_index_is_finer_than_the_column() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let run = |statement: String| execute(&local, statement);
    run("CREATE TABLE default.spans (At DateTime64(3), TraceId String, SpanId String, ParentSpanId String, \
         m Map(LowCardinality(String), String)) ENGINE = MergeTree ORDER BY At"
        .to_owned())
    .await;
    run("CREATE TABLE default.ends (TraceId String, Start DateTime64(9), End DateTime64(9)) ENGINE = MergeTree ORDER BY TraceId".to_owned())
        .await;
    let at = |seconds: f64| format!("fromUnixTimestamp64Nano({BEGIN}000000000 + {})", (seconds * 1e9) as i64);
    run(format!(
        "INSERT INTO default.spans VALUES ({}, 't', 'root', '', map('k', 'x')), ({}, 't', 'inner', 'root', map('k', 'y'))",
        at(10.0004),
        at(10.5)
    ))
    .await;
    run(format!("INSERT INTO default.ends VALUES ('t', {}, {})", at(10.0004), at(10.5))).await;
    let field = model().fields.remove(0);
    let condition = Condition { field, test: Test::StringEq("y".to_owned()) };
    let filter = Filter::of(vec![condition]);
    assert_eq!(select_ids_with(&store, &filter).await.0, Ok(vec!["t".to_owned()]));
}
