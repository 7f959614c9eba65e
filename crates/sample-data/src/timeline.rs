//! Times in the sample: the traffic curve of the day, the incident, and the nightly jobs, all relative to a given moment.

use super::rng::{HOUR, MINUTE, SECOND};

/// Length of the sample's window.
pub(super) const SAMPLE_DURATION: u64 = 24 * HOUR;
/// Ordinary traces end within this time, so that no trace ends after the given moment.
const MARGIN: u64 = 2 * MINUTE;
pub(super) const MINUTES: u64 = (SAMPLE_DURATION - 2 * MARGIN) / MINUTE;

/// Visits by hour of the day in UTC: low at night, highest in the evening.
const DAY_CURVE: [u64; 24] =
    [20, 14, 10, 8, 8, 12, 22, 38, 56, 70, 78, 84, 90, 86, 80, 78, 82, 90, 104, 120, 116, 92, 60, 36];

/// Minimum weight of a minute during the incident. Visitors reload and try again, so the incident is visible at any hour.
const INCIDENT_WEIGHT: u64 = 7_000;

/// The times of one sample.
#[derive(Clone, Copy)]
pub(super) struct Timeline {
    now: u64,
}

impl Timeline {
    pub fn new(now_unix_nanos: u64) -> Self {
        Self { now: now_unix_nanos }
    }

    /// Returns the sample's window: all spans begin and end in it.
    pub fn window(self) -> (u64, u64) {
        (self.now.saturating_sub(SAMPLE_DURATION), self.now)
    }

    pub fn before(self, duration: u64) -> u64 {
        self.now.saturating_sub(duration)
    }

    pub fn minute(self, index: u64) -> u64 {
        self.before(SAMPLE_DURATION - MARGIN) + index * MINUTE
    }

    /// Returns the weight of a minute, interpolated between the values of the two nearest hours.
    pub fn weight(self, index: u64) -> u64 {
        let second_of_day = self.minute(index) / SECOND % 86_400;
        let (hour, within) = ((second_of_day / 3_600) as usize, second_of_day % 3_600);
        let at = |hour: usize| DAY_CURVE.get(hour % DAY_CURVE.len()).copied().unwrap_or(1);
        let usual = (at(hour) * (3_600 - within) + at(hour + 1) * within) / 36;
        let (from, to) = self.incident();
        if (from..to).contains(&self.minute(index)) { usual.max(INCIDENT_WEIGHT) } else { usual }
    }

    /// Returns the incident: forty minutes, about five hours ago, in which the provider of card payments does not respond.
    pub fn incident(self) -> (u64, u64) {
        (self.before(5 * HOUR + 20 * MINUTE), self.before(4 * HOUR + 40 * MINUTE))
    }

    /// Returns a time of the day in UTC, if a job of this duration that begins then is within the window; otherwise the time half
    /// a day ago.
    pub fn nightly(self, minute_of_day: u64, duration: u64) -> u64 {
        let midnight = self.now / (24 * HOUR) * (24 * HOUR);
        let today = midnight + minute_of_day * MINUTE;
        let fits =
            |at: u64| at >= self.before(SAMPLE_DURATION - MARGIN) && at + duration + MARGIN <= self.now;
        [today, today.saturating_sub(24 * HOUR)]
            .into_iter()
            .find(|at| fits(*at))
            .unwrap_or(self.before(12 * HOUR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIDNIGHT: u64 = 20_000 * 24 * HOUR;

    #[test]
    fn evenings_are_busier_than_nights() {
        let timeline = Timeline::new(MIDNIGHT);
        let at = |hour: u64| timeline.weight(hour * 60);
        assert!(at(19) > 8 * at(3), "{} {}", at(19), at(3));
    }

    #[test]
    fn the_last_minute_ends_before_now() {
        let timeline = Timeline::new(MIDNIGHT);
        assert!(timeline.minute(MINUTES) + MARGIN <= MIDNIGHT);
        assert!(timeline.minute(0) >= timeline.window().0);
    }

    #[test]
    fn nightly_jobs_lie_within_the_window_whenever_one_asks() {
        let duration = 95 * MINUTE;
        for quarter in 0..96 {
            let timeline = Timeline::new(MIDNIGHT + quarter * 15 * MINUTE);
            let (from, to) = timeline.window();
            let at = timeline.nightly(130, duration);
            assert!(at >= from && at + duration <= to, "{quarter}");
        }
    }
}
