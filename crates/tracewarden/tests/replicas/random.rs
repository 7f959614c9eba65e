//! Reproducible randomness: the seed is printed, and can be set with `TRACEWARDEN_TEST_SEED`.

use std::hash::{BuildHasher as _, RandomState};
use tracewarden_testkit::repetitions;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

/// Returns the seed of this run.
pub fn seed() -> u64 {
    // The standard library seeds its hash maps from the system's randomness.
    let seed = repetitions::seed(RandomState::new().hash_one(0));
    println!("seed {seed}: to repeat it, set TRACEWARDEN_TEST_SEED");
    seed
}

/// Returns a separate random source for each of several tasks.
pub fn source(seed: u64, number: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed.wrapping_add(number))
}
