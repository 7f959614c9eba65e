//! The HTTP API, tested against the compiled program. The modules follow the URLs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod access;
mod advice;
mod api_keys;
mod audit;
mod collateral_access;
mod command_line;
mod conformance;
mod cross_site;
mod ddl;
mod document;
mod errors;
mod every_operation;
mod explain;
mod explain_identity;
mod field_values;
mod filters;
mod header_table;
mod headers;
mod impact;
mod me;
mod model_command;
mod model_file;
mod orders;
mod policies;
mod preview;
mod query_parameters;
mod roles;
mod round_trips;
mod schema;
mod scoped_keys;
mod search_schema;
mod session;
mod slow_searches;
mod statement_counts;
mod stats;
mod streaming;
mod trace_ids;
mod traces;
mod users;
mod web;
