//! Randomised model tests of warnings: with random policies, users and spans, each warning is certainly true.

use tracewarden_model::Caller;
use tracewarden_policy::{Diagnostic, FieldValue, Outcome, Span, check, evaluate};
use tracewarden_testkit::policies::Generator;
use tracewarden_testkit::repetitions;

/// Returns the text that a warning concerns.
fn marked_text<'a>(expression: &'a str, warning: &Diagnostic) -> &'a str {
    let line: usize = expression.split_inclusive('\n').take(warning.line as usize - 1).map(str::len).sum();
    let bytes = |text: &str, chars: u32| text.chars().take(chars as usize).map(char::len_utf8).sum::<usize>();
    let start = line + bytes(&expression[line..], warning.column - 1);
    &expression[start..start + bytes(&expression[start..], warning.length)]
}

/// Returns the outcomes of an expression; `None` if it is not valid by itself, such as the body of a macro.
fn outcomes(expression: &str, callers: &[Caller], spans: &[Span]) -> Option<Vec<Outcome>> {
    let model = Generator::model();
    let of = |caller: &Caller| evaluate(expression, &model, caller, spans).ok();
    Some(callers.iter().map(of).collect::<Option<Vec<_>>>()?.concat())
}

#[test]
fn warnings_agree_with_evaluation() {
    let seed = repetitions::seed(7);
    let mut generator = Generator::new(seed);
    let model = Generator::model();
    let spans: Vec<Span> = (0..24).map(|_| generator.span()).collect();
    let (mut constant, mut whole, mut absent) = (0_u32, 0_u32, 0_u32);
    for _ in 0..1_200 {
        let (expression, callers) = (generator.expression(), [generator.caller(), generator.caller()]);
        let Ok(checked) = check(&expression, &model) else { continue };
        for warning in checked.warnings() {
            let (message, marked_text) = (warning.message.as_str(), marked_text(&expression, warning));
            let about = format!("{marked_text}\n{expression}\n{warning:?}, seed {seed}");
            match warning.code {
                "constant" if message.contains("or to none") => {
                    for caller in &callers {
                        let found = outcomes(&expression, std::slice::from_ref(caller), &spans).unwrap();
                        assert!(found.windows(2).all(|two| two[0] == two[1]), "{about}");
                    }
                }
                "constant" => {
                    for (claim, granted) in [("access to no trace", false), ("access to every trace", true)] {
                        if message.contains(claim) {
                            let found = outcomes(&expression, &callers, &spans).unwrap();
                            assert!(found.iter().all(|of| (*of == Outcome::True) == granted), "{about}");
                            whole += 1;
                        }
                    }
                    let Some(found) = outcomes(marked_text, &callers, &spans) else { continue };
                    let contradicting =
                        if message.contains("never true") { Outcome::True } else { Outcome::False };
                    assert!(!message.contains("never true") || !message.contains("always"), "{about}");
                    assert!(message.starts_with("this policy") || !found.contains(&contradicting), "{about}");
                    let always = message.contains("always true");
                    assert!(!always || found.iter().all(|of| *of == Outcome::True), "{about}");
                    constant += 1;
                }
                "negated_absent_key" => {
                    let Some(found) = outcomes(marked_text, &callers, &spans) else { continue };
                    let field = message.split('`').nth(1).unwrap();
                    let suggested_results: Vec<&str> =
                        warning.hint.iter().flat_map(|hint| hint.split('`')).collect();
                    let missing: Vec<bool> = if message.contains("is NULL") {
                        spans.iter().map(|span| span[field] == FieldValue::Null).collect()
                    } else {
                        // The suggested policy checks by itself whether the key is present.
                        let start = suggested_results[1].trim_start_matches('(');
                        let Some((presence, _)) =
                            start.strip_prefix("!(").and_then(|rest| rest.split_once(") || "))
                        else {
                            continue;
                        };
                        let Some(present) = outcomes(presence, &callers[..1], &spans) else { continue };
                        present.iter().map(|of| *of == Outcome::False).collect()
                    };
                    for (of, missing) in found.iter().zip(missing.iter().cycle()) {
                        let alone = !message.contains("these") || !marked_text.contains("||");
                        assert!(!missing || !alone || *of != Outcome::True, "{about}");
                    }
                    absent += 1;
                }
                _ => {}
            }
        }
    }
    println!("{constant} constant parts, {whole} constant policies, {absent} negations");
    assert!(constant > 100 && whole > 10 && absent > 100, "too few warnings to test anything");
}
