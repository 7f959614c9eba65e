//! Tracing for coding agents: the use cases of the service as tools of the Model Context Protocol, over Streamable HTTP.
//!
//! Invariants:
//! - Nothing is kept between requests, so that any replica answers any call.
//! - A tool reads by the same use cases as the REST API, with the caller's own access; there is none for raw SQL and none
//!   that administers.
//! - No answer takes more tokens than its `max_tokens`; what it leaves out it says, with the call that gives it.
//! - Text from spans is data: fenced in text, and never able to end its line.

mod answer;
mod arguments;
mod bounded_json;
mod catalogue;
mod client_name;
mod coercion;
mod digits;
mod failure;
#[cfg(test)]
mod fuzz;
mod instructions;
mod interface;
mod numbers;
mod request_id;
mod schemas;
mod server;
mod span_text;
mod tokens;
mod tools;
mod trace;
mod window;

pub use interface::{Interface, interface};
