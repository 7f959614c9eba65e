//! Tests of the test: a wrong lowering rule is detected.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracewarden_policy::check;
use tracewarden_policy::testing::{RuleMutation, mutated_truth};
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::Generator;

use super::generated_model::MODEL;
use super::lowered_policy::{LoweredPolicy, Verdict, reference, sides_by_store};
use super::store::{connect, load};

const SPANS: usize = 40;
/// Number of pairs within which a mistake must be detected.
const PAIRS: usize = 20_000;
/// Altered policies of one statement: mostly, the first ones reveal the mistake.
const BATCH: usize = 8;

/// A wrong rule may make a policy both true and false.
fn sides(verdict: Verdict) -> (bool, bool) {
    (verdict == Verdict::True, verdict == Verdict::False)
}

#[tokio::test]
async fn each_mutated_rule_is_detected_within_20_000_pairs() {
    let mut generator = Generator::new(7);
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let spans: Vec<_> = (0..SPANS).map(|_| generator.span()).collect();
    generator.learn_values(&spans);
    load(&local, &spans).await;
    let policies: Vec<LoweredPolicy> =
        std::iter::repeat_with(|| LoweredPolicy::new(generator.policy(), generator.caller()))
            .flatten()
            .take(PAIRS / SPANS)
            .collect();
    for batch in policies.chunks(BATCH) {
        let right = sides_by_store(&store, batch, SPANS).await;
        for (lowered, right) in batch.iter().zip(right) {
            let known: Vec<_> =
                reference(&lowered.policy.text, &lowered.caller, &spans).into_iter().map(sides).collect();
            assert_eq!(right, known, "the right rules are wrong: {}", lowered.policy.text);
        }
    }
    let checked: Vec<_> =
        policies.iter().map(|lowered| check(&lowered.policy.text, &MODEL).unwrap()).collect();
    let mut references: BTreeMap<usize, Arc<Vec<Verdict>>> = BTreeMap::new();
    let mut undetected = Vec::new();
    for &mutation in RuleMutation::ALL {
        // If the alteration changes neither predicate, it changes no verdict.
        let mut differing =
            policies.iter().zip(&checked).enumerate().filter_map(|(at, (lowered, checked))| {
                let (is_true, is_false) = mutated_truth(checked, &lowered.caller, mutation)?;
                let differs = is_true != lowered.is_true || is_false != lowered.is_false;
                differs.then(|| (at, LoweredPolicy { is_true, is_false, ..lowered.clone() }))
            });
        let mut detected = None;
        while detected.is_none() {
            let (indexes, batch): (Vec<usize>, Vec<LoweredPolicy>) = differing.by_ref().take(BATCH).unzip();
            if batch.is_empty() {
                break;
            }
            let by_store = sides_by_store(&store, &batch, SPANS).await;
            for ((at, lowered), by_store) in indexes.iter().zip(&batch).zip(by_store) {
                let known = references
                    .entry(*at)
                    .or_insert_with(|| Arc::new(reference(&lowered.policy.text, &lowered.caller, &spans)));
                let wrong =
                    by_store.iter().zip(known.iter()).position(|(store, known)| *store != sides(*known));
                if let Some(span) = wrong {
                    detected = Some((at * SPANS + span + 1, lowered.policy.text.clone()));
                    break;
                }
            }
        }
        match detected {
            Some((pairs, by)) => println!("{:<32} {pairs:>6} pairs, by {by:.90}", format!("{mutation:?}")),
            None => undetected.push(mutation),
        }
    }
    assert!(undetected.is_empty(), "{PAIRS} pairs do not show that these are wrong: {undetected:?}");
}
