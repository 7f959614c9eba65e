//! Progress output of long tests.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval of the output.
const EVERY: Duration = Duration::from_secs(10);

/// Prints the progress every ten seconds, with an estimate of the total time, for tests that run for hours. A shorter test prints
/// nothing.
#[derive(Debug)]
pub struct Progress {
    what: String,
    all: Option<u64>,
    begun: Instant,
    told: Mutex<Instant>,
}

impl Progress {
    /// Creates a progress with a known total, of items such as `kills on SQLite`.
    pub fn of(all: impl TryInto<u64>, what: impl Into<String>) -> Self {
        Self { all: all.try_into().ok(), ..Self::endless(what) }
    }

    /// Creates a progress with an unknown total.
    pub fn endless(what: impl Into<String>) -> Self {
        let now = Instant::now();
        Self { what: what.into(), all: None, begun: now, told: Mutex::new(now) }
    }

    /// Reports the number of completed items.
    pub fn at(&self, done: impl TryInto<u64>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.elapsed() < EVERY {
            return;
        }
        *told = Instant::now();
        println!("{}", self.line(done.try_into().unwrap_or_default(), self.begun.elapsed()));
    }

    fn line(&self, done: u64, since: Duration) -> String {
        let (what, seconds) = (&self.what, since.as_secs_f64());
        match self.all {
            Some(all) if done > 0 => {
                let in_all = seconds * all as f64 / done as f64;
                format!("{done} of {all} {what}, {seconds:.0} s of some {in_all:.0} s")
            }
            Some(all) => format!("{done} of {all} {what}, {seconds:.0} s"),
            None => format!("{done} {what}, {seconds:.0} s"),
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
