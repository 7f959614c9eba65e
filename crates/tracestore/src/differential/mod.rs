//! The lowering of policies against other evaluations of the same text, on the real engine.
//!
//! [`pairs`] compares random policies on random spans with the reference evaluation, and shows that every operation was
//! seen on every kind of field. [`altered`] shows that this comparison finds each mistake that lowering could have.
//! [`cel_python`] compares the reference with an implementation that shares nothing with it. [`hostile_spans`] looks for
//! rows on which a statement raises. [`laws`] is about several policies at once, [`long_lists`] is about lists that are
//! looked up in sets, [`patterns`] about what both engines make of a pattern, [`words`] about how policies are said.
//! [`kept_cases`] are the disagreements of the past.

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

/// A number that the environment can set, such as a seed.
pub(crate) fn setting<T: FromStr>(name: &str, otherwise: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// The seed of random tests.
pub(crate) fn seed() -> u64 {
    setting("TRACEWARDEN_TEST_SEED", 20_261_121)
}
