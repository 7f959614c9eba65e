//! Warnings: policies that are valid and probably not what was meant.

use crate::check::Checked;
use crate::diagnostics::Diagnostic;
use crate::expression::{Kind, Known, Node};
use crate::predicate::Relation;

/// Advice on the policies of one role, given with their titles: for each its own warnings, and those that only show
/// beside the others, such as that another one makes it unnecessary.
pub fn role_warnings(policies: &[(&str, &Checked)]) -> Vec<Vec<Diagnostic>> {
    policies.iter().map(|(_, checked)| checked.warnings().to_vec()).collect()
}

/// Everything worth a second look in one policy.
pub(crate) fn warnings(checked: &Checked) -> Vec<Diagnostic> {
    let (text, root) = (&*checked.text, &checked.root);
    let mut found = Vec::new();
    negated_keys(text, root, false, &mut found);
    constant(text, root, &mut found);
    found.sort_by_key(|warning| (warning.line, warning.column));
    found
}

/// A negation over a key that may be absent: on a span without the key it is an error, so the span does not match.
fn negated_keys(text: &str, node: &Node, negated: bool, found: &mut Vec<Diagnostic>) {
    let negated_here = match &node.kind {
        Kind::Not(_) => !negated,
        Kind::Compare(Relation::Ne, ..) => true,
        _ => negated,
    };
    if let Kind::Field(field) = &node.kind
        && negated
        && let Some(map) = &field.field.map
    {
        let key = tracewarden_model::field::escape(&field.field.name);
        let message = format!("spans without `{}` do not match this negation", field.field);
        found.push(
            Diagnostic::new(text, node.span, "negated_absent_key", message)
                .with_hint(format!("if they should, write `!(\"{key}\" in {map}) || …`")),
        );
    }
    for child in node.children() {
        negated_keys(text, child, negated_here, found);
    }
}

fn constant(text: &str, root: &Node, found: &mut Vec<Diagnostic>) {
    if let Kind::Known(Known::Bool(value)) = &root.kind {
        let message = if *value { "this policy opens every trace" } else { "this policy opens nothing" };
        found.push(Diagnostic::new(text, root.span, "constant", message));
    } else if root.fields().is_empty() {
        let message = "this policy does not look at the span: it opens every trace or none";
        found.push(Diagnostic::new(text, root.span, "constant", message));
    }
}
