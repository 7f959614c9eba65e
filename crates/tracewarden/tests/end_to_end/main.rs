//! The whole path from instrumented programs to the users who read their spans, and failures on it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod broken_policies;
mod changed_columns;
mod client_disconnects;
mod column_types;
mod cuts;
mod exceptions;
mod failing_store;
mod faults;
mod hostile_names;
mod instrumented_program;
mod key_columns;
mod large_pages;
mod many_values;
mod marking;
mod other_tables;
mod test_requests;
mod two_stores;
