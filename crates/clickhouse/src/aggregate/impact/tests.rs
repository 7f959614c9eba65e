//! Samples of many traces, insufficient time, and callers without access. `randomized_tests/impact.rs` tests that the counts are right.

mod bindings;
mod many;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tracewarden_model::{
    AccessModel, Binding, Caller, ColumnType, FieldRef, FieldSource, LogicalType, MarkedField, Timestamp,
    Window,
};
use tracewarden_policy::predicate::{Atom, Relation, Text};
use tracewarden_policy::{AccessScope, CompiledPolicies, RolePolicy, authorise};
use tracewarden_testkit::local_store::LocalStore;

use super::*;
use crate::agreement::{binding, connect, execute, unrestricted_scope, wait_until_running};

const NOON: i64 = 1_790_000_000;
/// Within the day before noon, each with four spans at intervals of a second.
const TRACES: u64 = 40_000;
const FEW: u64 = 400;

fn window() -> Window {
    let at = |seconds: i64| Timestamp::from_nanos((NOON + seconds) * 1_000_000_000);
    Window::new(at(-86_400), at(0)).unwrap()
}

fn field(name: &str) -> MarkedField {
    MarkedField {
        field: FieldRef::column(name),
        source: FieldSource::Column,
        logical: LogicalType::String,
        column_type: ColumnType::parse("LowCardinality(String)"),
        filterable: true,
        policy: true,
        column: None,
    }
}

fn scope(expression: &str) -> AccessScope {
    let model = AccessModel { version: 1, binding: None, fields: vec![field("Service"), field("Team")] };
    let policy = RolePolicy { role: "r", title: "t", expression };
    authorise([policy], None, &Caller::default(), &model, &CompiledPolicies::new()).unwrap()
}

/// A tenth of the traces are of team 0, by their first span; each goes through four services.
async fn fill(local: &LocalStore, traces: u64) -> ClickHouse {
    let store = connect(local);
    execute(
        local,
        format!(
            "CREATE TABLE default.spans ENGINE = MergeTree ORDER BY Timestamp AS \
             SELECT toDateTime64({NOON}, 9) - INTERVAL intDiv(trace * 86390000, {traces}) + 5000 - 1000 * span MILLISECOND AS Timestamp, \
             leftPad(lower(hex(trace + 1)), 32, '0') AS TraceId, toString(span) AS SpanId, '' AS ParentSpanId, \
             toLowCardinality(['web', 'cart', 'db', 'mail'][1 + span]) AS Service, \
             toLowCardinality(if(span = 0, toString(trace % 10), '')) AS Team \
             FROM (SELECT intDiv(number, 4) AS trace, number % 4 AS span FROM numbers(4 * {traces}))"
        ),
    )
    .await;
    store
}

/// Samples from the start, with enough time.
fn sampling() -> SamplingPlan {
    SamplingPlan { full_count: Duration::ZERO, ..SamplingPlan::within(Duration::from_secs(60)) }
}

struct TestRequest<'a> {
    predicates: &'a [Predicate],
    comparisons: &'a [Comparison],
    readable: &'a AccessScope,
    only_readable: bool,
    referenced_fields: &'a [Arc<MarkedField>],
}

impl<'a> TestRequest<'a> {
    /// For all traces, without fields of policies.
    fn unrestricted(
        predicates: &'a [Predicate],
        comparisons: &'a [Comparison],
        readable: &'a AccessScope,
    ) -> Self {
        Self { predicates, comparisons, readable, only_readable: false, referenced_fields: &[] }
    }

    async fn impact(&self, store: &ClickHouse, table: &str, sampling_plan: SamplingPlan) -> Result<Impact> {
        let Self { predicates, comparisons, readable, only_readable, referenced_fields } = *self;
        let request = ImpactRequest {
            binding: &binding("default", table),
            binding_after: None,
            predicates,
            comparisons,
            collateral: None,
            window: window(),
            readable,
            only_readable,
            referenced_fields,
            samples: 50,
            timeout: sampling_plan.all,
        };
        store.impact_with_plan(request, sampling_plan).await
    }

