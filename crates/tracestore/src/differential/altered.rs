//! Tests of the test: a wrong lowering rule is detected.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracewarden_policy::check;
use tracewarden_policy::testing::{Alteration, truth_altered};
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::Generator;

use super::asked::{Asked, MODEL, Verdict, reference, sides_by_store};
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
    generator.look_at(&spans);
    load(&local, &spans).await;
    let policies: Vec<Asked> = std::iter::repeat_with(|| Asked::new(generator.policy(), generator.caller()))
        .flatten()
        .take(PAIRS / SPANS)
        .collect();
    for batch in policies.chunks(BATCH) {
        let right = sides_by_store(&store, batch, SPANS).await;
        for (asked, right) in batch.iter().zip(right) {
            let known: Vec<_> =
                reference(&asked.policy.text, &asked.caller, &spans).into_iter().map(sides).collect();
            assert_eq!(right, known, "the right rules are wrong: {}", asked.policy.text);
        }
    }
    let checked: Vec<_> = policies.iter().map(|asked| check(&asked.policy.text, &MODEL).unwrap()).collect();
    let mut references: BTreeMap<usize, Arc<Vec<Verdict>>> = BTreeMap::new();
    let mut unnoticed = Vec::new();
    for &alteration in Alteration::ALL {
        // If the alteration changes neither predicate, it changes no verdict.
        let mut differing = policies.iter().zip(&checked).enumerate().filter_map(|(at, (asked, checked))| {
            let (is_true, is_false) = truth_altered(checked, &asked.caller, alteration)?;
            let differs = is_true != asked.is_true || is_false != asked.is_false;
            differs.then(|| (at, Asked { is_true, is_false, ..asked.clone() }))
        });
        let mut noticed = None;
        while noticed.is_none() {
            let (places, batch): (Vec<usize>, Vec<Asked>) = differing.by_ref().take(BATCH).unzip();
            if batch.is_empty() {
                break;
            }
            let by_store = sides_by_store(&store, &batch, SPANS).await;
            for ((at, asked), by_store) in places.iter().zip(&batch).zip(by_store) {
                let known = references
                    .entry(*at)
                    .or_insert_with(|| Arc::new(reference(&asked.policy.text, &asked.caller, &spans)));
                let wrong =
                    by_store.iter().zip(known.iter()).position(|(store, known)| *store != sides(*known));
                if let Some(span) = wrong {
                    noticed = Some((at * SPANS + span + 1, asked.policy.text.clone()));
                    break;
                }
            }
        }
        match noticed {
            Some((pairs, by)) => println!("{:<32} {pairs:>6} pairs, by {by:.90}", format!("{alteration:?}")),
            None => unnoticed.push(alteration),
        }
    }
    assert!(unnoticed.is_empty(), "{PAIRS} pairs do not show that these are wrong: {unnoticed:?}");
}
