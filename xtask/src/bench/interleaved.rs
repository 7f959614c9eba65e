//! Runs several ways to get the same answer in turn within each round, so that other load on the machine affects all of them.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::store::Store;
use crate::stack::interrupt::{self, Interrupted};

/// Minimum number of rounds of a contestant, even a slow one.
const FEWEST_ROUNDS: usize = 2;

/// Amount of measurement.
#[derive(Clone, Copy)]
pub struct Effort {
    pub rounds: usize,
    /// Total time after which a contestant is skipped.
    pub cap: Duration,
}

/// An answer with its cost.
pub struct Sample<A> {
    pub answer: A,
    pub elapsed: Duration,
    /// Rows and bytes that ClickHouse read.
    pub rows: u64,
    pub bytes: u64,
}

/// Medians of one contestant's rounds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    pub milliseconds: f64,
    /// Time of the slowest single answer.
    pub slowest: f64,
    pub rows: u64,
    pub bytes: u64,
}

/// One way to get the answer.
pub struct Variant<'a, A> {
    name: String,
    /// Takes the round number. Round 0 fills caches and is not measured.
    ask: Box<dyn Fn(usize) -> Result<Sample<A>> + 'a>,
    samples: Vec<Sample<()>>,
    spent: Duration,
}

impl<'a, A> Variant<'a, A> {
    pub fn new(name: impl Into<String>, ask: impl Fn() -> Result<Sample<A>> + 'a) -> Self {
        Self::with_round(name, move |_| ask())
    }

    /// Creates a contestant whose query differs from round to round.
    pub fn with_round(name: impl Into<String>, ask: impl Fn(usize) -> Result<Sample<A>> + 'a) -> Self {
        Self { name: name.into(), ask: Box::new(ask), samples: Vec::new(), spent: Duration::ZERO }
    }

    /// Creates a contestant that runs a hand-written statement and builds its answer from the lines of the response.
    pub fn handwritten(
        name: impl Into<String>,
        store: &'a Store,
        statement: String,
        answer: impl Fn(Vec<String>) -> A + 'a,
    ) -> Self {
        Self::new(name, move || {
            let reply = store.ask(&statement, SETTINGS)?;
            let (rows, bytes) = reply.read()?;
            Ok(Sample { answer: answer(reply.lines()?), elapsed: reply.elapsed, rows, bytes })
        })
    }

    fn take(&mut self, round: usize) -> Result<(A, Sample<()>)> {
        interrupt::check()?;
        let Sample { answer, elapsed, rows, bytes } =
            (self.ask)(round).with_context(|| format!("measuring {}", self.name))?;
        self.spent += elapsed;
        Ok((answer, Sample { answer: (), elapsed, rows, bytes }))
    }

    fn figures(&self) -> Figures {
        let of = |value: fn(&Sample<()>) -> f64| median(self.samples.iter().map(value).collect());
        let milliseconds = |sample: &Sample<()>| sample.elapsed.as_secs_f64() * 1e3;
        Figures {
            milliseconds: of(milliseconds),
            slowest: self.samples.iter().map(milliseconds).fold(0.0, f64::max),
            rows: of(|sample| sample.rows as f64) as u64,
            bytes: of(|sample| sample.bytes as f64) as u64,
        }
    }
}

/// Settings for hand-written statements, as the service sends them with its own: no compression, no query cache, and buffering
/// until the result is complete, so that the summary header states the rows read.
pub const SETTINGS: &str = "enable_http_compression=0&use_query_cache=0&wait_end_of_query=1";

/// Counts failed measurements, so that the others can continue.
#[derive(Default)]
pub struct Failures(Cell<usize>);

impl Failures {
    /// Prints an error and continues. Only an interruption is returned.
    pub fn tolerate<T>(&self, outcome: Result<T>) -> Result<Option<T>> {
        match outcome {
            Ok(measured) => Ok(Some(measured)),
            Err(error) if error.is::<Interrupted>() => Err(error),
            Err(error) => {
                eprintln!("error: {error:#}");
                self.0.set(self.0.get() + 1);
                Ok(None)
            }
        }
    }

    /// Returns an error if a measurement failed.
    pub fn check(&self) -> Result<()> {
        ensure!(self.0.get() == 0, "{} measurements failed", self.0.get());
        Ok(())
    }
}

