//! Changes of the binding: the counts are the differences between searches with each of the bindings.

use std::collections::BTreeSet;

use tracewarden_model::{ColumnValue, Filter, ReadAs, TimeBucket};

use super::*;
use crate::{SelectRequest, TraceOrder};

const TRACES: u64 = 300;
/// Policies: those of a user who sees all, of the teams' members, and of a user who sees nothing.
const POLICIES: [&str; 4] = ["true", "Team == \"1\"", "Team == \"2\"", "false"];

/// Creates a table in which rows are replaced, deleted and of two projects, with an index that ends some traces early.
async fn fill(local: &LocalStore) -> ClickHouse {
    let store = connect(local);
    for statement in [
        "CREATE TABLE default.rows (Bucket DateTime, Timestamp DateTime64(9), TraceId String, SpanId String, \
         ParentSpanId String, Service LowCardinality(String), Team LowCardinality(String), Project UInt8, \
         Version UInt8, Gone UInt8) ENGINE = ReplacingMergeTree(Version, Gone) ORDER BY (Bucket, SpanId)"
            .to_owned(),
        "SYSTEM STOP MERGES default.rows".to_owned(),
        format!(
            "CREATE TABLE default.bounds ENGINE = MergeTree ORDER BY TraceId AS \
             SELECT leftPad(toString(number), 32, '0') AS TraceId, \
             toDateTime({NOON} - 80000 + number * 200) AS Start, Start + if(number % 7 = 0, 0, 1) AS End FROM numbers({TRACES})"
        ),
        // The second version of a span can belong to another team, to another trace, or delete it.
        format!(
            "INSERT INTO default.rows SELECT toStartOfHour(Timestamp), fromUnixTimestamp64Nano(({NOON} - 80000 + trace * 200 + span) * \
             1000000000) AS Timestamp, leftPad(toString(trace), 32, '0'), concat(toString(trace), '.', toString(span)), '', 'web', \
             toString(trace % 3), trace % 2, 1, 0 FROM (SELECT intDiv(number, 2) AS trace, number % 2 AS span FROM numbers(2 * {TRACES}))"
        ),
        "INSERT INTO default.rows SELECT Bucket, Timestamp, leftPad(toString(toUInt64(TraceId) + if(toUInt64(TraceId) % 5 = 1, 1, 0)), 32, '0'), \
         SpanId, '', 'web', if(toUInt64(TraceId) % 5 = 2, '1', Team), Project, 2, toUInt64(TraceId) % 5 = 3 FROM default.rows \
         WHERE toUInt64(TraceId) % 5 BETWEEN 1 AND 3"
            .to_owned(),
    ] {
        execute(local, statement).await;
    }
    store
}

fn bindings() -> Vec<Binding> {
    let only = |project: u8| vec![ColumnValue { column: "Project".to_owned(), value: project.to_string() }];
    let with = |read_as, only| Binding { read_as: Some(read_as), only, ..binding("default", "rows") };
    let bucket = Some(TimeBucket { column: "Bucket".to_owned(), seconds: 3_600 });
    let (last, all) = (with(ReadAs::Final, Vec::new()), with(ReadAs::AsIs, Vec::new()));
    vec![
        last.clone(),
        all,
        with(ReadAs::Final, only(0)),
        with(ReadAs::AsIs, only(1)),
        Binding { time_bucket: bucket, ..last.clone() },
        Binding { trace_index: Some("bounds".to_owned()), ..last },
    ]
}

