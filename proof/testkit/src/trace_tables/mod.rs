//! Layouts of trace tables that products write into ClickHouse, one fixture each: its DDL, generated spans as rows, the
//! binding that discovery must propose, and questions with the traces that they select.
//!
//! The expected traces are evaluated here, over the generated spans, without any statement or code of the product.

mod fixture;
mod fixtures;
mod generator;
mod questions;
pub mod real_writers;
mod row;
mod span;
#[cfg(test)]
mod tests;

pub use fixture::{Bound, Fixture, Notation, Outcome, RejectedMark, Rejection, statements};
pub use fixtures::all;
pub use generator::{BASE, DurationType, Generated, Shape, Versions, generate};
pub use questions::{Condition, Expression, Field, Questions, Window, selected};
pub use row::JsonRow;
pub use span::{Kind, Row, Span, Value};

/// Number of nanoseconds in a second.
pub const SECOND: i64 = 1_000_000_000;

/// Name of the cluster of the distributed tables: one shard, which is the server itself.
pub const CLUSTER: &str = "one_node";

/// Attribute of the users that ask: the tenants whose traces they may read.
pub const TENANTS: [&str; 2] = ["acme", "globex"];