    /// Returns the collateral access of each predicate.
    async fn collateral(
        &self,
        store: &ClickHouse,
        table: &str,
        sampling_plan: SamplingPlan,
    ) -> Result<Impact> {
        let predicate_sets: Vec<Vec<usize>> = (0..self.predicates.len()).map(|number| vec![number]).collect();
        let request = ImpactRequest {
            binding: &binding("default", table),
            binding_after: None,
            predicates: self.predicates,
            comparisons: &[],
            collateral: Some(CollateralQuery {
                predicate_sets: &predicate_sets,
                by: &CollateralGrouping::Column("Service".to_owned()),
                limit: 10,
            }),
            window: window(),
            readable: self.readable,
            only_readable: self.only_readable,
            referenced_fields: self.referenced_fields,
            samples: 0,
            timeout: sampling_plan.all,
        };
        store.impact_with_plan(request, sampling_plan).await
    }
}

fn comparison(before: &[usize], after: &[usize]) -> Comparison {
    Comparison { before: before.to_vec(), after: after.to_vec() }
}

#[tokio::test]
async fn samples_estimate_the_whole() {
    let local = LocalStore::start().unwrap();
    let store = fill(&local, TRACES).await;
    let predicates = ["Team == '0' && Service == 'web'", "Team in ['0', '1', '2', '3']", "Team == '3'"]
        .map(|expression| scope(expression).predicate().clone());
    let comparisons = [comparison(&[0], &[1]), comparison(&[1], &[2, 0])];
    // Only ids of team 1 may be returned.
    let readable = scope("Team == '1'");
    let test_request = TestRequest {
        predicates: &predicates,
        comparisons: &comparisons,
        readable: &readable,
        only_readable: false,
        referenced_fields: &[],
    };
    let full_count = SamplingPlan::within(Duration::from_secs(600));
    let exact = test_request.impact(&store, "spans", full_count).await.unwrap();
    assert_eq!((exact.traces, exact.fraction), (TRACES, 1.0));
    let tenth = TRACES / 10;
    let counts = |difference: &Difference| (difference.gained, difference.lost, difference.unchanged);
    let all: Vec<_> = exact.compared.iter().map(counts).collect();
    assert_eq!(all, [(3 * tenth, 0, tenth), (0, 2 * tenth, 2 * tenth)]);
    assert_eq!((exact.compared[0].gained_ids.len(), exact.compared[0].lost_ids.len()), (50, 0));
    assert!(exact.cost.rows >= 4 * TRACES && exact.cost.elapsed > Duration::ZERO, "{:?}", exact.cost);

    let sample = test_request.impact(&store, "spans", sampling()).await.unwrap();
    assert!(sample.fraction >= 1.0 / 64.0 && sample.fraction <= 0.26, "{}", sample.fraction);
    let about = |counted: u64, exact: u64| {
        let estimate = counted as f64 / sample.fraction;
        assert!((estimate - exact as f64).abs() <= exact as f64 * 0.15, "{estimate} for {exact}: {sample:?}");
    };
    about(sample.traces, TRACES);
    for (sampled, (gained, lost, unchanged)) in sample.compared.iter().zip(all) {
        about(sampled.gained, gained);
        about(sampled.lost, lost);
        about(sampled.unchanged, unchanged);
    }
    // Ids are those of existing traces, and only of readable ones.
    let team = |id: &String| (u64::from_str_radix(id, 16).unwrap() - 1) % 10;
    let ids = &sample.compared[0].gained_ids;
    assert!(!ids.is_empty() && ids.iter().all(|id| team(id) == 1), "{ids:?}");
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "the newest first: {ids:?}");
    // A repeated request gives the same result at the same share: from this share on, no larger sample is worth another
    // statement, however fast this one was.
    let once = SamplingPlan { first_share: Some(0.2), ..sampling() };
    let first = test_request.impact(&store, "spans", once).await.unwrap();
    let again = test_request.impact(&store, "spans", once).await.unwrap();
    assert!(first.fraction < 0.26 && first.compared[0].gained > 0, "{first:?}");
    assert_eq!(
        (again.fraction, again.traces, again.compared),
        (first.fraction, first.traces, first.compared)
    );

    let shared = test_request.collateral(&store, "spans", full_count).await.unwrap();
    let value = |value: &str, traces, matching_traces| SharedValue {
        value: value.to_owned(),
        traces,
        matching_traces,
    };
    // No readable trace is accessible, so no value is returned.
    let first = &shared.collateral_values[0];
    assert_eq!((first.traces, first.values.as_slice()), (tenth, &[][..]));
    assert_eq!((first.distinct, first.hidden_values, first.only_shared), (4, 4, 3));
    let test_request = TestRequest { readable: &unrestricted_scope(), ..test_request };
    let shared = test_request.collateral(&store, "spans", full_count).await.unwrap();
    assert_eq!((shared.fraction, shared.collateral_values.len()), (1.0, 3));
    // Each predicate separately, although one statement counts them all and they grant access to some of the same traces.
    for (shared, granted) in shared.collateral_values.iter().zip([tenth, 4 * tenth, tenth]) {
        let services = [("cart", 0), ("db", 0), ("mail", 0), ("web", granted)];
        assert_eq!(shared.values, services.map(|(name, own)| value(name, granted, own)));
        assert_eq!((shared.traces, shared.hidden_values, shared.only_shared), (granted, 0, 3));
    }
    let sampled = test_request.collateral(&store, "spans", sampling()).await.unwrap();
    let first = &sampled.collateral_values[0];
    assert!(sampled.fraction < 0.26 && first.traces < tenth / 2);
    let (counted, own) = (first.traces, first.traces);
    let services = [("cart", 0), ("db", 0), ("mail", 0), ("web", own)];
    assert_eq!(first.values, services.map(|(name, own)| value(name, counted, own)));
}

