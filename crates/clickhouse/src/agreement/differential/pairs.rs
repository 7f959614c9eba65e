//! Random policies on random spans: compares ClickHouse with the reference evaluation.

use std::sync::Arc;

use tracewarden_policy::Span;
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::Generator;
use tracewarden_testkit::progress::Progress;
use tracewarden_testkit::repetitions::Repetitions;

use super::coverage::Coverage;
use super::lowered_policy::{LoweredPolicy, Verdict, evaluate_both};
use super::seed;
use super::store::{connect, load};

/// Number of spans for each policy.
const SPANS: usize = 30;
/// Number of policies of one statement.
const BATCH: usize = 24;
/// Number of pairs after which new spans are generated.
const PAIRS_OF_SPANS: usize = 20_000;
/// Maximum number of disagreements that are shown.
const SHOWN: usize = 5;
/// Number of pairs from which on every operation must have been seen on every kind of field.
const COMPLETE: usize = 100_000;
/// Number of pairs of a policy and a span.
const PAIRS: Repetitions = Repetitions { test: 12_000, verify: 100_000 };

/// Returns the next accepted policies, and counts the refused ones.
fn next_batch(generator: &mut Generator, refused: &mut usize) -> Arc<Vec<LoweredPolicy>> {
    let mut batch = Vec::with_capacity(BATCH);
    let mut tried = 0;
    while batch.len() < BATCH {
        tried += 1;
        assert!(tried < 20 * BATCH, "most policies are refused");
        let (policy, caller) = (generator.policy(), generator.caller());
        let standalone = policy.operations.first().filter(|_| policy.standalone).cloned();
        match LoweredPolicy::new(policy, caller) {
            Some(lowered) => batch.push(lowered),
            None => {
                *refused += 1;
                standalone.iter().for_each(|operation| generator.schedule_again(operation));
            }
        }
    }
    Arc::new(batch)
}

#[tokio::test]
async fn clickhouse_and_reference_agree() {
    let (seed, wanted) = (seed(), PAIRS.get("TRACEWARDEN_TEST_PAIRS"));
    let mut generator = Generator::new(seed);
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let mut coverage = Coverage::default();
    let (mut policies, mut with_key_columns, mut refused, mut disagreements) = (0, 0, 0, 0);
    let mut shown = Vec::new();
    let mut spans = Arc::new(Vec::new());
    let (progress, mut renewed) = (Progress::of(wanted, "pairs"), 0);
    println!("seed {seed}");
    // Rare operations may need more pairs.
    while coverage.pairs < wanted
        || (wanted >= COMPLETE && coverage.pairs < wanted + wanted / 2 && !coverage.missing().is_empty())
    {
        if spans.is_empty() || coverage.pairs - renewed >= PAIRS_OF_SPANS {
            renewed = coverage.pairs;
            spans = Arc::new((0..SPANS).map(|_| generator.span()).collect::<Vec<Span>>());
            generator.learn_values(&spans);
            load(&local, &spans).await;
        }
        let mut batch = next_batch(&mut generator, &mut refused);
        // Every second batch reads the values of keys from key columns.
        if policies / BATCH % 2 == 1 {
            let mut read =
                |lowered: &LoweredPolicy| lowered.with_key_columns().inspect(|_| with_key_columns += 1);
            batch = Arc::new(
                batch.iter().map(|lowered| read(lowered).unwrap_or_else(|| lowered.clone())).collect(),
            );
        }
        let (by_store, by_reference) = evaluate_both(&store, &batch, &spans).await;
        for ((lowered, by_store), by_reference) in batch.iter().zip(&by_store).zip(&by_reference) {
            policies += 1;
            coverage.add(lowered, by_reference);
            let verdicts = by_store.iter().zip(by_reference);
            let differing: Vec<_> = spans.iter().zip(verdicts).filter(|(_, (a, b))| a != b).collect();
            disagreements += differing.len();
            if let Some((span, (store, reference))) = differing.first() {
                // The shortest ones are the easiest to investigate.
                shown.push((
                    lowered.policy.text.len(),
                    lowered.describe_disagreement(span, **store, **reference),
                ));
                shown.sort();
                shown.truncate(SHOWN);
            }
            if lowered.policy.standalone
                && let Some(operation) = lowered.policy.operations.first()
                && coverage.lacks(operation)
            {
                generator.schedule_again(operation);
            }
        }
        progress.at(coverage.pairs);
    }
    coverage.print();
    let missing = coverage.missing();
    println!("{} operations were not seen enough", missing.len());
    let share = |verdict| coverage.share(verdict) * 100.0;
    println!(
        "{} pairs of {policies} policies ({with_key_columns} through columns, {refused} refused), seed {seed}: \
         {:.1} % true, {:.1} % false, {:.1} % errors, {disagreements} disagreements",
        coverage.pairs,
        share(Verdict::True),
        share(Verdict::False),
        share(Verdict::Error),
    );
    let shown: Vec<String> = shown.into_iter().map(|(_, text)| text).collect();
    assert!(disagreements == 0, "{disagreements} disagreements, the shortest:\n{}", shown.join("\n\n"));
    assert!(share(Verdict::True) >= 100.0 / 3.0, "too few are true");
    assert!(share(Verdict::Error) >= 100.0 / 6.0, "too few are errors");
    if wanted >= COMPLETE {
        assert!(with_key_columns * 8 >= policies, "columns of keys are hardly read");
        assert!(missing.is_empty(), "{} operations were not seen enough: {missing:?}", missing.len());
    }
}
