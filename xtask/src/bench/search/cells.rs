//! Policies times conditions: the first page through the service and by three shapes of statements, in turn, with the same
//! answer.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::questions::{Cell, Layout, SHAPES};
use super::service::{PAGE, Prepared, Question};
use crate::bench::store::Store;
use crate::stack::interrupt;

/// Fewest rounds of a contestant, however slow.
const FEWEST_ROUNDS: usize = 2;

/// How much is measured.
#[derive(Clone, Copy)]
pub struct Effort {
    pub rounds: usize,
    /// A contestant that has taken this long in a cell is asked no more.
    pub cap: Duration,
}

/// What one contestant took for the same question, in the middle of its rounds.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    pub milliseconds: f64,
    pub rows: u64,
    pub bytes: u64,
    pub rounds: usize,
}

/// One cell, measured.
pub struct Measured {
    pub cell: Cell,
    /// Traces on the page.
    pub found: usize,
    /// In the order of [`SHAPES`].
    pub shapes: Vec<Figures>,
    pub service: Figures,
    /// Statements that the service sent for a page.
    pub statements: u64,
}

impl Measured {
    /// The quickest shape: its name and figures.
    pub fn by_hand(&self) -> (&'static str, Figures) {
        let all = SHAPES.into_iter().zip(self.shapes.iter().copied());
        all.min_by(|(_, one), (_, other)| one.milliseconds.total_cmp(&other.milliseconds)).unwrap_or_default()
    }

    /// How many times the quickest shape takes the service's time.
    pub fn gain(&self) -> f64 {
        self.by_hand().1.milliseconds / self.service.milliseconds.max(1e-6)
    }
}

struct Sample {
    elapsed: Duration,
    rows: u64,
    bytes: u64,
}

/// What answers in turn.
struct Contestant<'a> {
    name: &'static str,
    ask: Box<dyn Fn() -> Result<(Vec<String>, Sample)> + 'a>,
    samples: Vec<Sample>,
    spent: Duration,
}

/// Measures one cell.
pub fn measure(
    service: &Prepared,
    store: &Store,
    layout: &Layout<'_>,
    cell: Cell,
    effort: Effort,
) -> Result<Measured> {
    let question =
        || Question { cell, traces: layout.traces, range: layout.range, view: "ids", cursor: None };
    let statements = std::cell::Cell::new(0);
    // What asking for the counters itself adds to them.
    let own = {
        let before = store.counters()?;
        store.counters()?.since(before)
    };
    let through_service = || {
        let before = store.counters()?;
        let page = service.ask(&question())?;
        let spent = store.counters()?.since(before).since(own);
        statements.set(spent.statements);
        let sample = Sample { elapsed: page.reply.elapsed, rows: spent.rows, bytes: spent.bytes };
        Ok((page.trace_ids()?, sample))
    };
    let mut contestants: Vec<Contestant<'_>> = Vec::new();
    for shape in SHAPES {
        let statement = cell.by_hand(shape, layout, PAGE);
        contestants.push(Contestant::new(shape, move || {
            let reply = store.ask(&statement, SETTINGS)?;
            let (rows, bytes) = reply.read()?;
            Ok((reply.lines()?, Sample { elapsed: reply.elapsed, rows, bytes }))
        }));
    }
    contestants.push(Contestant::new("service", through_service));

    // The first round fills caches and shows that all answer the same.
    let mut answers = Vec::new();
    for contestant in &mut contestants {
        interrupt::check()?;
        let (answer, sample) = (contestant.ask)()?;
        contestant.spent += sample.elapsed;
        answers.push(answer);
    }
    let expected = answers.first().cloned().unwrap_or_default();
    for (contestant, answer) in contestants.iter().zip(&answers) {
        ensure!(
            *answer == expected,
            "{}: {} and {} found different traces\n{expected:?}\n{answer:?}",
            cell.name(),
            SHAPES[0],
            contestant.name
        );
    }
    for round in 0..effort.rounds {
        for contestant in &mut contestants {
            interrupt::check()?;
            if round >= FEWEST_ROUNDS && contestant.spent > effort.cap {
                continue;
            }
            let (answer, sample) = (contestant.ask)()?;
            ensure!(answer == expected, "{}: {} changed its answer", cell.name(), contestant.name);
            contestant.spent += sample.elapsed;
            contestant.samples.push(sample);
        }
    }
    let mut figures: Vec<Figures> = contestants.iter().map(Contestant::figures).collect();
    drop(contestants);
    let service = figures.pop().unwrap_or_default();
    Ok(Measured { cell, found: expected.len(), shapes: figures, service, statements: statements.get() })
}

/// What goes with a statement by hand, as the service sends it with its own: nothing is compressed, no answer comes from a
/// cache of answers, and the answer begins when it is complete, so that its head tells what was read.
const SETTINGS: &str = "enable_http_compression=0&use_query_cache=0&wait_end_of_query=1";

impl<'a> Contestant<'a> {
    fn new(name: &'static str, ask: impl Fn() -> Result<(Vec<String>, Sample)> + 'a) -> Self {
        Self { name, ask: Box::new(ask), samples: Vec::new(), spent: Duration::ZERO }
    }

    fn figures(&self) -> Figures {
        let of = |value: fn(&Sample) -> f64| median(self.samples.iter().map(value).collect());
        Figures {
            milliseconds: of(|sample| sample.elapsed.as_secs_f64() * 1e3),
            rows: of(|sample| sample.rows as f64) as u64,
            bytes: of(|sample| sample.bytes as f64) as u64,
            rounds: self.samples.len(),
        }
    }
}

/// The middle value, or the mean of the two in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = |place: usize| values.get(place).copied().unwrap_or_default();
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { at(middle) } else { f64::midpoint(at(middle.saturating_sub(1)), at(middle)) }
}

/// The mean of factors.
pub fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let logarithms: Vec<f64> = values.map(f64::ln).collect();
    (logarithms.iter().sum::<f64>() / (logarithms.len().max(1) as f64)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_right() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![]), 0.0);
        assert!((geometric_mean([2.0, 8.0].into_iter()) - 4.0).abs() < 1e-9);
    }
}
