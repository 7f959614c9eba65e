//! Values that no group can show, hostile arrays, odd durations, and limits of statistics. `randomized_tests/stats.rs` tests that the
//! numbers are right.

mod trace_index;

use tracewarden_model::{AccessModel, Binding, Caller, Display, FieldRef, Filter, Timestamp, Window};
use tracewarden_policy::{AccessScope, CompiledPolicies, RolePolicy, authorise};
use tracewarden_testkit::local_store::LocalStore;

use super::*;
use crate::agreement::{binding, connect, execute, unrestricted_scope};
use crate::{MAX_VALUE_BYTES, Result, SelectRequest, TraceOrder, physical_field};

const NOON: i64 = 1_790_000_000;

/// Creates a table of spans at noon, with additional columns.
async fn create(local: &LocalStore, more: &str) {
    drop(connect(local));
    execute(
        local,
        format!(
            "CREATE TABLE default.spans (Timestamp DateTime64(9) DEFAULT toDateTime64({NOON}, 9), TraceId String, \
             SpanId String, ParentSpanId String, {more}) ENGINE = MergeTree ORDER BY Timestamp"
        ),
    )
    .await;
}

async fn insert(local: &LocalStore, columns: &str, select: &str) {
    execute(local, format!("INSERT INTO default.spans ({columns}) SELECT {select}")).await;
}

async fn fields(store: &ClickHouse, names: &[&str], logical: LogicalType) -> Vec<MarkedField> {
    let columns = store.catalogue().columns("default", "spans").await.unwrap();
    let field = |name: &&str| {
        let field = FieldRef::column(*name);
        let physical = physical_field(&field, &columns).unwrap();
        let (source, column_type) = (physical.source, physical.column_type);
        MarkedField { field, source, logical, column_type, filterable: true, policy: true, column: None }
    };
    names.iter().map(field).collect()
}

fn window() -> Window {
    let at = |seconds: i64| Timestamp::from_nanos((NOON + seconds) * 1_000_000_000);
    Window::new(at(-60), at(60)).unwrap()
}

async fn run_stats(
    store: &ClickHouse,
    scope: &AccessScope,
    binding: &Binding,
    change: impl Fn(&mut StatsRequest<'_>),
    group: &[MarkedField],
) -> Result<Stats> {
    let filter = Filter::default();
    let mut request = StatsRequest { group, ..request(scope, binding, &filter) };
    change(&mut request);
    store.stats(request).await
}

/// A request for the numbers of all traces.
fn request<'a>(scope: &'a AccessScope, binding: &'a Binding, filter: &'a Filter) -> StatsRequest<'a> {
    StatsRequest {
        binding,
        scope,
        filter,
        window: window(),
        group: &[],
        per: StatsUnit::Span,
        order: StatsOrder::Count,
        limit: 5_000,
        max_traces: 1_000,
        buckets: None,
        facets: &[],
    }
}

/// Returns values, traces and spans of the groups.
fn listed_groups(stats: &Stats) -> Vec<(Vec<&str>, u64, u64)> {
    let groups = stats.groups.iter();
    let display = groups.map(|StatsGroup { values, numbers }| {
        (values.iter().map(String::as_str).collect(), numbers.traces, numbers.spans)
    });
    display.collect()
}

