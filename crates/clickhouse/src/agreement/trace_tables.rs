//! Tables whose rows are not all spans, and tables with other indexes.

use std::sync::Arc;

use tracewarden_model::{
    Binding, ColumnType, ColumnValue, Condition, Display, FieldRef, FieldSource, Filter, LogicalType,
    MarkedField, ReadAs, Test, TimeBucket, TimeUnit, Timestamp, Window,
};
use tracewarden_policy::Predicate;
use tracewarden_policy::predicate::{Atom, Relation, Text};
use tracewarden_testkit::local_store::LocalStore;

use super::distributed::{CLUSTER, shards};
use super::{binding, connect, execute, unrestricted_scope};
use crate::schema::BoundTable;
use crate::{ClickHouse, ClickHouseError, SelectRequest, TraceOrder};

const HOUR: i64 = 3_600_000_000_000;
const NOW: i64 = 1_790_000_000_000_000_000;

/// Returns the ids of all traces of a window, sorted.
async fn traces(store: &ClickHouse, binding: &Binding, from: i64, to: i64) -> Vec<String> {
    let (scope, filter) = (unrestricted_scope(), Filter::default());
    let [from, to] = [from, to].map(Timestamp::from_nanos);
    let request = SelectRequest {
        binding,
        scope: &scope,
        filter: &filter,
        window: Window::new(from, to).unwrap(),
        order: TraceOrder::Newest,
        limit: 100,
        after: None,
        progress: None,
    };
    let mut ids: Vec<String> = store.select(request).await.unwrap().trace_ids().map(str::to_owned).collect();
    ids.sort();
    ids
}

