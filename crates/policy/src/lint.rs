//! Warnings about policies that are valid but probably not intended.
//!
//! A warning is only given if it is certainly correct: users stop reading advice that was wrong once.

mod canonical;
mod constant;
mod facts;
mod negations;
mod normal_form;
mod patterns;
mod role;

use crate::diagnostics::Diagnostic;
use crate::expression::Node;
use normal_form::{AnalysisBudget, normal_forms};
pub use role::role_warnings;

/// Returns all warnings for one policy, given with its text and the checked expression.
pub(crate) fn warnings(text: &str, root: &Node) -> Vec<Diagnostic> {
    let budget = AnalysisBudget::new();
    let whole = normal_forms(root, &budget);
    let mut found = constant::constants(text, root, whole.as_ref(), &budget);
    found.extend(negations::negations(text, root, &budget));
    found.extend(patterns::slow_patterns(text, root));
    found.sort_by_key(|warning| (warning.line, warning.column));
    found
}
