//! Tests that compare what ClickHouse returns with direct evaluations of the definitions.

mod cancellation;
mod differential;
mod distributed;
mod exact_numbers;
mod exhaustive;
pub(crate) mod filter_reference;
mod golden;
mod index_use;
mod randomized_tests;
mod real_server;
mod trace_tables;

pub(crate) use cancellation::{binding, unrestricted_scope, wait_until_running};
pub(crate) use differential::{connect, connect_at, execute, seed};
pub(crate) use index_use::granules;
