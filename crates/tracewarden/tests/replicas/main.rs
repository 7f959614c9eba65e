//! Several service processes on one PostgreSQL database, and failures of a process or of the database.
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
mod audit_writes;
mod effects;
mod first_start;
mod fleet;
mod kill;
mod lost_commits;
mod outage;
mod races;
mod random;
mod retention;
