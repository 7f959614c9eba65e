//! Descriptions of random policies: two policies with the same description are true of the same spans.

use std::collections::HashMap;

use tracewarden_policy::{Span, check, describe};
use tracewarden_testkit::policies::Generator;
use tracewarden_testkit::repetitions::Repetitions;

use super::generated_model::MODEL;
use super::lowered_policy::{Verdict, reference};
use super::seed;

const CALLERS: Repetitions = Repetitions { test: 2, verify: 4 };
const POLICIES: usize = 400;
const SPANS: usize = 24;
/// Maximum length of a description, in characters.
const MAX_DESCRIPTION_LENGTH: usize = 5_000;

#[test]
fn policies_with_equal_descriptions_match_the_same_spans() {
    let seed: u64 = seed();
    println!("seed {seed}");
    let mut generator = Generator::new(seed);
    let spans: Vec<Span> = (0..SPANS).map(|_| generator.span()).collect();
    generator.learn_values(&spans);
    let (mut equal_descriptions, mut complete) = (0, 0);
    for _ in 0..CALLERS.get("TRACEWARDEN_TEST_CALLERS") {
        let caller = generator.caller();
        let mut known: HashMap<String, (String, Vec<bool>)> = HashMap::new();
        for _ in 0..POLICIES {
            let text = generator.policy().text;
            let Some(predicate) = check(&text, &MODEL).ok().and_then(|checked| checked.predicate(&caller))
            else {
                continue;
            };
            let description = describe(&predicate);
            assert!(
                !description.is_empty() && description.chars().count() < MAX_DESCRIPTION_LENGTH,
                "{text}: {description}"
            );
            assert!(!description.chars().any(char::is_control), "{text}: {description:?}");
            if description.contains('…') {
                continue;
            }
            complete += 1;
            let is_true = |verdict: Verdict| verdict == Verdict::True;
            let verdicts: Vec<bool> = reference(&text, &caller, &spans).into_iter().map(is_true).collect();
            match known.get(&description) {
                None => drop(known.insert(description, (text, verdicts))),
                Some((other, expected)) => {
                    // Many of those that are false everywhere have the same description.
                    equal_descriptions += usize::from(*other != text && expected.contains(&true));
                    assert_eq!(
                        verdicts, *expected,
                        "{caller:?}\n{text}\n{other}\nare both described as {description}"
                    );
                }
            }
        }
    }
    println!(
        "{complete} policies described in full, {equal_descriptions} with the description of another one that some span \
         satisfies"
    );
    assert!(
        complete > 4 * equal_descriptions && equal_descriptions > 10,
        "too few or too many equal descriptions to test anything"
    );
}
