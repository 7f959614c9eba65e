//! Warns about conditions that are always true, or never.

use crate::diagnostics::Diagnostic;
use crate::expression::{Constant, Kind, Node, Type};
use crate::lint::normal_form::{AnalysisBudget, NormalForms, may_err, normal_forms};
use crate::predicate::Relation;

const ALWAYS: &str = "this is always true";
const NEVER: &str = "this is never true";

pub(super) fn constants(
    text: &str,
    root: &Node,
    whole: Option<&NormalForms>,
    budget: &AnalysisBudget,
) -> Vec<Diagnostic> {
    const NARROW: &str = "select what the role may see, for instance `ServiceName == \"…\"`";
    if let Kind::Constant(Constant::Bool(value)) = &root.kind {
        return match value {
            true => vec![warning(text, root, "this policy grants access to every trace", NARROW)],
            false => {
                vec![warning(text, root, "this policy grants access to no trace", "leave the policy out")]
            }
        };
    }
    let mut found = Vec::new();
    check_node(text, root, budget, &mut found);
    let consequence = match whole {
        Some(normal_forms) if normal_forms.is_true.is_never() => "no trace",
        Some(normal_forms) if normal_forms.is_false.is_never() && !may_err(root) => "every trace",
        _ if found.is_empty() && root.fields().is_empty() => {
            let message = "this policy does not use the span: it grants access to every trace or to none";
            return vec![warning(text, root, message, "join it with a condition on the span by `&&`")];
        }
        _ => return found,
    };
    // Append the consequence to the warning about its cause.
    let at = found.iter().position(|warning| (warning.message == NEVER) == (consequence == "no trace"));
    if let Some(warning) = found.get_mut(at.unwrap_or(0)) {
        warning.message.push_str(", and the policy grants access to ");
        warning.message.push_str(consequence);
    }
    found
}

fn warning(text: &str, node: &Node, message: &str, hint: &str) -> Diagnostic {
    Diagnostic::new(text, node.span, "constant", message).with_hint(hint)
}

/// Warns about the smallest conditions with a constant result.
fn check_node(text: &str, node: &Node, budget: &AnalysisBudget, found: &mut Vec<Diagnostic>) {
    let before = found.len();
    let children = match &node.kind {
        Kind::And(..) | Kind::Or(..) => node.chain(),
        _ => node.children(),
    };
    for child in &children {
        match &child.kind {
            Kind::Constant(Constant::Bool(value)) if matches!(node.kind, Kind::And(..) | Kind::Or(..)) => {
                found.push(warning(text, child, if *value { ALWAYS } else { NEVER }, "leave it out"));
            }
            _ => check_node(text, child, budget, found),
        }
    }
    let has_findings = found.len() > before;
    let is_condition = matches!(
        node.kind,
        Kind::And(..)
            | Kind::Or(..)
            | Kind::Compare(..)
            | Kind::In(..)
            | Kind::TextCall(..)
            | Kind::Matches(..)
            | Kind::HasKey(_)
            | Kind::Macro { .. }
            | Kind::Conditional(..)
    );
    if has_findings || !is_condition || node.ty != Type::Bool {
        return;
    }
    let Some(normal_forms) = normal_forms(node, budget) else { return };
    if normal_forms.is_true.is_never() {
        found.push(warning(text, node, NEVER, never_hint(node, &children, budget)));
    } else if normal_forms.is_false.is_never() {
        let message = if may_err(node) { "this is true wherever its fields have a value" } else { ALWAYS };
        let hint = match &node.kind {
            Kind::Or(..) => {
                let joined = NormalForms::joined(&children, true, budget);
                let other = joined.is_some_and(|joined| !joined.is_true.is_never());
                match other {
                    true => "one of these conditions always holds: leave them out, or join them with `&&`",
                    false => "one of these conditions always holds: leave them out",
                }
            }
            Kind::TextCall(..) | Kind::Matches(..) => {
                "every string matches: give the text to look for, or leave the condition out"
            }
            Kind::Compare(Relation::Eq, ..) => "compare with a value that the role may see, or leave it out",
            _ => "leave it out, or correct the comparison",
        };
        found.push(warning(text, node, message, hint));
    }
}

fn never_hint(node: &Node, children: &[&Node], budget: &AnalysisBudget) -> &'static str {
    let is_equality = |node: &Node| matches!(node.kind, Kind::Compare(Relation::Eq, ..) | Kind::In(..));
    match &node.kind {
        Kind::And(..) => {
            let joined = NormalForms::joined(children, false, budget);
            let other = joined.is_some_and(|joined| !joined.is_false.is_never());
            match (other, children.iter().all(|child| is_equality(child))) {
                (true, true) => {
                    "these conditions exclude each other: join alternatives with `||`, or list them with `in`"
                }
                (true, false) => "these conditions exclude each other: join alternatives with `||`",
                (false, _) => "these conditions exclude each other: leave one of them out",
            }
        }
        Kind::In(_, haystack) if matches!(&haystack.kind, Kind::List(elements) if elements.is_empty()) => {
            "nothing is in an empty list"
        }
        _ => "leave it out, or correct the comparison",
    }
}