#[tokio::test]
async fn values_that_cannot_be_grouped_are_only_counted() {
    let local = LocalStore::start().unwrap();
    create(&local, "Name LowCardinality(Nullable(String)), Tags Array(String)").await;
    let longest = "x".repeat(MAX_VALUE_BYTES);
    for (trace, name, tags) in [
        ("a", format!("repeat('x', {MAX_VALUE_BYTES})"), "['t', 't', unhex('ff')]"),
        ("a", format!("concat(repeat('x', {MAX_VALUE_BYTES}), toString(number))"), "['t']"),
        ("b", "unhex('ff')".to_owned(), "['t', unhex('fe')]"),
        ("b", "'\\0 \\\\ \\' \\n'".to_owned(), "['t']"),
        ("b", "NULL".to_owned(), "['t']"),
        ("b", "''".to_owned(), "[]"),
        // The hash that replaces an odd value is itself an ordinary value.
        ("b", "hex(sipHash128(unhex('ff')))".to_owned(), "['']"),
    ] {
        insert(
            &local,
            "TraceId, SpanId, Name, Tags",
            &format!("'{trace}', toString(number), {name}, {tags} FROM numbers(2)"),
        )
        .await;
    }
    let (store, scope, binding) = (connect(&local), unrestricted_scope(), binding("default", "spans"));
    let name = fields(&store, &["Name"], LogicalType::String).await;
    let tags = fields(&store, &["Tags"], LogicalType::StringArray).await;
    let found = run_stats(&store, &scope, &binding, |_| {}, &name).await.unwrap();
    assert_eq!((found.total.traces, found.total.spans, found.distinct), (2, 14, 7));
    let hash = found.groups.iter().find(|group| group.values[0].len() == 32).unwrap().values[0].clone();
    let mut expected = [("", 1), ("\0 \\ ' \n", 1), (hash.as_str(), 1), (longest.as_str(), 1)]
        .map(|(value, traces)| (vec![value], traces, 2));
    expected.sort();
    assert_eq!(listed_groups(&found), expected);

    // Pairs with an odd value are kept apart, whichever of the two values is odd.
    let both = [name.clone(), tags.clone()].concat();
    for per in [StatsUnit::Span, StatsUnit::Trace] {
        let found = run_stats(&store, &scope, &binding, |request| request.per = per, &both).await.unwrap();
        let spans = |trace: &str, spans: u64| match (per, trace) {
            (StatsUnit::Span, _) => spans,
            (StatsUnit::Trace, "a") => 4,
            (StatsUnit::Trace, _) => 10,
        };
        let mut expected = vec![
            (vec!["\0 \\ ' \n", "t"], 1, spans("b", 2)),
            (vec![hash.as_str(), ""], 1, spans("b", 2)),
            (vec![longest.as_str(), "t"], 1, spans("a", 2)),
        ];
        expected.sort();
        let mut listed = listed_groups(&found);
        listed.sort();
        assert_eq!(listed, expected);
        // The longest with an odd tag; two longer ones; one that is not UTF-8 with `t`, and with another such.
        assert_eq!(found.distinct, 3 + 1 + 2 + 2);
    }
    let few = run_stats(&store, &scope, &binding, |request| request.limit = 1, &both).await.unwrap();
    assert_eq!((few.groups.len(), few.distinct), (1, 8));
}

#[tokio::test]
async fn groups_of_a_span_are_limited() {
    let local = LocalStore::start().unwrap();
    create(&local, "Few Array(String), Many Array(String)").await;
    let many = "arrayMap(element -> toString(element), range(20000))";
    insert(
        &local,
        "TraceId, SpanId, Few, Many",
        &format!("'a', toString(number), ['x'], {many} FROM numbers(3)"),
    )
    .await;
    insert(
        &local,
        "TraceId, SpanId, Few, Many",
        &format!("'b', toString(number), {many}, {many} FROM numbers(3)"),
    )
    .await;
    let (store, scope, binding) = (connect(&local), unrestricted_scope(), binding("default", "spans"));
    let filter = Filter::default();
    for per in [StatsUnit::Span, StatsUnit::Trace] {
        let change = |request: &mut StatsRequest<'_>| request.per = per;
        let two = fields(&store, &["Few", "Many"], LogicalType::StringArray).await;
        let found = run_stats(&store, &scope, &binding, change, &two[1..]).await.unwrap();
        assert_eq!((found.distinct, found.total.traces, found.total.spans), (1_000, 2, 6));
        assert!(found.groups.iter().all(|group| group.numbers == found.total), "{per:?}");
        let found = run_stats(&store, &scope, &binding, change, &two).await.unwrap();
        assert_eq!((found.distinct, found.total.spans), (50 + 50 * 50, 6));
        // A facet lists its first values, and counts a hundred of each span.
        let request = StatsRequest { per, facets: &two[1..], ..request(&scope, &binding, &filter) };
        let found = store.stats(request).await.unwrap();
        let [facet] = found.facets.as_slice() else { panic!("{found:?}") };
        assert_eq!((facet.distinct, facet.values.len()), (100, MAX_FACET_VALUES));
        assert!(facet.values.iter().all(|value| value.traces == 2), "{per:?}");
    }
}