#[tokio::test]
async fn slow_counts_are_stopped_without_a_result() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    // Every part of the window has more rows than can be read.
    execute(
        &local,
        format!(
            "CREATE VIEW default.endless AS SELECT toDateTime64({NOON} - number % 86400, 9) AS Timestamp, \
             toString(number % 9) AS TraceId, toString(number) AS SpanId, '' AS ParentSpanId FROM numbers(1000000000000)"
        ),
    )
    .await;
    let (predicates, comparisons) = ([Predicate::True], [comparison(&[], &[0])]);
    let readable = unrestricted_scope();
    let test_request = TestRequest::unrestricted(&predicates, &comparisons, &readable);
    let begun = Instant::now();
    let late = test_request.impact(&store, "endless", SamplingPlan::within(Duration::from_secs(2))).await;
    assert!(matches!(late, Err(ClickHouseError::Timeout(_))), "{late:?}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    wait_until_running(&store, 0).await;
    let binding = binding("default", "endless");
    let timeout = Duration::from_secs(1);
    let late = store.search_cost(&binding, &predicates, &[], window(), 10, timeout).await;
    assert!(matches!(late, Err(ClickHouseError::Timeout(_))), "{late:?}");
    wait_until_running(&store, 0).await;

    // A caller without access causes no cost.
    let test_request = TestRequest { readable: &scope("false"), only_readable: true, ..test_request };
    let found = test_request.impact(&store, "endless", sampling()).await.unwrap();
    assert_eq!((found.compared, found.traces), (vec![Difference::default()], 0));
}

/// Refuses every count, and counts the refusals.
#[derive(Default)]
struct FailingCounter(AtomicU32);

impl TraceCounter for FailingCounter {
    fn predicates(&self) -> usize {
        1
    }

