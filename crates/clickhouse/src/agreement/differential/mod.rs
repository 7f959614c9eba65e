//! Compares lowered policies with other evaluations of the same text, on the real engine.
//!
//! [`pairs`] compares random policies on random spans with the reference evaluation, and checks that every operation was seen
//! on every kind of field. [`mutated_rules`] checks that this comparison finds every mistake that lowering could have.
//! [`cel_python`] compares the reference with an independent implementation. [`hostile_spans`] searches for rows on which a
//! statement raises an error. [`authorisation_laws`] combines several policies, [`long_lists`] tests lists that are looked up in sets,
//! [`patterns`] compares how both engines evaluate a pattern, and [`descriptions`] tests descriptions of policies. [`past_disagreements`]
//! are the past disagreements.

mod authorisation_laws;
mod cel_python;
mod coverage;
mod descriptions;
mod generated_model;
mod hostile_spans;
mod long_lists;
mod lowered_policy;
mod mutated_rules;
mod pairs;
mod past_disagreements;
mod patterns;
mod store;

use tracewarden_testkit::repetitions;

pub(crate) use lowered_policy::{LoweredPolicy, Verdict, evaluate_both};
pub(crate) use store::{connect, connect_at, execute, hex_literal, load, with_key_columns};

/// Returns the seed of random tests.
pub(crate) fn seed() -> u64 {
    repetitions::seed(20_261_121)
}
