//! Short constructors of predicates over two strings and an array.
#![allow(dead_code, missing_docs)]

use std::sync::Arc;

use tracewarden_model::{FieldRef, LogicalType};
use tracewarden_policy::Predicate;
use tracewarden_policy::predicate::{Array, Atom, Quantifier, Relation, Text, TextFunction};

use super::field;
use super::predicates::marked;

/// Returns a test that does not merge with any other.
pub fn flag(name: &str) -> Predicate {
    let field = field(FieldRef::key("SpanAttributes", name), LogicalType::Boolean, "String");
    Predicate::atom(Atom::Flag(Arc::new(field)))
}

pub fn flags<const N: usize>(names: [&str; N]) -> [Predicate; N] {
    names.map(flag)
}

pub fn text(at: usize) -> Text {
    Text::Field(marked(at))
}

pub fn literal(value: &str) -> Text {
    Text::Literal(value.to_owned())
}

pub fn owned(values: &[&str]) -> Vec<String> {
    values.iter().map(|&value| value.to_owned()).collect()
}

pub fn compared(relation: Relation, left: Text, right: Text) -> Predicate {
    Predicate::atom(Atom::CompareText(relation, left, right))
}

pub fn is(value: &str) -> Predicate {
    compared(Relation::Eq, text(0), literal(value))
}

pub fn is_not(value: &str) -> Predicate {
    compared(Relation::Ne, text(0), literal(value))
}

pub fn other_is(value: &str) -> Predicate {
    compared(Relation::Eq, text(1), literal(value))
}

pub fn one_of(values: &[&str]) -> Predicate {
    Predicate::atom(Atom::TextIn(text(0), owned(values), false))
}

pub fn none_of(values: &[&str]) -> Predicate {
    Predicate::atom(Atom::TextIn(text(0), owned(values), true))
}

pub fn call(function: TextFunction, value: &str) -> Predicate {
    Predicate::atom(Atom::TextCall(function, text(0), literal(value)))
}

pub fn starts(value: &str) -> Predicate {
    call(TextFunction::StartsWith, value)
}

pub fn starts_any(values: &[&str]) -> Predicate {
    Predicate::atom(Atom::TextCallAny(TextFunction::StartsWith, text(0), owned(values)))
}

pub fn tags() -> Array {
    Array::Field(marked(2))
}

pub fn has(value: &str) -> Predicate {
    Predicate::atom(Atom::ArrayHas(tags(), literal(value)))
}

pub fn has_any(values: &[&str]) -> Predicate {
    Predicate::atom(Atom::ArrayHasAny(tags(), owned(values)))
}

pub fn has_all(values: &[&str]) -> Predicate {
    Predicate::atom(Atom::ArrayHasAll(tags(), owned(values)))
}

pub fn present(at: usize) -> Predicate {
    Predicate::atom(Atom::Present(marked(at)))
}

pub fn defined(at: usize) -> Predicate {
    Predicate::atom(Atom::Defined(marked(at)))
}

pub fn quantified(quantifier: Quantifier, variable: u32, body: Predicate) -> Predicate {
    Predicate::atom(Atom::Quantified { quantifier, array: tags(), variable, body })
}

pub fn exists(body: Predicate) -> Predicate {
    quantified(Quantifier::Exists, 1, body)
}

pub fn every(body: Predicate) -> Predicate {
    quantified(Quantifier::All, 1, body)
}

pub fn exactly_one_element(body: Predicate) -> Predicate {
    quantified(Quantifier::ExistsOne, 1, body)
}

/// Returns a test of an element for which arrays have no test of their own.
pub fn element(function: TextFunction, value: &str) -> Predicate {
    Predicate::atom(Atom::TextCall(function, Text::Element(1), literal(value)))
}

pub fn not(predicate: Predicate) -> Predicate {
    predicate.negate()
}

pub fn all<const N: usize>(parts: [Predicate; N]) -> Predicate {
    Predicate::all(parts)
}

pub fn any<const N: usize>(parts: [Predicate; N]) -> Predicate {
    Predicate::any(parts)
}

pub fn one<const N: usize>(parts: [Predicate; N]) -> Predicate {
    Predicate::exactly_one(parts)
}
