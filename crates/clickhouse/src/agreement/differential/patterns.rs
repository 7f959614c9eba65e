//! Patterns of `matches`: compares ClickHouse's RE2 with the reference's engine, on random patterns and on the most expensive
//! ones.

use std::sync::Arc;
use std::time::Instant;

use tracewarden_model::{Caller, field::escape};
use tracewarden_policy::{FieldValue, Span};
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::{GeneratedPolicy, Generator};
use tracewarden_testkit::repetitions::Repetitions;

use super::lowered_policy::{LoweredPolicy, Verdict, evaluate_both};
use super::{connect, load, seed};

/// Number of texts for each pattern.
const TEXTS: usize = 60;
/// Number of patterns of one statement.
const BATCH: usize = 80;
/// Number of pairs of a pattern and a text.
const PAIRS: Repetitions = Repetitions { test: 4_800, verify: 24_000 };
/// Columns with the text: the engine searches a whole column at once, a dictionary, or the values that are not NULL.
const COLUMNS: [&str; 3] = ["SpanName", "ServiceName", "Nick"];

fn lowered(text: &str) -> Option<LoweredPolicy> {
    let policy = GeneratedPolicy { text: text.to_owned(), operations: Vec::new(), standalone: false };
    LoweredPolicy::new(policy, Caller::default())
}

/// Returns a span with the text in each of [`COLUMNS`].
fn span(base: &Span, text: &str) -> Span {
    let mut span = base.clone();
    for column in COLUMNS {
        span.insert(column.to_owned(), FieldValue::text(text));
    }
    span
}

fn policy_of(column: &str, pattern: &str) -> String {
    format!("{column}.matches(\"{}\")", escape(pattern))
}

#[tokio::test]
async fn clickhouse_and_reference_agree_on_patterns() {
    let (seed, wanted) = (seed(), PAIRS.get("TRACEWARDEN_TEST_PATTERN_PAIRS"));
    println!("seed {seed}");
    let begun = Instant::now();
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let mut generator = Generator::new(seed);
    let (mut pairs, mut patterns, mut refused, mut disagreements) = (0, 0, 0, 0);
    let (mut true_count, mut false_count, mut distinguishing) = (0, 0, 0);
    let mut shown = Vec::new();
    let base = generator.span();
    while pairs < wanted {
        let spans: Arc<Vec<Span>> =
            Arc::new((0..TEXTS).map(|_| span(&base, &generator.pattern_subject())).collect());
        load(&local, &spans).await;
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            let column = COLUMNS[batch.len() % COLUMNS.len()];
            match lowered(&policy_of(column, &generator.random_pattern())) {
                Some(lowered) => batch.push(lowered),
                None => refused += 1,
            }
        }
        let batch = Arc::new(batch);
        let (by_store, by_reference) = evaluate_both(&store, &batch, &spans).await;
        for ((lowered, by_store), by_reference) in batch.iter().zip(&by_store).zip(&by_reference) {
            let count = |wanted| by_reference.iter().filter(|verdict| **verdict == wanted).count();
            let (is_true, is_false) = (count(Verdict::True), count(Verdict::False));
            patterns += 1;
            pairs += spans.len();
            true_count += is_true;
            false_count += is_false;
            distinguishing += usize::from(is_true > 0 && is_false > 0);
            for (span, (store, reference)) in spans.iter().zip(by_store.iter().zip(by_reference)) {
                if store != reference {
                    disagreements += 1;
                    shown.push((
                        lowered.policy.text.len(),
                        lowered.describe_disagreement(span, *store, *reference),
                    ));
                }
            }
            // The shortest ones are the easiest to investigate.
            shown.sort();
            shown.truncate(12);
        }
    }
    let share = |count: usize| 100.0 * count as f64 / pairs as f64;
    println!(
        "{pairs} pairs of {patterns} patterns ({refused} refused), seed {seed}, {:.1} s: {:.1} % true, {:.1} % false, \
         {distinguishing} patterns are true of some texts and false of others, {disagreements} disagreements",
        begun.elapsed().as_secs_f64(),
        share(true_count),
        share(false_count),
    );
    let shown: Vec<String> = shown.into_iter().map(|(_, text)| text).collect();
    assert!(disagreements == 0, "{disagreements} disagreements, the shortest:\n{}", shown.join("\n\n"));
    assert!(share(true_count) >= 25.0, "too few are true");
    assert!(share(false_count) >= 25.0, "too few are false");
    assert!(true_count + false_count == pairs, "a pattern is an error");
    assert!(2 * distinguishing >= patterns, "most patterns do not distinguish texts");
    assert!(refused < patterns, "most patterns are refused");
}