/// Runs all contestants in turn, after a round that fills caches. Each must give the same answer in every round. Returns the
/// answers and the figures.
pub fn measure<A: PartialEq + std::fmt::Debug>(
    variants: &mut [Variant<'_, A>],
    effort: Effort,
) -> Result<(Vec<A>, Vec<Figures>)> {
    let mut answers: Vec<A> = Vec::new();
    rounds(variants, effort, |turn, name, answer| {
        match answers.get(turn.variant) {
            Some(earlier) => {
                ensure!(answer == *earlier, "{name} changed its answer\n{earlier:?}\n{answer:?}")
            }
            None => answers.push(answer),
        }
        Ok(())
    })?;
    Ok((answers, variants.iter().map(Variant::figures).collect()))
}

/// Like [`measure`], but all contestants must give the same answer within a round, and rounds may use different queries. Returns
/// the answer of the first round.
pub fn measure_agreeing<A: PartialEq + std::fmt::Debug>(
    variants: &mut [Variant<'_, A>],
    effort: Effort,
) -> Result<(Option<A>, Vec<Figures>)> {
    // The first answer of the current round, with the contestant's name.
    let (mut first, mut earlier) = (None, None::<(usize, String, A)>);
    rounds(variants, effort, |turn, name, answer| {
        match &earlier {
            Some((round, other, expected)) if *round == turn.round => {
                ensure!(
                    answer == *expected,
                    "{other} and {name} answer differently\n{expected:?}\n{answer:?}"
                );
            }
            _ => {
                let before = earlier.replace((turn.round, name.to_owned(), answer));
                first = first.take().or(before.map(|(.., answer)| answer));
            }
        }
        Ok(())
    })?;
    let answer = first.or(earlier.map(|(.., answer)| answer));
    Ok((answer, variants.iter().map(Variant::figures).collect()))
}

/// Identifies an answer.
struct Turn {
    round: usize,
    variant: usize,
}

/// Runs all contestants in turn and checks each answer.
fn rounds<A>(
    variants: &mut [Variant<'_, A>],
    effort: Effort,
    mut check: impl FnMut(&Turn, &str, A) -> Result<()>,
) -> Result<()> {
    for round in 0..=effort.rounds {
        for (number, variant) in variants.iter_mut().enumerate() {
            if round > FEWEST_ROUNDS && variant.spent > effort.cap {
                continue;
            }
            let (answer, sample) = variant.take(round)?;
            check(&Turn { round, variant: number }, &variant.name, answer)?;
            if round > 0 {
                variant.samples.push(sample);
            }
        }
    }
    Ok(())
}

/// Returns the middle value, or the mean of the two middle values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or_default();
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { at(middle) } else { f64::midpoint(at(middle.saturating_sub(1)), at(middle)) }
}

/// Returns the geometric mean.
pub fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let logarithms: Vec<f64> = values.map(f64::ln).collect();
    (logarithms.iter().sum::<f64>() / (logarithms.len() as f64)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EFFORT: Effort = Effort { rounds: 3, cap: Duration::from_secs(60) };

    fn fixed_variant<'a>(seconds: &'a [u64], answer: &'static str) -> Variant<'a, &'static str> {
        let round = Cell::new(0);
        Variant::new(answer, move || {
            let elapsed = Duration::from_secs(seconds[round.get().min(seconds.len() - 1)]);
            round.set(round.get() + 1);
            Ok(Sample { answer, elapsed, rows: 1, bytes: 2 })
        })
    }

    #[test]
    fn the_first_round_does_not_count_and_slow_variants_get_fewer() {
        let mut all = [fixed_variant(&[50, 1, 2, 9], "same"), fixed_variant(&[100, 40, 20, 1], "same")];
        let (answer, figures) = measure_agreeing(&mut all, EFFORT).unwrap();
        assert_eq!(answer, Some("same"));
        let times: Vec<f64> = figures.iter().map(|figures| figures.milliseconds).collect();
        assert_eq!(times, [2_000.0, 30_000.0]);
    }

    #[test]
    fn other_answers_are_errors() {
        let mut all = [fixed_variant(&[1], "one"), fixed_variant(&[1], "other")];
        assert!(measure_agreeing(&mut all, EFFORT).unwrap_err().to_string().contains("answer differently"));
        let changing = Cell::new(0);
        let mut all = [Variant::new("fickle", || {
            changing.set(changing.get() + 1);
            Ok(Sample { answer: changing.get(), elapsed: Duration::ZERO, rows: 0, bytes: 0 })
        })];
        assert!(measure(&mut all, EFFORT).unwrap_err().to_string().contains("changed its answer"));
    }

    #[test]
    fn rounds_may_ask_for_different_things() {
        let with_round = |name: &'static str, is_slow: bool| {
            Variant::with_round(name, move |round| {
                let elapsed = Duration::from_secs(if is_slow { 100 } else { round as u64 });
                Ok(Sample { answer: round, elapsed, rows: 0, bytes: 0 })
            })
        };
        // The slow contestant is skipped in the last round, in which the others are compared with each other.
        let mut all = [with_round("slow", true), with_round("one", false), with_round("other", false)];
        let (answer, figures) = measure_agreeing(&mut all, EFFORT).unwrap();
        assert_eq!(answer, Some(0));
        assert_eq!(figures[1].slowest, 3_000.0);
        let mut all = [with_round("slow", true), with_round("one", false), taking_number(7)];
        assert!(measure_agreeing(&mut all, EFFORT).unwrap_err().to_string().contains("answer differently"));
    }

    #[test]
    fn failures_are_counted_and_interruptions_end() {
        let failures = Failures::default();
        assert_eq!(failures.tolerate(Ok(1)).unwrap(), Some(1));
        failures.check().unwrap();
        assert_eq!(failures.tolerate::<u8>(Err(anyhow::anyhow!("slow"))).unwrap(), None);
        assert!(failures.tolerate::<u8>(Err(Interrupted.into())).is_err());
        assert_eq!(failures.check().unwrap_err().to_string(), "1 measurements failed");
    }

    fn taking_number<'a>(answer: usize) -> Variant<'a, usize> {
        Variant::new("number", move || Ok(Sample { answer, elapsed: Duration::ZERO, rows: 0, bytes: 0 }))
    }

    #[test]
    fn means_are_right() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![]), 0.0);
        assert!((geometric_mean([2.0, 8.0].into_iter()) - 4.0).abs() < 1e-9);
        assert!(geometric_mean(std::iter::empty()).is_nan());
    }
}