    async fn granules(&self, _: &Search<'_>) -> f64 {
        0.0
    }

    async fn count(&self, _: &Search<'_>, _: &TraceScan<'_>) -> Result<Counts> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err(ClickHouseError::Memory("never enough".to_owned()))
    }
}

#[tokio::test]
async fn immediate_failures_are_not_retried_forever() {
    let local = LocalStore::start().unwrap();
    let store = fill(&local, FEW).await;
    let (binding, readable) = (binding("default", "spans"), unrestricted_scope());
    let tables = store.bound_tables(&binding).await.unwrap();
    let table = BoundTable::new(&binding, tables.columns.to_vec()).unwrap();
    let required_predicates = RequiredPredicates::new(&readable, &NO_FILTER, &table).unwrap();
    let mut search = store.search_for(required_predicates, window(), 0, &table, tables.index);
    let failing_counter = FailingCounter::default();
    let begun = Instant::now();
    let refused = sampling().take(&mut search, &failing_counter).await;
    assert!(matches!(refused, Err(ClickHouseError::Timeout(_))), "{refused:?}");
    assert_eq!(failing_counter.0.load(Ordering::Relaxed), 8);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn complete_samples_are_reported_as_samples() {
    let local = LocalStore::start().unwrap();
    let store = fill(&local, TRACES).await;
    let at = |nanos: i64| Timestamp::from_nanos((NOON - 40_000) * 1_000_000_000 + nanos);
    let short = Window::new(at(0), at(16)).unwrap();
    let binding = binding("default", "spans");
    let predicates = [Predicate::True];
    let request = ImpactRequest {
        binding: &binding,
        binding_after: None,
        predicates: &predicates,
        comparisons: &[comparison(&[], &[0])],
        collateral: Some(CollateralQuery {
            predicate_sets: &[vec![0]],
            by: &CollateralGrouping::Column("Service".to_owned()),
            limit: 1,
        }),
        window: short,
        readable: &unrestricted_scope(),
        only_readable: false,
        referenced_fields: &[],
        samples: 1,
        timeout: Duration::from_secs(60),
    };
    let all = SamplingPlan { first_share: Some(1.0), ..sampling() };
    let found = store.impact_with_plan(request, all).await.unwrap();
    assert!(found.fraction < 1.0 && found.fraction > 0.99, "{}", found.fraction);
}

#[tokio::test]
async fn callers_without_access_get_only_counts() {
    let local = LocalStore::start().unwrap();
    let store = fill(&local, TRACES).await;
    let predicates = [scope("Team == '0'").predicate().clone()];
    let comparisons = [comparison(&[], &[0])];
    let nothing = scope("false");
    let test_request = TestRequest {
        predicates: &predicates,
        comparisons: &comparisons,
        readable: &nothing,
        only_readable: false,
        referenced_fields: &[],
    };
    for sampling_plan in [SamplingPlan::within(Duration::from_secs(60)), sampling()] {
        let found = test_request.impact(&store, "spans", sampling_plan).await.unwrap();
        assert!(found.traces > 0 && found.compared[0].gained > 0);
        assert_eq!(found.compared[0].gained_ids, [""; 0]);
        let only_readable_request = TestRequest { only_readable: true, ..test_request };
        let found = only_readable_request.impact(&store, "spans", sampling_plan).await.unwrap();
        assert_eq!((found.traces, found.compared), (0, vec![Difference::default()]));
        let found = only_readable_request.collateral(&store, "spans", sampling_plan).await.unwrap();
        assert_eq!(found.collateral_values, [CollateralValues::default()]);
    }

    // The same error for every user when the table, or a field of a policy, has changed.
    let referenced_fields = [Arc::new(MarkedField { logical: LogicalType::Number, ..field("Service") })];
    let changed = TestRequest { only_readable: true, referenced_fields: &referenced_fields, ..test_request };
    let refused = changed.impact(&store, "spans", sampling()).await;
    assert!(matches!(refused, Err(ClickHouseError::FieldsChanged(_))), "{refused:?}");
    let refused = changed.collateral(&store, "spans", sampling()).await;
    assert!(matches!(refused, Err(ClickHouseError::FieldsChanged(_))), "{refused:?}");
    let binding = binding("default", "spans");
    let refused = store.matching_span_counts(&binding, "1", &predicates, &referenced_fields).await;
    assert!(matches!(refused, Err(ClickHouseError::FieldsChanged(_))), "{refused:?}");
    let found = store.find(&binding, &unrestricted_scope(), &format!("{:032x}", 1)).await.unwrap().unwrap();
    let refused = store.matching_spans(&binding, &found, &predicates, &referenced_fields).await;
    assert!(matches!(refused, Err(ClickHouseError::FieldsChanged(_))), "{refused:?}");
    let timeout = Duration::from_secs(60);
    let refused = store.search_cost(&binding, &predicates, &referenced_fields, window(), 10, timeout).await;
    assert!(matches!(refused, Err(ClickHouseError::FieldsChanged(_))), "{refused:?}");
    assert!(test_request.impact(&store, "gone", sampling()).await.is_err());
    let only_readable_request = TestRequest { only_readable: true, ..test_request };
    assert!(only_readable_request.impact(&store, "gone", sampling()).await.is_err());
}

/// Fills the index as the exporter does, with the complete bounds of each trace.
async fn fill_index(local: &LocalStore) {
    for statement in [
        "CREATE TABLE default.bounds (TraceId String, Start DateTime, End DateTime) ENGINE = MergeTree ORDER BY TraceId",
        "INSERT INTO default.bounds SELECT TraceId, min(Timestamp), max(Timestamp) FROM default.spans GROUP BY TraceId",
    ] {
        execute(local, statement.to_owned()).await;
    }
}

#[tokio::test]
async fn the_index_is_joined_to_traces_only_if_equivalent() {
    let local = LocalStore::start().unwrap();
    let store = fill(&local, FEW).await;
    fill_index(&local).await;
    let binding = Binding { trace_index: Some("bounds".to_owned()), ..binding("default", "spans") };
    let readable = unrestricted_scope();
    let predicates =
        [scope("Team == '0'").predicate().clone(), scope("Service == 'web'").predicate().clone()];
    let comparisons = [comparison(&[1], &[0])];
    let collateral = CollateralQuery {
        predicate_sets: &[vec![0]],
        by: &CollateralGrouping::Column("Service".to_owned()),
        limit: 10,
    };
    let request = ImpactRequest {
        binding: &binding,
        binding_after: None,
        predicates: &predicates,
        comparisons: &comparisons,
        collateral: Some(collateral),
        window: window(),
        readable: &readable,
        only_readable: false,
        referenced_fields: &[],
        samples: 50,
        timeout: Duration::from_secs(60),
    };
    let id = |trace: u64| format!("{:032x}", trace + 1);
    // Returns the number of long traces, and whether any has spans beyond its entry; accessible traces before and after, and
    // the values in accessible traces.
    let ask = async || {
        let tables = store.bound_tables(&binding).await.unwrap();
        let table = BoundTable::new(&binding, tables.columns.to_vec()).unwrap();
        let required_predicates = RequiredPredicates::new(&readable, &NO_FILTER, &table).unwrap();
        let search = store.search_for(required_predicates, window(), 0, &table, tables.index);
        let distinct: Vec<&Comparison> = comparisons.iter().collect();
        let query = ImpactQuery {
            request: &request,
            after: None,
            collateral: request.collateral,
            distinct: &distinct,
        };
        let first = match TraceScan::by_trace(&search).await.unwrap() {
            Some(scan) => {
                let counts = query.count(&search, &scan).await.unwrap();
                let TraceScan::ByTrace { long, .. } = scan else { panic!("not by trace") };
                Some((long.len(), counts))
            }
            None => None,
        };
        let answer = store.impact(request).await.unwrap();
        let all = |difference: &Difference, shared: &CollateralValues| {
            (difference.lost + difference.unchanged, difference.unchanged, shared.clone())
        };
        let lost: Vec<String> = answer.compared[0].lost_ids.clone();
        let first_scan = first.map(|(long, counts)| {
            (long, counts.beyond.len(), all(&counts.compared[0], &counts.collateral_values[0]))
        });
        (first_scan, all(&answer.compared[0], &answer.collateral_values[0]), lost)
    };
    let (first, answer, _) = ask().await;
    let (all, open) = (FEW, FEW / 10);
    assert_eq!((answer.0, answer.1, answer.2.traces, answer.2.only_shared), (all, open, open, 3));
    assert_eq!(first, Some((0, 0, answer)), "by the traces' bounds alone");

    // A trace whose entry begins three days earlier, where it has a span that grants access.
    let early = format!("toDateTime64({NOON}, 9) - INTERVAL 3 DAY");
    for statement in [
        format!(
            "INSERT INTO default.bounds VALUES ('{}', toDateTime({NOON}) - INTERVAL 3 DAY, toDateTime({NOON}))",
            id(1)
        ),
        format!(
            "INSERT INTO default.spans SELECT {early}, '{}', 'early', '', 'mill', '0' UNION ALL \
             SELECT {early}, '{}', 'early', '', 'mill', '0'",
            id(1),
            // Its entry does not reach there, and without an entry that range is not read either.
            id(2),
        ),
    ] {
        execute(&local, statement).await;
    }
    let (first, answer, lost) = ask().await;
    assert_eq!((answer.0, answer.1, answer.2.traces, answer.2.only_shared), (all, open + 1, open + 1, 3));
    assert_eq!((answer.2.distinct, lost.contains(&id(1)), lost.contains(&id(2))), (5, false, true));
    assert_eq!(first, Some((1, 0, answer)), "that one by its spans");

    // A trace whose entry does not cover its first span, the one of the team.
    execute(
        &local,
        format!(
            "ALTER TABLE default.bounds UPDATE Start = End WHERE TraceId = '{}' SETTINGS mutations_sync = 2",
            id(20)
        ),
    )
    .await;
    let (first, answer, _) = ask().await;
    assert_eq!((answer.0, answer.1, answer.2.traces), (all - 1, open, open));
    let (far, beyond, _) = first.unwrap();
    assert_eq!((far, beyond), (1, 1), "not by the traces' bounds");

    // An entry near the window and far from the trace's spans: none of them counts.
    let put_entries_at = async |seconds: i64| {
        let statement = format!(
            "ALTER TABLE default.bounds UPDATE Start = toDateTime({seconds}), End = toDateTime({seconds} + 8) \
             WHERE TraceId IN ('{}', '{}') SETTINGS mutations_sync = 2",
            id(20),
            id(30)
        );
        execute(&local, statement).await;
    };
    put_entries_at(NOON + 600).await;
    let (first, answer, _) = ask().await;
    assert_eq!((answer.0, answer.1, answer.2.traces), (all - 2, open - 1, open - 1));
    assert_eq!(first.unwrap().1, 2);

    // Without any entry near the window, all its spans near the window count.
    put_entries_at(1).await;
    let (first, answer, _) = ask().await;
    assert_eq!((answer.0, answer.1, answer.2.traces), (all, open + 1, open + 1));
    assert_eq!(first, Some((1, 0, answer)));
    execute(
        &local,
        "ALTER TABLE default.bounds DELETE WHERE Start = toDateTime(1) SETTINGS mutations_sync = 2"
            .to_owned(),
    )
    .await;
    let (first, answer, _) = ask().await;
    assert_eq!((answer.0, answer.1, answer.2.traces), (all, open + 1, open + 1));
    assert_eq!(first, Some((1, 0, answer)));
}
