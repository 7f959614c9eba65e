//! Tests of the whole program, in one executable: linking it takes longer than most of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

#[path = "../end_to_end/mod.rs"]
mod end_to_end;
#[path = "../explanations/mod.rs"]
mod explanations;
#[path = "../identity/mod.rs"]
mod identity;
#[path = "../login_timing/mod.rs"]
mod login_timing;
#[path = "../mcp/mod.rs"]
mod mcp;
#[path = "../operations/mod.rs"]
mod operations;
#[path = "../policy/mod.rs"]
mod policy;
#[path = "../real_server/mod.rs"]
mod real_server;
#[path = "../replicas/mod.rs"]
mod replicas;
#[path = "../trace_tables/mod.rs"]
mod trace_tables;
#[path = "../trace_timing/mod.rs"]
mod trace_timing;
#[path = "../upgrade/mod.rs"]
mod upgrade;
