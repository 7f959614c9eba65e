//! The official Python client, unchanged.

// Applies to test helpers, too.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use support::{Store, run_python};

#[test]
fn the_official_python_client_works() {
    let store = Store::start_with(&["--user", "reader", "--password", "secret"]);
    let output = run_python("clickhouse_connect_suite.py", &[&store.url(), "reader", "secret"]);
    println!("{output}");
}
