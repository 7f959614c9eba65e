//! When answers leave that say "not found". A binary of its own, so that nothing else runs beside it: it measures time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../replicas/chance.rs"]
mod chance;
#[path = "../support/mod.rs"]
mod support;

mod not_found;
