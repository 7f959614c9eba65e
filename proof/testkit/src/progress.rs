//! Progress output of long tests.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval of the output.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Prints the progress every ten seconds, with an estimate of the total time, for tests that run for hours. A shorter test prints
/// nothing.
#[derive(Debug)]
pub struct Progress {
    items: String,
    total: Option<u64>,
    started: Instant,
    last_report: Mutex<Instant>,
}

impl Progress {
    /// Creates a progress with a known total, of items such as `kills on SQLite`.
    pub fn of(total: impl TryInto<u64>, items: impl Into<String>) -> Self {
        Self { total: total.try_into().ok(), ..Self::endless(items) }
    }

    /// Creates a progress with an unknown total.
    pub fn endless(items: impl Into<String>) -> Self {
        let now = Instant::now();
        Self { items: items.into(), total: None, started: now, last_report: Mutex::new(now) }
    }

    /// Reports the number of completed items.
    pub fn at(&self, done: impl TryInto<u64>) {
        let mut last_report = self.last_report.lock().unwrap_or_else(PoisonError::into_inner);
        if last_report.elapsed() < REPORT_INTERVAL {
            return;
        }
        *last_report = Instant::now();
        println!("{}", self.line(done.try_into().unwrap_or_default(), self.started.elapsed()));
    }

    fn line(&self, done: u64, since: Duration) -> String {
        let (items, seconds) = (&self.items, since.as_secs_f64());
        match self.total {
            Some(total) if done > 0 => {
                let estimated_total = seconds * total as f64 / done as f64;
                format!("{done} of {total} {items}, {seconds:.0} s of some {estimated_total:.0} s")
            }
            Some(total) => format!("{done} of {total} {items}, {seconds:.0} s"),
            None => format!("{done} {items}, {seconds:.0} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_long_all_of_it_takes() {
        let kills = Progress::of(1_000, "kills");
        let seconds = Duration::from_secs;
        assert_eq!(kills.line(250, seconds(50)), "250 of 1000 kills, 50 s of some 200 s");
        assert_eq!(kills.line(0, seconds(50)), "0 of 1000 kills, 50 s");
        assert_eq!(Progress::endless("writes").line(3, seconds(12)), "3 writes, 12 s");
    }
}
