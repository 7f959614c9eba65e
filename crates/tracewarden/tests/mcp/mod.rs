//! The MCP interface over HTTP, tested against the compiled program: with hand-written requests where the wire format
//! matters, otherwise with the official clients.

mod answers;
mod audit;
pub mod clients;
mod durations;
mod errors;
mod exact_numbers;
mod explain_access;
mod fields;
mod filters;
mod http;
mod incidents;
mod large_traces;
pub mod randomized_tests;
mod replicas;
mod reported_omissions;
pub mod rpc;
mod scoped_keys;
mod sdks;
mod span_identity;
mod spans;
mod token_count;
mod trace_ids;
mod without_database;
