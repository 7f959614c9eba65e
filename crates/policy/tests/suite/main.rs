//! Tests of the language, in one executable: linking it takes longer than most of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

mod cel_crate;
mod decisions;
mod descriptions;
mod diagnostics;
mod documentation;
mod evaluation_cost;
mod hostile;
mod lint;
mod long_lists;
mod lowering;
mod policy_cache;
mod semantics;
mod simplified_forms;
mod simplify;
