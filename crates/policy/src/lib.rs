//! Policies: compiles CEL text to a checked expression, and lowers it for a caller to a predicate over spans.
//!
//! A span satisfies a policy if its expression evaluates to `true`. Both `false` and an error mean that it does not,
//! but the difference matters under negation. So each expression is lowered to two ordinary two-valued predicates, "it
//! is true" and "it is false"; if it is an error, neither holds. See [`lower`](crate::lower).
//!
//! This crate is pure: no async, no I/O, no clock.

mod applied;
mod authorise;
mod caller_references;
mod check;
mod compiled;
mod condition;
mod description;
mod diagnostics;
mod evaluate;
mod expression;
#[cfg(test)]
mod fuzz;
mod lint;
mod lower;
mod parse;
mod pattern;
pub mod predicate;
pub mod suite;
mod syntax_errors;
mod syntax_tree;
#[cfg(feature = "testing")]
#[path = "../testing/mod.rs"]
pub mod testing;
mod tokens;

pub use applied::{AppliedPolicies, AppliedPolicy, apply};
pub use authorise::{
    AccessScope, BrokenPolicy, BrokenReason, KeyConstraint, PolicySource, RolePolicy, authorise,
};
pub use caller_references::{AttributeUse, RoleUse};
pub use check::{
    CheckedMapping, CheckedPolicy, MappedAccess, MappingError, UnmappedRule, check, check_mapping,
};
pub use compiled::{CompiledPolicies, PolicyCacheStats};
pub use condition::lower_condition;
pub use description::describe;
pub use diagnostics::{Diagnostic, ERRORS, WARNINGS};
pub use evaluate::{Decision, FieldValue, Outcome, ReadValue, Span, Verdict, evaluate, explain};
pub use lint::role_warnings;
pub use lower::fields::is_compatible_field;
pub use pattern::{Pattern, PatternError};
pub use predicate::Predicate;
pub use tokens::{MAX_BYTES, MAX_DEPTH, MAX_TOKENS};
