//! The random choices of the sample, all from one seed.
//!
//! Floating-point code uses the four basic operations only, which give the same bits on every machine. The mathematical functions
//! of a platform's library do not.

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::span::{SpanId, TraceId};

pub(super) const MILLISECOND: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000 * MILLISECOND;
pub(super) const MINUTE: u64 = 60 * SECOND;
pub(super) const HOUR: u64 = 60 * MINUTE;

/// A seeded random generator.
pub(super) struct SampleRng(ChaCha8Rng);

impl SampleRng {
    pub fn seeded(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Creates an independent generator for a named part of the sample, so that changes elsewhere do not change that part.
    pub fn named(seed: u64, name: &str) -> Self {
        // FNV-1a is sufficient to distinguish the few names.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self::seeded(seed.rotate_left(17) ^ hash)
    }

    /// Generates a trace id. The W3C recommendation forbids ids that consist of zeros only.
    pub fn trace_id(&mut self) -> TraceId {
        let mut bytes = [0; 16];
        while bytes == [0; 16] {
            self.0.fill_bytes(&mut bytes);
        }
        TraceId(bytes)
    }

    pub fn span_id(&mut self) -> SpanId {
        let mut bytes = [0; 8];
        while bytes == [0; 8] {
            self.0.fill_bytes(&mut bytes);
        }
        SpanId(bytes)
    }

    /// Returns a number from `from` up to, but not including, `to`; `from` when the range is empty.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        if from < to { self.0.random_range(from..to) } else { from }
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.between(0, n) == 0
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.between(0, 100) < percent
    }

    pub fn one_of<T: Copy>(&mut self, first: T, others: &[T]) -> T {
        let index = self.between(0, others.len() as u64 + 1) as usize;
        index.checked_sub(1).and_then(|index| others.get(index).copied()).unwrap_or(first)
    }

    /// Returns a latency in nanoseconds around a median, with a long tail: one in twenty takes several times as long, one in five
    /// hundred ten times and more.
    pub fn latency(&mut self, median_micros: u64) -> u64 {
        let spread = self.between(600, 1_500);
        let tail = match self.between(0, 500) {
            0 => self.between(10_000, 25_000),
            1..25 => self.between(2_000, 5_000),
            _ => 1_000,
        };
        median_micros * spread * tail / 1_000
    }

    /// Returns a random index by cumulative weights.
    pub fn weighted(&mut self, cumulative: &[u64]) -> usize {
        let total = cumulative.last().copied().unwrap_or(1);
        let drawn = self.between(0, total);
        cumulative.partition_point(|weight| *weight <= drawn)
    }
}

/// Returns the running totals for [`SampleRng::weighted`].
pub(super) fn cumulative(weights: impl Iterator<Item = u64>) -> Vec<u64> {
    weights
        .scan(0, |total, weight| {
            *total += weight;
            Some(*total)
        })
        .collect()
}
