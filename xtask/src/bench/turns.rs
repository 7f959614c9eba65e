//! Several ways to get the same answer, asked in turn within each round: other load on the machine affects all of them.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::store::Store;
use crate::stack::interrupt::{self, Interrupted};

/// Fewest rounds of a contestant, however slow.
const FEWEST_ROUNDS: usize = 2;

/// How much is measured.
#[derive(Clone, Copy)]
pub struct Effort {
    pub rounds: usize,
    /// A contestant that has taken this long is asked no more.
    pub cap: Duration,
}

/// One answer, and what it took.
pub struct Sample<A> {
    pub answer: A,
    pub elapsed: Duration,
    /// Rows and bytes that the store read.
    pub rows: u64,
    pub bytes: u64,
}

/// Medians of one contestant's rounds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    pub milliseconds: f64,
    /// The slowest single answer.
    pub slowest: f64,
    pub rows: u64,
    pub bytes: u64,
}

/// A contestant.
pub struct Contestant<'a, A> {
    name: String,
    /// Takes the number of the round, of which 0 fills caches and is not measured.
    ask: Box<dyn Fn(usize) -> Result<Sample<A>> + 'a>,
    samples: Vec<Sample<()>>,
    spent: Duration,
}

impl<'a, A> Contestant<'a, A> {
    pub fn new(name: impl Into<String>, ask: impl Fn() -> Result<Sample<A>> + 'a) -> Self {
        Self::of_round(name, move |_| ask())
    }

    /// One whose question differs from round to round.
    pub fn of_round(name: impl Into<String>, ask: impl Fn(usize) -> Result<Sample<A>> + 'a) -> Self {
        Self { name: name.into(), ask: Box::new(ask), samples: Vec::new(), spent: Duration::ZERO }
    }