async fn select(store: &ClickHouse, binding: &Binding, expression: &str) -> BTreeSet<String> {
    let (scope, filter) = (scope(expression), Filter::default());
    let request = SelectRequest {
        binding,
        scope: &scope,
        filter: &filter,
        window: window(),
        order: TraceOrder::Newest,
        limit: 1_000,
        after: None,
        progress: None,
    };
    store.select(request).await.unwrap().trace_ids().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_changed_binding_gains_and_loses_what_searches_find() {
    let local = LocalStore::start().unwrap();
    let store = fill(&local).await;
    // More predicates than a word has bits; the last ones are the policies.
    let others: Vec<String> = (0..70).map(|number| format!("Team == \"other {number}\"")).collect();
    let policies = others.iter().map(String::as_str).chain(POLICIES);
    let predicates: Vec<Predicate> = policies.map(|policy| scope(policy).predicate().clone()).collect();
    // With the same policy, and with another one: roles can change together with the binding.
    let pairs = [(0, 0), (1, 1), (2, 2), (1, 2), (3, 3)];
    let mut comparisons: Vec<Comparison> = pairs
        .map(|(before, after)| Comparison { before: vec![70 + before], after: vec![70 + after] })
        .to_vec();
    comparisons.push(Comparison { before: (0..70).collect(), after: (0..70).collect() });
    let mut found = Vec::new();
    for binding in bindings() {
        store.catalogue().check_binding(&binding).await.unwrap();
        let mut by_policy = Vec::new();
        for policy in POLICIES {
            by_policy.push(select(&store, &binding, policy).await);
        }
        found.push((binding, by_policy));
    }
    let mut differences = BTreeSet::new();
    for (i, (before, found_before)) in found.iter().enumerate() {
        for (j, (after, found_after)) in found.iter().enumerate() {
            let what = || format!("{before:?} to {after:?}");
            // The caller reads the traces of a team, with the present binding.
            let readable = scope(POLICIES[1]);
            // Each pair of bindings in one of the ways to count, each way with every binding on both sides.
            let (plan, only_readable) = match (i + j) % 3 {
                0 => (SamplingPlan::within(Duration::from_secs(60)), false),
                1 => (SamplingPlan::within(Duration::from_secs(60)), true),
                _ => (SamplingPlan { first_share: Some(1.0), ..sampling() }, false),
            };
            let request = ImpactRequest {
                binding: before,
                binding_after: Some(after),
                predicates: &predicates,
                comparisons: &comparisons,
                collateral: None,
                window: window(),
                readable: &readable,
                only_readable,
                referenced_fields: &[],
                samples: 1_000,
                timeout: plan.all,
            };
            let impact = store.impact_with_plan(request, plan).await.unwrap();
            for (pair, difference) in pairs.iter().zip(&impact.compared) {
                let may_read = |id: &&String| found_before[1].contains(*id);
                let counted = |id: &&String| !only_readable || may_read(id);
                let of = |found: &[BTreeSet<String>], policy: usize| -> BTreeSet<String> {
                    found[policy].iter().filter(counted).cloned().collect()
                };
                let [old, new] = [of(found_before, pair.0), of(found_after, pair.1)];
                let numbers = [&new - &old, &old - &new, &old & &new];
                let [gained, lost, unchanged] = numbers.each_ref().map(|ids| ids.len() as u64);
                assert_eq!(
                    (difference.gained, difference.lost, difference.unchanged),
                    (gained, lost, unchanged),
                    "{pair:?} {plan:?} {only_readable} {}",
                    what()
                );
                for (ids, listed) in
                    [(&numbers[0], &difference.gained_ids), (&numbers[1], &difference.lost_ids)]
                {
                    let readable: BTreeSet<&String> = ids.iter().filter(may_read).collect();
                    assert_eq!(listed.iter().collect::<BTreeSet<_>>(), readable, "{}", what());
                }
                differences.insert((gained > 0, lost > 0, unchanged > 0));
            }
        }
    }
    assert!(differences.len() >= 6, "too few kinds of changes: {differences:?}");
}

/// A sample consists of the same traces on both sides.
#[tokio::test]
async fn samples_of_both_bindings_are_of_the_same_traces() {
    let local = LocalStore::start().unwrap();
    let store = fill(&local).await;
    let all = scope("true");
    let predicates = [all.predicate().clone()];
    let comparisons = [Comparison { before: vec![0], after: vec![0] }];
    // The trace index of the last one does not change which traces have a span in the window.
    for binding in [&bindings()[0], &bindings()[5]] {
        let plan = SamplingPlan { first_share: Some(0.25), ..sampling() };
        let request = ImpactRequest {
            binding: &bindings()[0],
            binding_after: Some(binding),
            predicates: &predicates,
            comparisons: &comparisons,
            collateral: None,
            window: window(),
            readable: &all,
            only_readable: false,
            referenced_fields: &[],
            samples: 1_000,
            timeout: plan.all,
        };
        let Impact { compared, fraction, .. } = store.impact_with_plan(request, plan).await.unwrap();
        assert_eq!((compared[0].gained, compared[0].lost, fraction), (0, 0, 0.25));
        assert!((20..TRACES / 2).contains(&compared[0].unchanged), "{compared:?}");
    }
}
