//! Warnings about policies that are valid but probably not intended.
//!
//! A warning is only given if it is certainly correct: users stop reading advice that was wrong once.

mod absent;
mod canonical;
mod constant;
mod facts;
mod normal_form;
mod patterns;

use crate::check::Checked;
use crate::diagnostics::Diagnostic;
use normal_form::{Effort, Sides, sides};

/// Returns the warnings for the policies of one role, given with their titles. For each policy: its own warnings, and
/// those that depend on the other policies, for example that another policy makes it unnecessary.
pub fn role_warnings(policies: &[(&str, &Checked)]) -> Vec<Vec<Diagnostic>> {
    let effort = Effort::new();
    let sides: Vec<Option<Sides>> =
        policies.iter().map(|(_, checked)| sides(&checked.root, &effort)).collect();
    let mut warnings = Vec::with_capacity(policies.len());
    for (at, (_, checked)) in policies.iter().enumerate() {
        let mut found = checked.warnings().to_vec();
        found.extend(unnecessary(policies, &sides, at, &effort));
        found.sort_by_key(|warning| (warning.line, warning.column));
        warnings.push(found);
    }
    warnings
}

/// Warns if another policy of the role matches every span that this policy matches.
fn unnecessary(
    policies: &[(&str, &Checked)],
    sides: &[Option<Sides>],
    at: usize,
    effort: &Effort,
) -> Option<Diagnostic> {
    let (_, checked) = policies.get(at)?;
    let implies = |first: usize, second: usize| {
        let first = sides.get(first).and_then(Option::as_ref);
        let second = sides.get(second).and_then(Option::as_ref);
        first.zip(second).is_some_and(|(first, second)| first.is_true.implies(&second.is_true, effort))
    };
    // A policy that matches no span has warnings of its own.
    if sides.get(at)?.as_ref()?.is_true.is_never() {
        return None;
    }
    let warning = |code, message| Diagnostic::new(&checked.text, checked.root.span, code, message);
    for (other, (title, _)) in policies.iter().enumerate() {
        if other == at || !implies(at, other) {
            continue;
        }
        let title = crate::syntax_errors::visible(title);
        if !implies(other, at) {
            let message = format!("`{title}` grants access to every trace that this policy grants");
            return Some(
                warning("shadowed", message).with_hint("leave this policy out, or narrow the other one"),
            );
        }
        // Of several equivalent policies the first stays without a warning.
        if other < at {
            let message = format!("this policy is equivalent to `{title}`");
            return Some(warning("repeated", message).with_hint("leave one of them out"));
        }
    }
    None
}

/// Returns all warnings for one policy.
pub(crate) fn warnings(checked: &Checked) -> Vec<Diagnostic> {
    let (text, root) = (&*checked.text, &checked.root);
    let effort = Effort::new();
    let whole = sides(root, &effort);
    let mut found = constant::constants(text, root, whole.as_ref(), &effort);
    found.extend(absent::negations(text, root, &effort));
    found.extend(patterns::slow_patterns(text, root));
    found.sort_by_key(|warning| (warning.line, warning.column));
    found
}
