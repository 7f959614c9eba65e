//! Writes expressions as canonical text, which is equal for equivalent expressions: without positions, variable names
//! and quoting style.

use std::mem::discriminant;

use crate::expression::{Kind, Node};
use crate::predicate::Relation;

pub(super) fn canonical(node: &Node) -> String {
    canonical_within(&mut Vec::new(), node)
}

/// `bound` are the variables of the macros around the expression.
fn canonical_within(bound: &mut Vec<u32>, node: &Node) -> String {
    let mut children = node.children();
    let label = match &node.kind {
        Kind::Constant(known) => format!("{known:?}"),
        Kind::Attribute(name) => format!("attribute {name:?}"),
        Kind::HasAttribute(name) => format!("has attribute {name:?}"),
        Kind::Field(field) => format!("field {}", field.field),
        Kind::HasKey(field) => format!("has {}", field.field),
        // Variables are numbered from the innermost macro, regardless of their names.
        Kind::Variable(variable) => {
            format!("variable {:?}", bound.iter().rev().position(|known| known == variable).ok_or(variable))
        }
        // `a > b` is `b < a`.
        Kind::Compare(relation @ (Relation::Gt | Relation::Ge), ..) => {
            children.reverse();
            format!("{:?}", relation.swapped())
        }
        Kind::Compare(relation, ..) => format!("{relation:?}"),
        Kind::TextCall(function, ..) => format!("{function:?}"),
        Kind::Matches(_, pattern) => format!("matches {:?}", pattern.re2),
        Kind::Macro { quantifier, variable, .. } => {
            bound.push(*variable);
            format!("{quantifier:?}")
        }
        other => format!("{:?}", discriminant(other)),
    };
    let mut parts: Vec<String> = children.into_iter().map(|child| canonical_within(bound, child)).collect();
    match &node.kind {
        Kind::Macro { .. } => drop(bound.pop()),
        // Equality is symmetric.
        Kind::Compare(Relation::Eq | Relation::Ne, ..) => parts.sort(),
        _ => {}
    }
    format!("{label}({})", parts.join(","))
}
