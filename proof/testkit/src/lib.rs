//! Generators, sample traces, real servers, and proxies for fault injection. For development only.

pub mod chaos_proxy;
pub mod clickhouse;
pub mod commit_proxy;
pub mod incidents;
pub mod local_store;
pub mod memory;
pub mod node;
#[cfg(feature = "policies")]
pub mod policies;
mod ports;
pub mod postgres;
pub mod progress;
pub mod python;
pub mod repetitions;
mod supervised_process;
#[cfg(feature = "trace-tables")]
pub mod trace_tables;
#[cfg(feature = "wait")]
pub mod wait;
pub mod write_errors;
