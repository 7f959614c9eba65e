//! Descriptions of random policies: two policies with the same description are true of the same spans.

use std::collections::HashMap;

use tracewarden_policy::{Span, check, in_words};
use tracewarden_testkit::policies::Generator;

use super::asked::{MODEL, Verdict, reference};
use super::{seed, setting};

const CALLERS: usize = 4;
const POLICIES: usize = 400;
const SPANS: usize = 24;
/// Maximum length of a description, in characters.
const LONGEST: usize = 5_000;

#[test]
fn policies_with_equal_descriptions_match_the_same_spans() {
    let seed: u64 = seed();
    println!("seed {seed}");
    let mut generator = Generator::new(seed);
    let spans: Vec<Span> = (0..SPANS).map(|_| generator.span()).collect();
    generator.look_at(&spans);
    let (mut alike, mut whole) = (0, 0);
    for _ in 0..setting("TRACEWARDEN_TEST_CALLERS", CALLERS) {
        let caller = generator.caller();
        let mut known: HashMap<String, (String, Vec<bool>)> = HashMap::new();
        for _ in 0..POLICIES {
            let text = generator.policy().text;
            let Some(predicate) = check(&text, &MODEL).ok().and_then(|checked| checked.predicate(&caller))
            else {
                continue;
            };
            let words = in_words(&predicate);
            assert!(!words.is_empty() && words.chars().count() < LONGEST, "{text}: {words}");
            assert!(!words.chars().any(char::is_control), "{text}: {words:?}");
            if words.contains('…') {
                continue;
            }
            whole += 1;
            let is_true = |verdict: Verdict| verdict == Verdict::True;
            let verdicts: Vec<bool> = reference(&text, &caller, &spans).into_iter().map(is_true).collect();
            match known.get(&words) {
                None => drop(known.insert(words, (text, verdicts))),
                Some((other, expected)) => {
                    // Many of those that are false everywhere have the same description.
                    alike += usize::from(*other != text && expected.contains(&true));
                    assert_eq!(
                        verdicts, *expected,
                        "{caller:?}\n{text}\n{other}\nare both described as {words}"
                    );
                }
            }
        }
    }
    println!(
        "{whole} policies described in full, {alike} with the description of another one that some span \
         satisfies"
    );
    assert!(whole > 4 * alike && alike > 10, "too few or too many equal descriptions to test anything");
}
