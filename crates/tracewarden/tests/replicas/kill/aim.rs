//! When to kill what takes a while and counts at one moment of it.

use std::time::Duration;

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

/// Half of the kills are anywhere in the time until the commit, as far as that is known; the others look for the moment of
/// the commit: later when the last of them was before it, earlier when it was after.
pub struct Aim {
    commit: Duration,
    aimed: bool,
}

impl Aim {
    /// At a commit that comes about so late.
    pub fn at(commit: Duration) -> Self {
        Self { commit, aimed: false }
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
            self.commit = self.commit.mul_f64(if committed { 0.94 } else { 1.06 });
        }
    }
}
