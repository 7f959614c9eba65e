//! Operation of the service: checks from the command line, metrics, logs, start and shutdown.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod audit_verify;
mod check_config;
mod connections;
mod logs;
mod memory;
mod metrics;
mod shutdown;
mod sign_ins;
mod startup;
mod write_errors;
