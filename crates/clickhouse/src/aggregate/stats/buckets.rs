//! Buckets of time.

use tracewarden_model::{Timestamp, Window};

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Widths of a second and more that people use, ascending, as numbers of a unit. Longer ones are doublings of a week.
const WIDTHS: [(i64, &[i64]); 4] = [
    (SECOND, &[1, 2, 5, 10, 15, 30]),
    (MINUTE, &[1, 2, 5, 10, 15, 30]),
    (HOUR, &[1, 2, 3, 6, 12]),
    (DAY, &[1, 2]),
];

/// Buckets of equal width that cover a window. They begin at multiples of their width since the epoch, in UTC; the window may
/// cut off parts of the first and the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buckets {
    window: Window,
    /// Nanoseconds.
    width: i64,
}

impl Buckets {
    /// The narrowest buckets of a usual width of which at most `most`, at least two, cover the window.
    pub fn covering(window: Window, most: u32) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX).max(2);
        let below_a_second = (0..9).flat_map(|digits| [1, 2, 5].map(|first| first * 10_i64.pow(digits)));
        let usual = WIDTHS.iter().flat_map(|(unit, numbers)| numbers.iter().map(move |number| number * unit));
        let longer = std::iter::successors(Some(7 * DAY), |width| width.checked_mul(2));
        let widths = below_a_second.chain(usual).chain(longer);
        let mut buckets = widths.map(|width| Self { window, width });
        // The last width is about half of all times.
        buckets.find(|buckets| buckets.count() <= most).unwrap_or(Self { window, width: i64::MAX })
    }

    /// Number of the first bucket since the epoch, and of the last.
    fn first_and_last(&self) -> (i64, i64) {
        let (from, to) = (self.window.from().as_nanos(), self.window.to().as_nanos());
        (from.div_euclid(self.width), to.saturating_sub(1).max(from).div_euclid(self.width))
    }

    /// Number of buckets.
    pub(super) fn count(&self) -> usize {
        let (first, last) = self.first_and_last();
        usize::try_from(last.abs_diff(first)).map_or(usize::MAX, |others| others.saturating_add(1))
    }

    /// Start and end of each, within the window.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        let (first, last) = self.first_and_last();
        (first..=last).map(|number| (self.edge(i128::from(number)), self.edge(i128::from(number) + 1)))
    }

    /// Start of the bucket with this number, within the window.
    fn edge(&self, number: i128) -> Timestamp {
        let nanos = number.saturating_mul(i128::from(self.width));
        let nanos = i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX });
        Timestamp::from_nanos(nanos.clamp(self.window.from().as_nanos(), self.window.to().as_nanos()))
    }

    /// SQL: the index of the bucket of a time in ticks, which is in the window.
    pub(super) fn index(&self, ticks: &str, nanos_per_tick: i64) -> String {
        let (first, _) = self.first_and_last();
        // Both sides wrap around, so that the difference is right even if the first bucket begins before all times.
        let start = first.wrapping_mul(self.width);
        format!("intDiv(toUInt64({ticks} * {nanos_per_tick} - toInt64({start})), {})", self.width)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn window(from: i64, to: i64) -> Window {
        Window::new(Timestamp::from_nanos(from), Timestamp::from_nanos(to)).unwrap()
    }

    #[test]
    fn widths_are_those_that_people_use() {
        let width = |length: i64, most: u32| Buckets::covering(window(0, length), most).width;
        assert_eq!(width(HOUR, 60), MINUTE);
        assert_eq!(width(HOUR, 59), 2 * MINUTE);
        assert_eq!(width(DAY, 100), 15 * MINUTE);
        assert_eq!(width(7 * DAY, 100), 2 * HOUR);
        assert_eq!(width(50, 10), 5);
        assert_eq!(width(365 * DAY, 5), 112 * DAY);
    }

    proptest! {
        /// The buckets are few enough, follow each other without gaps, and cover the window exactly.
        #[test]
        fn buckets_cover_the_window(from: i64, length in 1_i64..=i64::MAX, most in 0_u32..300) {
            let to = from.saturating_add(length);
            prop_assume!(from > i64::MIN);
            prop_assume!(Window::new(Timestamp::from_nanos(from), Timestamp::from_nanos(to)).is_ok());
            let buckets = Buckets::covering(window(from, to), most);
            prop_assert!(buckets.count() <= most.max(2) as usize);
            let ranges: Vec<(Timestamp, Timestamp)> = buckets.ranges().collect();
            prop_assert_eq!(ranges.len(), buckets.count());
            prop_assert_eq!(ranges.first().unwrap().0.as_nanos(), from);
            prop_assert_eq!(ranges.last().unwrap().1.as_nanos(), to);
            prop_assert!(ranges.iter().all(|(from, to)| from < to));
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 == pair[1].0));
        }
    }
}