async fn refusal(store: &ClickHouse, binding: &Binding) -> (String, String) {
    match store.catalogue().check_binding(binding).await {
        Err(ClickHouseError::InvalidBinding(errors)) => {
            let (member, text) = errors.into_iter().next().unwrap();
            (member.to_owned(), text)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn replaced_and_deleted_rows_are_never_spans_with_final() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    execute(
        &local,
        "CREATE TABLE default.versions (Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, \
         at UInt64, gone UInt8, INDEX trace TraceId TYPE bloom_filter(0.001) GRANULARITY 1) \
         ENGINE = ReplacingMergeTree(at, gone) ORDER BY (SpanId) SETTINGS index_granularity = 2"
            .to_owned(),
    )
    .await;
    execute(&local, "SYSTEM STOP MERGES default.versions".to_owned()).await;
    // The newest version of a span is in another trace, and another span is deleted.
    for rows in [
        "('old', 's1', 1, 0), ('kept', 's2', 1, 0), ('gone', 's3', 1, 0)",
        "('new', 's1', 2, 0), ('gone', 's3', 2, 1)",
    ] {
        execute(
            &local,
            format!(
                "INSERT INTO default.versions SELECT fromUnixTimestamp64Nano({NOW}), v.1, v.2, '', v.3, v.4 FROM \
                 (SELECT arrayJoin([{rows}]) AS v)"
            ),
        )
        .await;
    }
    let read_as = |read_as| Binding { read_as, ..binding("default", "versions") };
    let (member, text) = refusal(&store, &read_as(None)).await;
    assert_eq!(member, "read_as");
    assert!(text.contains("ReplacingMergeTree") && text.contains("`final`"), "{text}");
    let found = async |binding: &Binding| traces(&store, binding, NOW - HOUR, NOW + HOUR).await;
    let whole = read_as(Some(ReadAs::Final));
    store.catalogue().check_binding(&whole).await.unwrap();
    assert_eq!(found(&whole).await, ["kept", "new"]);
    assert_eq!(found(&read_as(Some(ReadAs::AsIs))).await, ["gone", "kept", "new", "old"]);
    for (id, exists) in [("old", false), ("gone", false), ("new", true), ("kept", true)] {
        let selected = store.find(&whole, &unrestricted_scope(), id).await.unwrap();
        assert_eq!(selected.is_some(), exists, "{id}");
    }
    execute(&local, "CREATE VIEW default.seen AS SELECT * FROM default.versions".to_owned()).await;
    let warnings = store.catalogue().check_binding(&binding("default", "seen")).await.unwrap();
    assert!(warnings.iter().any(|text| text.contains("`default.versions`")), "{warnings:?}");
    let (member, _) =
        refusal(&store, &Binding { read_as: Some(ReadAs::Final), ..binding("default", "seen") }).await;
    assert_eq!(member, "read_as");
}

/// A condition that excludes the partition or the part of the newest version must not bring back an older one.
#[tokio::test]
async fn versions_in_other_partitions_replace_rows_with_final() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let day = 24 * HOUR;
    for (table, partition, key, later) in [
        ("weeks", "toYearWeek(Timestamp)", "SpanId", 8 * day),
        ("days", "toDate(Timestamp)", "toDate(Timestamp), SpanId", 5 * HOUR),
    ] {
        execute(
            &local,
            format!(
                "CREATE TABLE default.{table} (Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, \
                 version UInt8) ENGINE = ReplacingMergeTree(version) PARTITION BY {partition} ORDER BY ({key})"
            ),
        )
        .await;
        for (id, at, version) in [("old", NOW, 1), ("new", NOW + later, 2)] {
            execute(
                &local,
                format!("INSERT INTO default.{table} VALUES (fromUnixTimestamp64Nano({at}), '{id}', 's', '', {version})"),
            )
            .await;
        }
        let binding = Binding { read_as: Some(ReadAs::Final), ..binding("default", table) };
        store.catalogue().check_binding(&binding).await.unwrap();
        let found = async |from: i64, to: i64| traces(&store, &binding, from, to).await;
        assert_eq!(
            found(NOW - HOUR / 2, NOW + HOUR / 2).await,
            [""; 0],
            "{table}: the old version is replaced"
        );
        assert_eq!(found(NOW + later - HOUR / 2, NOW + later + HOUR / 2).await, ["new"], "{table}");
    }
}

#[tokio::test]
async fn rows_of_other_tenants_are_never_spans() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    execute(
        &local,
        "CREATE TABLE default.shared (Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, \
         project UInt32) ENGINE = MergeTree ORDER BY (project, Timestamp)"
            .to_owned(),
    )
    .await;
    execute(
        &local,
        // Both projects have spans of `both`.
        format!(
            "INSERT INTO default.shared SELECT fromUnixTimestamp64Nano({NOW} + number), \
             ['both', 'seven', 'both', 'eight'][number + 1], toString(number), '', [7, 7, 8, 8][number + 1] FROM numbers(4)"
        ),
    )
    .await;
    let only = |value: &str| {
        let only = vec![ColumnValue { column: "project".to_owned(), value: value.to_owned() }];
        Binding { only, ..binding("default", "shared") }
    };
    store.catalogue().check_binding(&only("7")).await.unwrap();
    let found = async |value: &str| traces(&store, &only(value), NOW - HOUR, NOW + HOUR).await;
    assert_eq!(found("7").await, ["both", "seven"]);
    assert_eq!(found("8").await, ["both", "eight"]);
    let both = store.find(&only("7"), &unrestricted_scope(), "both").await.unwrap().unwrap();
    assert_eq!(both.span_count(), 1);
    let summaries = store.span_summaries(&only("7"), &both, 10).await.unwrap();
    assert_eq!(summaries.iter().map(|span| span.span_id.as_str()).collect::<Vec<_>>(), ["0"]);
    assert!(store.find(&only("7"), &unrestricted_scope(), "eight").await.unwrap().is_none());
    for value in ["-7", "seven", "4294967296", "7 OR 1", ""] {
        assert_eq!(refusal(&store, &only(value)).await.0, "only", "{value}");
    }
}

#[tokio::test]
async fn time_buckets_are_compared_before_they_are_used() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    execute(
        &local,
        "CREATE TABLE default.bucketed (bucket UInt64, Timestamp DateTime64(9), TraceId String, SpanId String, \
         ParentSpanId String) ENGINE = MergeTree ORDER BY (bucket, Timestamp) SETTINGS index_granularity = 1"
            .to_owned(),
    )
    .await;
    execute(
        &local,
        format!(
            "INSERT INTO default.bucketed SELECT intDiv(toUnixTimestamp(at), 1800) * 1800, at, toString(number), '', '' FROM \
             (SELECT number, fromUnixTimestamp64Nano({NOW} - number * 600000000000) AS at FROM numbers(100))"
        ),
    )
    .await;
    let bucket = |seconds| {
        let time_bucket = Some(TimeBucket { column: "bucket".to_owned(), seconds });
        Binding { time_bucket, ..binding("default", "bucketed") }
    };
    let Err(ClickHouseError::InvalidBinding(errors)) =
        store.catalogue().check_time_bucket(&bucket(900)).await
    else {
        panic!("accepted")
    };
    let [("time_bucket", text)] = errors.as_slice() else { panic!("{errors:?}") };
    assert!(text.contains("do not begin in their bucket"), "{text}");
    store.catalogue().check_binding(&bucket(1_800)).await.unwrap();
    store.catalogue().check_time_bucket(&bucket(1_800)).await.unwrap();
    for (from, to) in [(0, 10), (3, 4), (17, 50), (99, 200)] {
        let [low, high] = [to, from].map(|at| NOW - at * 600_000_000_000 + 1);
        let plain = traces(&store, &binding("default", "bucketed"), low, high).await;
        assert_eq!(traces(&store, &bucket(1_800), low, high).await, plain, "{from} to {to}");
        assert!(!plain.is_empty());
    }
}

