//! Conditions that are true everywhere, or nowhere.

use crate::diagnostics::Diagnostic;
use crate::expression::{Kind, Known, Node};
use crate::lint::absent::parts;
use crate::lint::normal_form::{Effort, Sides, sides};
use tracewarden_model::FieldSource;

const NEVER: &str = "this is never true";

/// What is always the same.
pub(super) fn constants(text: &str, root: &Node, whole: Option<&Sides>, effort: &Effort) -> Vec<Diagnostic> {
    let tell = |node: &Node, message: &str, hint: &str| {
        vec![Diagnostic::new(text, node.span, "constant", message).with_hint(hint)]
    };
    const NARROW: &str = "name what the role may see, for instance `ServiceName == \"…\"`";
    if let Kind::Known(Known::Bool(value)) = &root.kind {
        return match value {
            true => tell(root, "this policy opens every trace", NARROW),
            false => tell(root, "this policy opens nothing", "leave the policy out"),
        };
    }
    let mut found = Vec::new();
    part(text, root, effort, &mut found);
    let never = whole.is_some_and(|sides| sides.is_true.is_never());
    let nowhere = found.iter_mut().find(|warning| warning.message == NEVER);
    if let (Some(first), true) = (nowhere, never) {
        first.message.push_str(", and the policy opens nothing");
    }
    if found.is_empty() && root.fields().is_empty() {
        let message = "this policy does not look at the span: it opens every trace or none";
        return tell(root, message, "join it with a condition on the span by `&&`");
    }
    found
}

/// Tells of the smallest conditions that are always the same.
fn part(text: &str, node: &Node, effort: &Effort, found: &mut Vec<Diagnostic>) {
    let before = found.len();
    let children = match &node.kind {
        Kind::And(..) => parts(node, true),
        Kind::Or(..) => parts(node, false),
        _ => node.children(),
    };
    for child in children {
        part(text, child, effort, found);
    }
    let told = found.len() > before;
    let is_condition = matches!(
        node.kind,
        Kind::And(..) | Kind::Or(..) | Kind::Compare(..) | Kind::In(..) | Kind::Conditional(..)
    );
    // What only depends on the caller is a switch, and a part of it may well be one.
    if told || !is_condition || node.fields().is_empty() {
        return;
    }
    let Some(sides) = sides(node, effort) else { return };
    let tell =
        |message: &str, hint: &str| Diagnostic::new(text, node.span, "constant", message).with_hint(hint);
    if sides.is_true.is_never() {
        let hint = match &node.kind {
            Kind::And(..) => {
                "these conditions exclude each other: join alternatives with `||`, or list them with `in`"
            }
            Kind::In(..) => "nothing is in an empty list",
            _ => "leave it out, or correct what it compares",
        };
        found.push(tell(NEVER, hint));
    } else if sides.is_false.is_never() {
        let message = match may_err(node) {
            false => "this is always true",
            true => "this is true wherever the fields that it names have a value",
        };
        let hint = match &node.kind {
            Kind::Or(..) => "one of these conditions always holds: leave them out, or join them with `&&`",
            _ => "leave it out, or correct what it compares",
        };
        found.push(tell(message, hint));
    }
}

/// Whether there may be spans or callers for which a condition is an error.
fn may_err(node: &Node) -> bool {
    node.walk().into_iter().any(|node| match &node.kind {
        Kind::Field(field) => field.source != FieldSource::Column || field.column_type.is_nullable(),
        Kind::Attribute(_) | Kind::Variable(_) | Kind::Size(_) | Kind::Matches(..) => true,
        Kind::Compare(relation, ..) => {
            !matches!(relation, crate::predicate::Relation::Eq | crate::predicate::Relation::Ne)
        }
        _ => false,
    })
}
