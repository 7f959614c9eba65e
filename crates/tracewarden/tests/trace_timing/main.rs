//! Response times of "not found". This is a separate binary, so that no other test runs concurrently and disturbs the
//! measurement.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../replicas/random.rs"]
mod random;
#[path = "../support/mod.rs"]
mod support;

mod not_found;
