//! A ClickHouse engine in its own process that speaks ClickHouse's HTTP protocol, with an OTLP receiver.

pub mod engine;
pub mod entropy;
pub mod error;
pub mod execute;
#[cfg(test)]
mod fuzz;
pub mod http;
pub mod lexer;
pub mod options;
pub mod otlp;
pub mod running;
pub mod serve;
pub mod statement;
