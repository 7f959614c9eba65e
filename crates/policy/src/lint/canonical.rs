//! Writes expressions as canonical text, which is equal for equivalent expressions: without positions, variable names
//! and quoting style.

use std::fmt::Write;

use crate::expression::{Constant, Kind, Node};
use crate::predicate::Relation;

/// Returns the canonical text of an expression.
pub(super) fn canonical(node: &Node) -> String {
    let mut written = String::new();
    write_node(node, &mut Vec::new(), &mut written);
    written
}

fn write_node(node: &Node, bound: &mut Vec<u32>, out: &mut String) {
    let mut call = |name: &str, arguments: &[&Node], bound: &mut Vec<u32>| {
        out.push_str(name);
        out.push('(');
        for argument in arguments {
            write_node(argument, bound, out);
            out.push(',');
        }
        out.push(')');
    };
    match &node.kind {
        Kind::List(elements) => call("list", &elements.iter().collect::<Vec<_>>(), bound),
        Kind::Not(inner) => call("!", &[inner], bound),
        Kind::And(left, right) => call("&&", &[left, right], bound),
        Kind::Or(left, right) => call("||", &[left, right], bound),
        Kind::Conditional(condition, yes, no) => call("?", &[condition, yes, no], bound),
        // Equality is symmetric, and `a > b` is `b < a`.
        Kind::Compare(relation @ (Relation::Eq | Relation::Ne), left, right) => {
            let mut sides = [left, right].map(|side| {
                let mut written = String::new();
                write_node(side, bound, &mut written);
                written
            });
            sides.sort();
            let name = if *relation == Relation::Eq { "==" } else { "!=" };
            let _ = write!(out, "{name}({},{},)", sides[0], sides[1]);
        }
        Kind::Compare(Relation::Lt, left, right) | Kind::Compare(Relation::Gt, right, left) => {
            call("<", &[left, right], bound);
        }
        Kind::Compare(_, left, right) if matches!(node.kind, Kind::Compare(Relation::Le, ..)) => {
            call("<=", &[left, right], bound);
        }
        Kind::Compare(_, left, right) => call("<=", &[right, left], bound),
        Kind::In(needle, haystack) => call("in", &[needle, haystack], bound),
        Kind::TextCall(function, subject, argument) => {
            call(&format!("{function:?}"), &[subject, argument], bound);
        }
        Kind::Matches(subject, pattern) => {
            call(&format!("matches {:?}", pattern.re2), &[subject], bound);
        }
        Kind::Size(inner) => call("size", &[inner], bound),
        Kind::Macro { quantifier, range, variable, body } => {
            call(&format!("{quantifier:?}"), &[range], bound);
            bound.push(*variable);
            write_node(body, bound, out);
            bound.pop();
            out.push(';');
        }
        // Variables are numbered from the innermost macro, regardless of their names.
        Kind::Variable(variable) => {
            let _ = match bound.iter().rev().position(|known| known == variable) {
                Some(depth) => write!(out, "variable {depth}"),
                None => write!(out, "variable of outside {variable}"),
            };
        }
        Kind::Constant(known) => write_known(known, out),
        Kind::Username => out.push_str("user.username"),
        Kind::Roles => out.push_str("user.roles"),
        Kind::Attribute(name) => {
            let _ = write!(out, "attribute {name:?}");
        }
        Kind::HasAttribute(name) => {
            let _ = write!(out, "has attribute {name:?}");
        }
        Kind::Field(field) => {
            let _ = write!(out, "field {}", field.field);
        }
        Kind::HasKey(field) => {
            let _ = write!(out, "has {}", field.field);
        }
    }
}

fn write_known(known: &Constant, out: &mut String) {
    let _ = match known {
        Constant::Bool(value) => write!(out, "{value}"),
        Constant::Text(text) => write!(out, "{text:?}"),
        Constant::Int(value) => write!(out, "{value}"),
        Constant::List(elements) => {
            out.push('[');
            for element in elements.iter() {
                write_known(element, out);
                out.push(',');
            }
            out.push(']');
            Ok(())
        }
    };
}
