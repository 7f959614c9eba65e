//! When to kill what takes a while and counts at one moment of it.

use std::time::Duration;

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

/// Half of the kills are anywhere in the time until the commit, as far as that is known; the others look for the moment of
/// the commit: later when the last of them was before it, earlier when it was after, and more so each time that it is on the same
/// side, since the machine may have been busier when the commit was timed.
pub struct Aim {
    commit: Duration,
    aimed: bool,
    step: f64,
    was_committed: Option<bool>,
}

/// The smallest part of the time by which it is moved, and the largest.
const STEPS: [f64; 2] = [0.06, 0.5];

impl Aim {
    /// At a commit that comes about so late.
    pub fn at(commit: Duration) -> Self {
        Self { commit, aimed: false, step: STEPS[0], was_committed: None }
    }

    pub fn next(&mut self, chance: &mut ChaCha8Rng) -> Duration {
        self.aimed = !self.aimed;
        if self.aimed {
            self.commit + Duration::from_micros(chance.random_range(0..5_000))
        } else {
            self.commit.mul_f64(chance.random_range(0.0..1.2))
        }
    }

    pub fn learn(&mut self, committed: bool) {
        if self.aimed {
            let same_side = self.was_committed.replace(committed) == Some(committed);
            self.step = if same_side { (self.step * 1.5).min(STEPS[1]) } else { STEPS[0] };
            self.commit = self.commit.mul_f64(if committed { 1.0 - self.step } else { 1.0 + self.step });
        }
    }
}
