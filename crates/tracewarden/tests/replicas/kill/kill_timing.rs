//! Chooses when to kill an operation that takes a while and takes effect at one moment, its commit.

use std::time::Duration;

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

/// Half of the kills are at a random time before the estimated commit. The others search for the time of the commit: later
/// if the last one was before it, earlier if it was after. The step grows while the last kills were on the same side, since
/// the machine may have been busier when the commit was timed.
pub struct KillTiming {
    commit: Duration,
    near_commit: bool,
    step: f64,
    was_committed: Option<bool>,
}

/// Minimum and maximum step, relative to the time.
const STEPS: [f64; 2] = [0.06, 0.5];

impl KillTiming {
    /// Starts with a commit at about this time.
    pub fn at(commit: Duration) -> Self {
        Self { commit, near_commit: false, step: STEPS[0], was_committed: None }
    }

    pub fn next(&mut self, random: &mut ChaCha8Rng) -> Duration {
        self.near_commit = !self.near_commit;
        if self.near_commit {
            self.commit + Duration::from_micros(random.random_range(0..5_000))
        } else {
            self.commit.mul_f64(random.random_range(0.0..1.2))
        }
    }

    pub fn update_estimate(&mut self, committed: bool) {
        if self.near_commit {
            let same_side = self.was_committed.replace(committed) == Some(committed);
            self.step = if same_side { (self.step * 1.5).min(STEPS[1]) } else { STEPS[0] };
            self.commit = self.commit.mul_f64(if committed { 1.0 - self.step } else { 1.0 + self.step });
        }
    }
}
