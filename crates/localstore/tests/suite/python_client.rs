//! The official Python client, unchanged.

use crate::support::{Store, run_python};

#[test]
fn the_official_python_client_works() {
    let store = Store::start_with(&["--user", "reader", "--password", "secret"]);
    let output = run_python("clickhouse_connect_suite.py", &[&store.url(), "reader", "secret"]);
    println!("{output}");
}