    /// A statement by hand, its answer made of the lines that come.
    pub fn by_hand(
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

/// What goes with a statement by hand, as the service sends it with its own: nothing is compressed, no answer comes from a
/// cache of answers, and the answer begins when it is complete, so that its head tells what was read.
pub const SETTINGS: &str = "enable_http_compression=0&use_query_cache=0&wait_end_of_query=1";

/// What could not be measured, so that the rest still is.
#[derive(Default)]
pub struct Failures(Cell<usize>);

impl Failures {
    /// Says what failed and goes on without it, but for an interruption.
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

    /// An error when there were any.
    pub fn check(&self) -> Result<()> {
        ensure!(self.0.get() == 0, "{} measurements failed", self.0.get());
        Ok(())
    }
}

/// Asks all in turn, after a round that fills caches. Each must answer the same in every round; what they answered comes
/// first.
pub fn measure<A: PartialEq + std::fmt::Debug>(
    contestants: &mut [Contestant<'_, A>],
    effort: Effort,
) -> Result<(Vec<A>, Vec<Figures>)> {
    let mut answers: Vec<A> = Vec::new();
    rounds(contestants, effort, |asked, name, answer| {
        match answers.get(asked.contestant) {
            Some(held) => ensure!(answer == *held, "{name} changed its answer\n{held:?}\n{answer:?}"),
            None => answers.push(answer),
        }
        Ok(())
    })?;
    Ok((answers, contestants.iter().map(Contestant::figures).collect()))
}

/// The same, of contestants who must all answer the same within a round; the answer to the first round comes back. Rounds may
/// ask for different things.
pub fn agree<A: PartialEq + std::fmt::Debug>(
    contestants: &mut [Contestant<'_, A>],
    effort: Effort,
) -> Result<(Option<A>, Vec<Figures>)> {
    // Of each round, the first answer and whose it is.
    let (mut first, mut held) = (None, None::<(usize, String, A)>);
    rounds(contestants, effort, |asked, name, answer| {
        match &held {
            Some((round, other, expected)) if *round == asked.round => {
                ensure!(
                    answer == *expected,
                    "{other} and {name} answer differently\n{expected:?}\n{answer:?}"
                );
            }
            _ => {
                let before = held.replace((asked.round, name.to_owned(), answer));
                first = first.take().or(before.map(|(.., answer)| answer));
            }
        }
        Ok(())
    })?;
    let answer = first.or(held.map(|(.., answer)| answer));
    Ok((answer, contestants.iter().map(Contestant::figures).collect()))
}

/// Which answer it is.
struct Asked {
    round: usize,
    contestant: usize,
}

/// Asks all in turn, and checks each answer.
fn rounds<A>(
    contestants: &mut [Contestant<'_, A>],
    effort: Effort,
    mut check: impl FnMut(&Asked, &str, A) -> Result<()>,
) -> Result<()> {
    for round in 0..=effort.rounds {
        for (number, contestant) in contestants.iter_mut().enumerate() {
            if round > FEWEST_ROUNDS && contestant.spent > effort.cap {
                continue;
            }
            let (answer, sample) = contestant.take(round)?;
            check(&Asked { round, contestant: number }, &contestant.name, answer)?;
            if round > 0 {
                contestant.samples.push(sample);
            }
        }
    }
    Ok(())
}

/// The middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = |place: usize| values.get(place).copied().unwrap_or_default();
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { at(middle) } else { f64::midpoint(at(middle.saturating_sub(1)), at(middle)) }
}

/// The mean of factors.
pub fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let logarithms: Vec<f64> = values.map(f64::ln).collect();
    (logarithms.iter().sum::<f64>() / (logarithms.len() as f64)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EFFORT: Effort = Effort { rounds: 3, cap: Duration::from_secs(60) };

    fn taking<'a>(seconds: &'a [u64], answer: &'static str) -> Contestant<'a, &'static str> {
        let round = Cell::new(0);
        Contestant::new(answer, move || {
            let elapsed = Duration::from_secs(seconds[round.get().min(seconds.len() - 1)]);
            round.set(round.get() + 1);
            Ok(Sample { answer, elapsed, rows: 1, bytes: 2 })
        })
    }

    #[test]
    fn the_first_round_does_not_count_and_slow_contestants_get_fewer() {
        let mut all = [taking(&[50, 1, 2, 9], "same"), taking(&[100, 40, 20, 1], "same")];
        let (answer, figures) = agree(&mut all, EFFORT).unwrap();
        assert_eq!(answer, Some("same"));
        let times: Vec<f64> = figures.iter().map(|figures| figures.milliseconds).collect();
        assert_eq!(times, [2_000.0, 30_000.0]);
    }

    #[test]
    fn other_answers_are_errors() {
        let mut all = [taking(&[1], "one"), taking(&[1], "other")];
        assert!(agree(&mut all, EFFORT).unwrap_err().to_string().contains("answer differently"));
        let changing = Cell::new(0);
        let mut all = [Contestant::new("fickle", || {
            changing.set(changing.get() + 1);
            Ok(Sample { answer: changing.get(), elapsed: Duration::ZERO, rows: 0, bytes: 0 })
        })];
        assert!(measure(&mut all, EFFORT).unwrap_err().to_string().contains("changed its answer"));
    }

    #[test]
    fn rounds_may_ask_for_different_things() {
        let of_round = |name: &'static str, slow: bool| {
            Contestant::of_round(name, move |round| {
                let elapsed = Duration::from_secs(if slow { 100 } else { round as u64 });
                Ok(Sample { answer: round, elapsed, rows: 0, bytes: 0 })
            })
        };
        // The first is not asked in the last round, in which the others are compared with each other.
        let mut all = [of_round("slow", true), of_round("one", false), of_round("other", false)];
        let (answer, figures) = agree(&mut all, EFFORT).unwrap();
        assert_eq!(answer, Some(0));
        assert_eq!(figures[1].slowest, 3_000.0);
        let mut all = [of_round("slow", true), of_round("one", false), taking_number(7)];
        assert!(agree(&mut all, EFFORT).unwrap_err().to_string().contains("answer differently"));
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

    fn taking_number<'a>(answer: usize) -> Contestant<'a, usize> {
        Contestant::new("number", move || Ok(Sample { answer, elapsed: Duration::ZERO, rows: 0, bytes: 0 }))
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