#[tokio::test]
async fn only_filters_use_text_indexes_on_the_entries_of_a_map() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let entries = "ALIAS arrayMap(kv -> concat(kv.1, '=', kv.2), CAST(A, 'Array(Tuple(String, String))'))";
    execute(
        &local,
        format!(
            "CREATE TABLE default.indexed (Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, \
             A Map(LowCardinality(String), String), Items Array(String) {entries}, \
             INDEX items Items TYPE text(tokenizer = 'array')) ENGINE = MergeTree ORDER BY Timestamp"
        ),
    )
    .await;
    execute(&local, "CREATE TABLE default.plain AS default.indexed".to_owned()).await;
    execute(&local, "ALTER TABLE default.plain DROP INDEX items".to_owned()).await;
    let field = Arc::new(MarkedField {
        field: FieldRef::key("A", "k"),
        source: FieldSource::MapKey,
        logical: LogicalType::String,
        column_type: ColumnType::STRING,
        filterable: true,
        policy: true,
        column: None,
    });
    let is_v = Predicate::atom(Atom::CompareText(
        Relation::Eq,
        Text::Field(Arc::clone(&field)),
        Text::Literal("v".to_owned()),
    ));
    let condition = Condition { field: field.as_ref().clone(), test: Test::StringEq("v".to_owned()) };
    for (table, is_used) in [("indexed", true), ("plain", false)] {
        let columns = store.catalogue().columns("default", table).await.unwrap();
        let table = BoundTable::new(&binding("default", table), columns).unwrap();
        let mut statement = table.statement();
        let filter = table.any_group([condition.clone()].chunks(1), &mut statement).unwrap();
        let policy = table.condition(&is_v, &mut statement).unwrap();
        assert_eq!(filter.contains("hasAny(`Items`"), is_used, "{filter}");
        assert!(!policy.contains("Items"), "{policy}");
        assert_eq!(statement.parameters.contains(&"k=v".to_owned()), is_used);
    }
}

#[tokio::test]
async fn a_span_that_has_not_ended_has_no_duration() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    execute(
        &local,
        format!(
            "CREATE TABLE default.ends ENGINE = MergeTree ORDER BY TraceId AS SELECT toUInt64({NOW}) AS Timestamp, \
             't' AS TraceId, toString(number) AS SpanId, '' AS ParentSpanId, \
             CAST([toInt64({NOW} + 5), NULL, 0, {NOW} - 5], 'Array(Nullable(UInt64))')[number + 1] AS Ended, \
             ['bad', 'fine'][number % 2 + 1] AS Status FROM numbers(4)"
        ),
    )
    .await;
    let timestamp_unit = Some(TimeUnit::Nanoseconds);
    let display = Display {
        end: Some("Ended".to_owned()),
        status: Some("Status".to_owned()),
        error_values: vec!["bad".to_owned()],
        ..Display::default()
    };
    let binding = Binding { display, timestamp_unit, ..binding("default", "ends") };
    let trace = store.find(&binding, &unrestricted_scope(), "t").await.unwrap().unwrap();
    let spans = store.span_summaries(&binding, &trace, 10).await.unwrap();
    let found: Vec<_> =
        spans.iter().map(|span| (span.duration_nanos, span.duration_invalid, span.error)).collect();
    let expected =
        [(Some(5), false, true), (Some(0), false, false), (Some(0), false, true), (Some(0), true, false)];
    assert_eq!(found, expected);
}

/// Behind a distributed table may be one that replaces rows.
#[tokio::test]
async fn a_distributed_table_over_unseen_tables_needs_a_choice() {
    let local = shards();
    let store = connect(&local);
    execute(
        &local,
        format!(
            "CREATE TABLE default.over (Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String) \
             ENGINE = Distributed({CLUSTER}, default, unseen)"
        ),
    )
    .await;
    let layout = store.catalogue().current_layout("default", "over").await.unwrap();
    assert!(layout.local.is_none());
    let (member, text) = refusal(&store, &binding("default", "over")).await;
    assert_eq!(member, "read_as");
    assert!(text.contains("cannot be seen"), "{text}");
    let chosen = Binding { read_as: Some(ReadAs::Final), ..binding("default", "over") };
    let warnings = store.catalogue().check_binding(&chosen).await.unwrap();
    assert!(warnings.iter().any(|text| text.contains("on another shard")), "{warnings:?}");
}