/// Patterns of maximum size: `#` is replaced by the count, and the pattern with the next count is refused. Each has a text
/// that matches and one that does not.
fn heaviest() -> Vec<(String, u32, String, String)> {
    let mut cases = Vec::new();
    let mut case = |template: &str, count, matching: String, other: String| {
        cases.push((template.to_owned(), count, matching, other));
    };
    let long = |text: &str, times: usize| text.repeat(times);
    case(".{#}", 250, long("é", 250), long("é", 249));
    case(".{0,#}$", 249, long("b", 3_000), "never".to_owned());
    case("[^a]{#}", 250, long("😀", 250), long("bbbba", 600));
    case("[^a]{#}?", 250, long("\n", 3_000), long("ba", 1_500));
    case("é{#}", 500, long("é", 500), long("é", 499) + "e");
    case("a{#}", 1_000, long("a", 1_000), long("a", 999) + "b");
    case("\\W{#}", 250, long("日", 250), long("日a", 250));
    case("[^\\w\\s]{#}", 250, long("-", 250), long("- ", 250));
    case("(?i)k{#}", 998, long("K\u{212a}k", 333), long("k", 997));
    case("(?i)[^k]{#}", 249, long("é", 249), long("\u{212a}", 3_000));
    case("[\\x{80}-\\x{10FFFF}]{#}", 125, long("\u{80}😀", 63), long("é", 124) + "a");
    let classes: String = (0_u32..25).filter_map(|at| char::from_u32(0x800 + at * 0x29)).collect();
    case(&format!("[{classes}]{{#}}"), 10, long("\u{800}", 10), long("\u{801}", 3_000));
    let classes: String = (0_u32..249).filter_map(|at| char::from_u32(0x4E00 + at * 7)).collect();
    case(&format!("[^{classes}]{{#}}"), 1, "日".to_owned(), long("\u{4E07}", 1_000));
    case("(?:(?:a{10}){10}){#}", 10, long("a", 1_000), long("a", 999));
    case("(?:(?:a{0,10}){0,10}){0,#}b", 9, long("a", 2_000) + "b", long("a", 2_000));
    case("(?:a{10}|b{9}){#}", 50, long("aaaaaaaaaabbbbbbbbb", 25), long("aaaaaaaaab", 300));
    case("(?:a|){#}$", 332, long("a", 1_000), "never".to_owned());
    case("(?:a?){#}a{499}", 500, long("a", 499), long("a", 498));
    case("(?:.*?,){#}z", 166, long("é,", 166) + "z", long("é,", 165) + "z");
    case("(?:\\b){#}", 1_000, " a".to_owned(), "é".to_owned());
    case("(?:(?:[a-c]+|\\d*)x){#}", 200, long("abcx12x", 100), long("abcx-", 250));
    cases
}

#[tokio::test]
async fn the_heaviest_patterns_answer_in_both_engines() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let cases = heaviest();
    let mut generator = Generator::new(seed());
    let base = generator.span();
    let texts: Vec<&String> = cases.iter().flat_map(|(.., matching, other)| [matching, other]).collect();
    let spans: Arc<Vec<Span>> = Arc::new(texts.iter().map(|text| span(&base, text)).collect());
    load(&local, &spans).await;
    let mut batch = Vec::new();
    for (at, (template, count, ..)) in cases.iter().enumerate() {
        let policy =
            |count: u32| policy_of(COLUMNS[at % COLUMNS.len()], &template.replace('#', &count.to_string()));
        assert!(lowered(&policy(count + 1)).is_none(), "there is a heavier one: {template} {count}");
        batch.push(lowered(&policy(*count)).unwrap_or_else(|| panic!("refused: {template} {count}")));
    }
    let begun = Instant::now();
    let (by_store, by_reference) = evaluate_both(&store, &Arc::new(batch), &spans).await;
    for (at, (template, count, matching, other)) in cases.iter().enumerate() {
        assert_eq!(by_store[at], by_reference[at], "{template} {count}");
        assert!(!by_store[at].contains(&Verdict::Error), "{template} {count}");
        assert_eq!(by_store[at][2 * at], Verdict::True, "{template} {count}: {matching:.20}");
        // `never`: the pattern matches every text.
        let expected = if other == "never" { Verdict::True } else { Verdict::False };
        assert_eq!(by_store[at][2 * at + 1], expected, "{template} {count}: {other:.20}");
    }
    println!("{} patterns on {} texts: {:.1} s", cases.len(), spans.len(), begun.elapsed().as_secs_f64());
}
