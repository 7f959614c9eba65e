//! DDL that makes searches cheaper.

mod ddl;

pub use ddl::{DdlAdvice, DdlKind, DdlState, DdlSuggestion, ExistingAddition, Reads};
