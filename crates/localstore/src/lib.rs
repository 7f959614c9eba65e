//! A ClickHouse engine in its own process that speaks ClickHouse's HTTP protocol, with an OTLP receiver.

mod engine;
mod entropy;
mod error;
mod execute;
#[cfg(test)]
mod fuzz;
pub mod http;
mod lexer;
pub mod options;
mod otlp;
mod running;
pub mod serve;
mod statement;
