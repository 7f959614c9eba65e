//! Compares lowered policies with other evaluations of the same text, on the real engine.
//!
//! [`pairs`] compares random policies on random spans with the reference evaluation, and checks that every operation was seen
//! on every kind of field. [`altered`] checks that this comparison finds every mistake that lowering could have.
//! [`cel_python`] compares the reference with an independent implementation. [`hostile_spans`] searches for rows on which a
//! statement raises an error. [`laws`] combines several policies, [`long_lists`] tests lists that are looked up in sets,
//! [`patterns`] compares how both engines evaluate a pattern, and [`words`] tests descriptions of policies. [`kept_cases`]
//! are the past disagreements.

mod altered;
mod asked;
mod cel_python;
mod coverage;
mod hostile_spans;
mod kept_cases;
mod laws;
mod long_lists;
mod pairs;
mod patterns;
mod store;
mod words;

use std::str::FromStr;

pub(crate) use asked::{Asked, Verdict, by_both};
pub(crate) use store::{connect, connect_at, execute, hex_literal, load, through_columns};

/// Returns a number that the environment can set, such as a seed.
pub(crate) fn setting<T: FromStr>(name: &str, otherwise: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Returns the seed of random tests.
pub(crate) fn seed() -> u64 {
    setting("TRACEWARDEN_TEST_SEED", 20_261_121)
}
