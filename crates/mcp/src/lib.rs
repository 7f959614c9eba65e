//! Traces for coding agents: the use cases of the service as tools of the Model Context Protocol, over Streamable
//! HTTP.
//!
//! Invariants:
//! - No state is kept between requests, so any replica can answer any call.
//! - A tool reads through the same use cases as the REST API, with the caller's own access. There is no tool for raw
//!   SQL or for administration.
//! - No response takes more tokens than its `max_tokens`. It states what it leaves out, and the call that returns it.
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

pub use interface::{InterfaceConfig, interface};
