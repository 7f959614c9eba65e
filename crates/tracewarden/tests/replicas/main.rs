//! Several service processes on one PostgreSQL database, and what they do when one of them, or the database, goes away.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod audit_log;
mod chance;
mod effects;
mod fleet;
mod kill;
mod races;
