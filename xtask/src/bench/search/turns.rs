//! Ways to get the same answer, asked in turn, so that whatever else the machine does meets all of them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::bench::store::Store;
use crate::stack::interrupt;

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

/// What one contestant took, in the middle of its rounds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    pub milliseconds: f64,
    pub rows: u64,
    pub bytes: u64,
}

/// Somebody who answers.
pub struct Contestant<'a, A> {
    name: String,
    ask: Box<dyn Fn() -> Result<Sample<A>> + 'a>,
    samples: Vec<Sample<()>>,
    spent: Duration,
}

impl<'a, A> Contestant<'a, A> {
    pub fn new(name: impl Into<String>, ask: impl Fn() -> Result<Sample<A>> + 'a) -> Self {
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

    fn take(&mut self) -> Result<(A, Sample<()>)> {
        interrupt::check()?;
        let Sample { answer, elapsed, rows, bytes } =
            (self.ask)().with_context(|| format!("measuring {}", self.name))?;
        self.spent += elapsed;
        Ok((answer, Sample { answer: (), elapsed, rows, bytes }))
    }

    fn figures(&self) -> Figures {
        let of = |value: fn(&Sample<()>) -> f64| median(self.samples.iter().map(value).collect());
        Figures {
            milliseconds: of(|sample| sample.elapsed.as_secs_f64() * 1e3),
            rows: of(|sample| sample.rows as f64) as u64,
            bytes: of(|sample| sample.bytes as f64) as u64,
        }
    }
}

/// What goes with a statement by hand, as the service sends it with its own: nothing is compressed, no answer comes from a
/// cache of answers, and the answer begins when it is complete, so that its head tells what was read.
pub const SETTINGS: &str = "enable_http_compression=0&use_query_cache=0&wait_end_of_query=1";

/// Asks all in turn, after a round that fills caches. Each must answer the same in every round; what they answered comes
/// first.
pub fn measure<A: PartialEq + std::fmt::Debug>(
    contestants: &mut [Contestant<'_, A>],
    effort: Effort,
) -> Result<(Vec<A>, Vec<Figures>)> {
    let mut answers = Vec::new();
    for contestant in contestants.iter_mut() {
        answers.push(contestant.take()?.0);
    }
    for round in 0..effort.rounds {
        for (contestant, held) in contestants.iter_mut().zip(&answers) {
            if round >= FEWEST_ROUNDS && contestant.spent > effort.cap {
                continue;
            }
            let (answer, sample) = contestant.take()?;
            ensure!(answer == *held, "{} changed its answer\n{held:?}\n{answer:?}", contestant.name);
            contestant.samples.push(sample);
        }
    }
    let figures = contestants.iter().map(Contestant::figures).collect();
    Ok((answers, figures))
}

/// The same, of contestants who must all answer the same.
pub fn agree<A: PartialEq + std::fmt::Debug>(
    contestants: &mut [Contestant<'_, A>],
    effort: Effort,
) -> Result<(Option<A>, Vec<Figures>)> {
    let (answers, figures) = measure(contestants, effort)?;
    for (contestant, answer) in contestants.iter().zip(&answers) {
        let (Some(first), Some(expected)) = (contestants.first(), answers.first()) else { continue };
        ensure!(
            answer == expected,
            "{} and {} answer differently\n{expected:?}\n{answer:?}",
            first.name,
            contestant.name
        );
    }
    Ok((answers.into_iter().next(), figures))
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
    use std::cell::Cell;

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
    fn means_are_right() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![]), 0.0);
        assert!((geometric_mean([2.0, 8.0].into_iter()) - 4.0).abs() < 1e-9);
        assert!(geometric_mean(std::iter::empty()).is_nan());
    }
}
