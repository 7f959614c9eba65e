//! Tests of the local store, in one executable: linking it takes longer than most of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

mod lifecycle;
mod otlp;
mod protocol;
mod python_client;
mod rust_client;
mod settings;
mod stopping;
