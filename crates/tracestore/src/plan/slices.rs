//! Slices of a window, for counting a sample of its traces where all of them would take too long.
//!
//! By slices of time and not by the ids of traces: the store keeps spans in the order of time, so that a slice of a hundredth
//! costs about that much, while a hundredth of the ids is in every part of the table.

use tracewarden_model::{Timestamp, Window};

use super::search::Search;
use crate::sql::Statement;
use crate::table::BoundTable;

/// Slices, spread over the whole window: what happens at some times of the day only must be met.
const COUNT: i64 = 16;
const SECOND: i64 = 1_000_000_000;
/// How far around a slice is looked at its traces, at most.
const MOST_MARGIN: i64 = 600 * SECOND;
/// What the margins of all slices together take of the window, about, as one part of so many.
const MARGINS: i64 = 8;

/// A sample of a window's traces: those whose latest span in the window is in one of the slices. So each trace is in one
/// slice at most, and in any with the same chance.
///
/// Of a trace, spans are seen that are near its slice, and near is less than the definitions say: counts of a sample are
/// estimates, of which that is a part that hardly ever shows.
#[derive(Debug)]
pub(crate) struct Slices {
    /// In ticks, the end exclusive, the oldest first.
    ticks: Vec<(i64, i64)>,
    nanos_per_tick: i64,
    /// How far around a slice is looked, in nanoseconds.
    margin: i64,
    /// The share of the window that the slices are.
    pub(crate) fraction: f64,
}

impl Search<'_> {
    /// Slices that are about this share of the window, with so many nanoseconds around them, or what is affordable; `None` where
    /// the window is too short to hold any.
    pub(crate) fn slices(&self, share: f64, margin: Option<i64>) -> Option<Slices> {
        let ticks =
            (self.ticks_from(self.window.from().as_nanos()), self.ticks_from(self.window.to().as_nanos()));
        let margin =
            margin.unwrap_or_else(|| affordable(self.window, self.store.config.max_trace_duration_nanos));
        Slices::new(ticks, self.table.nanos_per_tick, margin, share)
    }
}

/// The margin of a slice.
fn affordable(window: Window, longest: Option<i64>) -> i64 {
    let whole = window.to().as_nanos().saturating_sub(window.from().as_nanos());
    (whole / (2 * COUNT * MARGINS)).clamp(SECOND, MOST_MARGIN).min(longest.unwrap_or(i64::MAX))
}

impl Slices {
    /// In every of [`COUNT`] equal parts of the window one slice. Where in its part it is differs from part to part, in a way
    /// that meets no period; and it is the same in every sample of the same window, so that asking again gives the same answer.
    fn new((from, to): (i64, i64), nanos_per_tick: i64, margin: i64, share: f64) -> Option<Self> {
        const GOLDEN: f64 = 0.618_033_988_749_894_9;
        let whole = to.checked_sub(from).filter(|whole| *whole > 0)?;
        let parts = COUNT.min(whole);
        let bound = |number: i64| {
            let offset = i128::from(whole) * i128::from(number) / i128::from(parts);
            from.saturating_add(i64::try_from(offset).unwrap_or(whole))
        };
        let slice = |number: i64| {
            let (begin, end) = (bound(number), bound(number + 1));
            let part = end - begin;
            let length = ((part as f64 * share) as i64).clamp(1, part);
            let place = (number as f64 * GOLDEN).fract();
            let begin = begin + ((part - length) as f64 * place) as i64;
            (begin, begin + length)
        };
        let ticks: Vec<(i64, i64)> = (0..parts).map(slice).collect();
        let covered: i64 = ticks.iter().map(|(begin, end)| end - begin).sum();
        Some(Self { ticks, nanos_per_tick, margin, fraction: covered as f64 / whole as f64 })
    }

    fn times(&self) -> impl Iterator<Item = (i64, i64)> {
        let nanos = |ticks: i64| ticks.saturating_mul(self.nanos_per_tick);
        self.ticks.iter().map(move |(begin, end)| (nanos(*begin), nanos(*end)))
    }

    /// Whether a span is in one of them.
    pub(crate) fn inside(&self, table: &BoundTable, statement: &mut Statement) -> String {
        any_of(self.times(), table, statement)
    }

    /// Whether a span is near one of them.
    pub(crate) fn near(&self, table: &BoundTable, statement: &mut Statement) -> String {
        let mut near: Vec<(i64, i64)> = Vec::new();
        for (begin, end) in self.times() {
            let (begin, end) = (begin.saturating_sub(self.margin), end.saturating_add(self.margin));
            match near.last_mut() {
                Some(last) if begin <= last.1 => last.1 = end,
                _ => near.push((begin, end)),
            }
        }
        any_of(near.into_iter(), table, statement)
    }

    /// Whether a trace is of the sample, of which `latest` is the latest span in the window, in ticks.
    pub(crate) fn hold(&self, latest: &str, statement: &mut Statement) -> String {
        let mut slice = |(begin, end): &(i64, i64)| {
            format!("({latest} >= {} AND {latest} < {})", statement.int(*begin), statement.int(*end))
        };
        let slices: Vec<String> = self.ticks.iter().map(&mut slice).collect();
        format!("({})", slices.join(" OR "))
    }
}

fn any_of(ranges: impl Iterator<Item = (i64, i64)>, table: &BoundTable, statement: &mut Statement) -> String {
    let mut range = |(from, to): (i64, i64)| {
        table.within(Timestamp::from_nanos(from), Timestamp::from_nanos(to), statement)
    };
    let ranges: Vec<String> = ranges.map(&mut range).collect();
    format!("({})", ranges.join(" OR "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_in_every_part_of_a_window_and_apart() {
        for (whole, share) in
            [(1, 0.5), (5, 0.01), (16, 0.5), (1_000, 0.1), (86_400 * SECOND, 0.001), (i64::MAX, 0.5)]
        {
            let slices = Slices::new((0, whole), 1, SECOND, share).unwrap();
            assert_eq!(slices.ticks.len() as i64, COUNT.min(whole));
            assert!(slices.ticks.iter().all(|(begin, end)| *begin >= 0 && begin < end && *end <= whole));
            assert!(slices.ticks.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{slices:?}");
            assert!(slices.fraction > 0.0 && slices.fraction <= 1.0);
            if whole > 100_000 {
                assert!((slices.fraction - share).abs() < 1e-3, "{slices:?}");
            }
        }
        // Whatever the window begins with, since a slice of a tick can be all that fits.
        assert!(Slices::new((7, 7), 1, 0, 0.5).is_none());
        let places: Vec<i64> = {
            let slices = Slices::new((0, 1_600_000), 1, 0, 0.01).unwrap();
            slices.ticks.iter().enumerate().map(|(part, (begin, _))| begin - part as i64 * 100_000).collect()
        };
        let (least, most) = (places.iter().min().unwrap(), places.iter().max().unwrap());
        assert!(*least < 10_000 && *most > 85_000, "{places:?}");
    }
}
