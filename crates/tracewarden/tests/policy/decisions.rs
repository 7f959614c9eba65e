//! Randomised model tests of explanations: with random policies, users and spans, the parts that are said to decide are
//! compared with their actual outcomes.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use tracewarden_policy::{Decision, Outcome, check, evaluate, explain};
use tracewarden_testkit::policies::Generator;
use tracewarden_testkit::repetitions;

/// Returns the text that a decision concerns.
fn marked_text<'a>(expression: &'a str, decision: &Decision) -> &'a str {
    let line: usize = expression.split_inclusive('\n').take(decision.line as usize - 1).map(str::len).sum();
    let rest = &expression[line..];
    let bytes = |text: &str, chars: u32| text.chars().take(chars as usize).map(char::len_utf8).sum::<usize>();
    let start = bytes(rest, decision.column - 1);
    let length = bytes(&rest[start..], decision.length);
    &rest[start..start + length]
}

fn kind(outcome: &Outcome) -> &'static str {
    outcome.into()
}

#[test]
fn decisions_agree_with_evaluation() {
    let seed = repetitions::seed(7);
    let mut generator = Generator::new(seed);
    let model = Generator::model();
    let spans: Vec<_> = (0..15).map(|_| generator.span()).collect();
    let mut counts: BTreeMap<&'static str, u32> = BTreeMap::new();
    let (mut alone, mut within) = (0_u32, 0_u32);
    for _ in 0..150 {
        let (expression, caller) = (generator.expression(), generator.caller());
        if check(&expression, &model).is_err() {
            continue;
        }
        let outcomes = evaluate(&expression, &model, &caller, &spans).unwrap();
        let Ok(verdicts) = explain(&expression, &model, &caller, &spans, &AtomicBool::new(false)) else {
            panic!("not explained: {expression}");
        };
        let mut parts: BTreeMap<&str, Option<Vec<Outcome>>> = BTreeMap::new();
        for (at, (outcome, verdict)) in outcomes.iter().zip(&verdicts).enumerate() {
            let about = format!("{expression}\n{caller:?}\n{:?}\n{verdict:?}, seed {seed}", spans[at]);
            assert_eq!(kind(outcome), kind(&verdict.outcome), "{about}");
            *counts.entry(kind(outcome)).or_default() += 1;
            // An error outcome is explained by an error, and another outcome is not.
            let errors = verdict.decided_by.iter().any(|decision| kind(&decision.outcome) == "error");
            assert_eq!(errors, kind(outcome) == "error", "{about}");
            assert!(!verdict.decided_by.is_empty(), "{about}");
            for decision in &verdict.decided_by {
                // A part that is an expression by itself has the reported outcome.
                let marked_text = marked_text(&expression, decision);
                let expected = kind(&decision.outcome);
                let own = parts
                    .entry(marked_text)
                    .or_insert_with(|| evaluate(marked_text, &model, &caller, &spans).ok());
                match own {
                    Some(own) => {
                        assert_eq!(kind(&own[at]), expected, "{marked_text}\n{about}");
                        alone += 1;
                    }
                    // The part is a value that is not a condition, or uses the variable of an enclosing macro.
                    None => within += 1,
                }
            }
        }
    }
    println!("{counts:?}, {alone} parts by themselves, {within} that are not conditions");
    let all: u32 = counts.values().sum();
    assert!(all > 1_500 && counts.values().all(|count| *count > all / 10), "{counts:?}");
    assert!(alone > all / 2 && within > 0, "{alone} of {all}, {within}");
}