#[tokio::test]
async fn only_the_newest_traces_are_counted_and_reported_as_such() {
    let local = LocalStore::start().unwrap();
    create(&local, "Name String").await;
    let at = format!("toDateTime64({NOON}, 9) - number");
    insert(
        &local,
        "Timestamp, TraceId, SpanId, Name",
        &format!("{at}, toString(number + 1), 's', toString(number) FROM numbers(10)"),
    )
    .await;
    // Spans without a trace: the marker for more traces looks like these.
    insert(&local, "TraceId, SpanId, Name", "'', 's', 'none' FROM numbers(5)").await;
    let (store, scope, binding) = (connect(&local), unrestricted_scope(), binding("default", "spans"));
    let name = fields(&store, &["Name"], LogicalType::String).await;
    for per in [StatsUnit::Span, StatsUnit::Trace] {
        for (most, traces) in [(0, 1), (1, 1), (9, 9), (10, 10), (11, 10), (u32::MAX, 10)] {
            let change = |request: &mut StatsRequest<'_>| {
                request.per = per;
                request.max_traces = most;
            };
            let found = run_stats(&store, &scope, &binding, change, &name).await.unwrap();
            assert_eq!(
                (found.total.traces, found.total.spans, found.distinct),
                (traces, traces, traces),
                "{most}"
            );
            assert_eq!(found.complete, traces == 10, "{most}");
            let newest: Vec<String> = (0..traces).map(|number| number.to_string()).collect();
            assert!(found.groups.iter().map(|group| &group.values[0]).eq(&newest), "{most}");
        }
    }
}

#[tokio::test]
async fn statistics_use_the_bound_display_columns() {
    let local = LocalStore::start().unwrap();
    create(&local, "Took Float64, Status LowCardinality(Nullable(String))").await;
    for (took, status) in [
        ("nan", "'Error'"),
        ("-5", "NULL"),
        ("inf", "'error'"),
        ("1e300", "'ERROR'"),
        ("2.5", "'STATUS_CODE_ERROR'"),
    ] {
        insert(&local, "TraceId, SpanId, Took, Status", &format!("'{took}', 's', {took}, {status}")).await;
    }
    let (store, scope) = (connect(&local), unrestricted_scope());
    let without = binding("default", "spans");
    let display = Display {
        duration: Some("Took".to_owned()),
        status: Some("Status".to_owned()),
        ..Display::default()
    };
    let with = Binding { display, ..without.clone() };
    // Repeated until ClickHouse compiles the statements.
    for per in [StatsUnit::Span, StatsUnit::Trace].repeat(5) {
        let change = |request: &mut StatsRequest<'_>| request.per = per;
        let found = run_stats(&store, &scope, &without, change, &[]).await.unwrap().total;
        assert_eq!(found, StatsNumbers { traces: 5, spans: 5, ..StatsNumbers::default() });
        let found = run_stats(&store, &scope, &with, change, &[]).await.unwrap().total;
        assert_eq!((found.errors, found.duration_invalid), (Some(3), true));
        assert_eq!((found.p50_nanos, found.p99_nanos, found.max_nanos), (Some(0), Some(2), Some(2)));
    }
}

