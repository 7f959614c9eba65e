//! Tests of the service without a network, in one executable: linking it takes longer than most of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[macro_use]
mod support;

mod access_model;
mod audit;
mod authority;
mod calls;
mod history;
mod identity;
mod password_forms;
mod preview;
mod throttle;
mod traces;
mod upkeep;
mod users;
mod versions;
