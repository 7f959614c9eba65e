//! Operation of the service: checks from the command line, metrics, logs, start and shutdown.

mod audit_verify;
mod check_config;
mod connections;
mod logs;
mod memory;
mod metrics;
mod shutdown;
mod sign_ins;
mod startup;
mod write_errors;