/// The error of percentiles that ClickHouse introduces is never larger than documented, whatever the sizes.
#[tokio::test]
async fn percentiles_of_many_are_nearly_exact() {
    let local = LocalStore::start().unwrap();
    create(&local, "Took UInt64, Name LowCardinality(String)").await;
    insert(
        &local,
        "TraceId, SpanId, Took, Name",
        "toString(intDiv(number, 10) + 1), toString(number), number * number, ['even', 'odd'][1 + number % 2] FROM numbers(200000)",
    )
    .await;
    let (store, scope) = (connect(&local), unrestricted_scope());
    let display = Display { duration: Some("Took".to_owned()), ..Display::default() };
    let binding = Binding { display, ..binding("default", "spans") };
    let name = fields(&store, &["Name"], LogicalType::String).await;
    let change = |request: &mut StatsRequest<'_>| {
        request.max_traces = 100_000;
        request.order = StatsOrder::Duration;
    };
    let found = run_stats(&store, &scope, &binding, change, &name).await.unwrap();
    assert_eq!((found.total.traces, found.total.spans, found.complete), (20_000, 200_000, true));
    let numbers = found.groups.iter().map(|group| &group.numbers).chain([&found.total]);
    for StatsNumbers { p50_nanos, p95_nanos, p99_nanos, .. } in numbers {
        for (found, level) in [(p50_nanos, 0.5), (p95_nanos, 0.95), (p99_nanos, 0.99)] {
            let (found, exact) = (found.unwrap() as f64, (200_000.0 * level) * (200_000.0 * level));
            assert!((0.992 * exact..1.000_1 * exact).contains(&found), "{found} for {exact}");
        }
    }
    assert_eq!(run_stats(&store, &scope, &binding, change, &name).await.unwrap(), found);
}

#[tokio::test]
async fn users_without_access_cause_no_reads() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let nothing =
        authorise([], None, &Caller::default(), &AccessModel::default(), &CompiledPolicies::new()).unwrap();
    // A statement that reads its rows never returns.
    execute(
        &local,
        "CREATE VIEW default.spans AS SELECT toDateTime64(1790000000, 9) AS Timestamp, 'a' AS TraceId, \
         toString(number) AS SpanId, '' AS ParentSpanId, 'Error' AS Status FROM numbers(1000000000000)"
            .to_owned(),
    )
    .await;
    let without = binding("default", "spans");
    let display = Display { status: Some("Status".to_owned()), ..Display::default() };
    let with = Binding { display, ..without.clone() };
    for (binding, errors) in [(&without, None), (&with, Some(0))] {
        let found = run_stats(&store, &nothing, binding, |_| {}, &[]).await.unwrap();
        let total = StatsNumbers { errors, ..StatsNumbers::default() };
        assert_eq!(found, Stats { total, complete: true, ..Stats::default() });
    }
    execute(&local, "DROP VIEW default.spans SYNC".to_owned()).await;
    assert!(run_stats(&store, &nothing, &without, |_| {}, &[]).await.is_err());
}

#[tokio::test]
async fn fields_are_those_of_the_current_table() {
    let local = LocalStore::start().unwrap();
    create(&local, "Name String, Size UInt64").await;
    insert(&local, "TraceId, SpanId, Name", "'a', 's', 'x'").await;
    let (store, scope, binding) = (connect(&local), unrestricted_scope(), binding("default", "spans"));
    let name = fields(&store, &["Name"], LogicalType::String).await;
    let size = fields(&store, &["Size"], LogicalType::Number).await;
    for group in [size, [name.clone(), name.clone(), name.clone()].concat()] {
        let refused = run_stats(&store, &scope, &binding, |_| {}, &group).await;
        assert!(matches!(refused, Err(ClickHouseError::Internal(_))), "{refused:?}");
    }
    let one = run_stats(&store, &scope, &binding, |_| {}, &name).await.unwrap();
    assert_eq!(listed_groups(&one), [(vec!["x"], 1, 1)]);
    // A changed field is read with its new type where that makes no difference, and is an error where it does.
    execute(&local, "ALTER TABLE default.spans MODIFY COLUMN Name LowCardinality(String)".to_owned()).await;
    assert_eq!(run_stats(&store, &scope, &binding, |_| {}, &name).await.unwrap(), one);
    execute(&local, "ALTER TABLE default.spans DROP COLUMN Name, ADD COLUMN Name Array(String)".to_owned())
        .await;
    let changed = run_stats(&store, &scope, &binding, |_| {}, &name).await;
    assert!(matches!(changed, Err(ClickHouseError::FieldsChanged(_))), "{changed:?}");
}

#[test]
fn too_little_memory_for_one_pass_may_suffice_for_two() {
    let error = ClickHouseError::Memory(String::new());
    let reason = |chosen| RetryReason::from_error(&error, chosen);
    assert_eq!(reason(ChosenTraces::AllInOnePass), Some(RetryReason::Memory));
    assert_eq!((reason(ChosenTraces::All), reason(ChosenTraces::Newest)), (None, None));
}
