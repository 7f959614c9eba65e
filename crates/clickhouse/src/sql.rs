//! Statements and their parameters, and the SQL of predicates.

mod predicates;
mod statement;

pub use predicates::display_sql;
pub(crate) use predicates::{render, score, string, strings};
pub(crate) use statement::{
    MAX_FIELD_BYTES, Statement, pieces, quote, quote_literal, quote_path, quote_table,
};
