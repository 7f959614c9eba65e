//! Warnings about the policies of one role that depend on each other.

use crate::check::CheckedPolicy;
use crate::diagnostics::Diagnostic;
use crate::lint::normal_form::{AnalysisBudget, NormalForms, normal_forms};
use crate::syntax_errors::escape_invisible;

/// Returns the warnings for the policies of one role, given with their titles. For each policy: its own warnings, and
/// those that depend on the other policies, for example that another policy makes it unnecessary.
pub fn role_warnings(policies: &[(&str, &CheckedPolicy)]) -> Vec<Vec<Diagnostic>> {
    let budget = AnalysisBudget::new();
    let normal_forms: Vec<Option<NormalForms>> =
        policies.iter().map(|(_, checked)| normal_forms(&checked.root, &budget)).collect();
    let mut warnings = Vec::with_capacity(policies.len());
    for (at, (_, checked)) in policies.iter().enumerate() {
        let mut found = checked.warnings().to_vec();
        found.extend(unnecessary(policies, &normal_forms, at, &budget));
        found.sort_by_key(|warning| (warning.line, warning.column));
        warnings.push(found);
    }
    warnings
}

/// Warns if another policy of the role matches every span that this policy matches.
fn unnecessary(
    policies: &[(&str, &CheckedPolicy)],
    normal_forms: &[Option<NormalForms>],
    at: usize,
    budget: &AnalysisBudget,
) -> Option<Diagnostic> {
    let (_, checked) = policies.get(at)?;
    let implies = |first: usize, second: usize| {
        let first = normal_forms.get(first).and_then(Option::as_ref);
        let second = normal_forms.get(second).and_then(Option::as_ref);
        first.zip(second).is_some_and(|(first, second)| first.is_true.implies(&second.is_true, budget))
    };
    // A policy that matches no span has warnings of its own.
    if normal_forms.get(at)?.as_ref()?.is_true.is_never() {
        return None;
    }
    let warning = |code, message| Diagnostic::new(&checked.text, checked.root.span, code, message);
    for (other, (title, _)) in policies.iter().enumerate() {
        if other == at || !implies(at, other) {
            continue;
        }
        let title = escape_invisible(title);
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
