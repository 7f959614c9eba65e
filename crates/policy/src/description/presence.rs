//! Determines which fields have a value, and which tests imply it.

use std::collections::HashSet;
use std::sync::Arc;

use tracewarden_model::{FieldRef, FieldSource, LogicalType, MarkedField};

use super::limits::MAX_DEPTH;
use crate::lower::fields::defined;
use crate::predicate::{Array, Atom, Int, Predicate, Quantifier, Relation, Text};

/// Whether the field has a value of its type wherever it is present.
pub(super) fn is_text_when_present(field: &MarkedField) -> bool {
    let may_be_null = field.source == FieldSource::MapKey && field.column_type.is_nullable();
    field.logical == LogicalType::String && field.source != FieldSource::JsonPath && !may_be_null
}

/// Whether the field has a value on every span.
pub(super) fn always_has_value(field: &Arc<MarkedField>) -> bool {
    matches!(defined(field), Predicate::True)
}

/// Returns the fields that a reader of the description assumes to have a value, if the predicate holds.
pub(super) fn implied(predicate: &Predicate, depth: usize) -> HashSet<&FieldRef> {
    let mut fields = HashSet::new();
    match predicate {
        // Deeper parts are not described.
        _ if depth > MAX_DEPTH => {}
        Predicate::True | Predicate::False => {}
        Predicate::And(junction) => {
            for part in junction.parts() {
                fields.extend(implied(part, depth + 1));
            }
        }
        Predicate::Or(junction) => {
            let mut parts = junction.parts().iter();
            fields = parts.next().map(|first| implied(first, depth + 1)).unwrap_or_default();
            for part in parts {
                if fields.is_empty() {
                    break;
                }
                let others = implied(part, depth + 1);
                fields.retain(|field| others.contains(field));
            }
        }
        Predicate::Not(junction) => {
            if let [Predicate::Atom(atom)] = junction.parts()
                && let Atom::Flag(field) = &***atom
            {
                fields.insert(&field.field);
            }
        }
        Predicate::Atom(atom) => implied_by_atom(atom, depth, &mut fields),
    }
    fields
}

fn implied_by_atom<'a>(atom: &'a Atom, depth: usize, fields: &mut HashSet<&'a FieldRef>) {
    match atom {
        Atom::CompareText(relation, left, right) if *relation != Relation::Ne => {
            fields.extend(text(left));
            fields.extend(text(right));
        }
        Atom::TextIn(needle, _, false) => fields.extend(text(needle)),
        Atom::TextCall(_, left, right) => {
            fields.extend(text(left));
            fields.extend(text(right));
        }
        Atom::TextCallAny(_, subject, _) | Atom::Matches(subject, _) => fields.extend(text(subject)),
        Atom::ArrayHas(array, needle) => {
            fields.extend(elements(array));
            fields.extend(text(needle));
        }
        Atom::ArrayHasAny(array, _) | Atom::ArrayHasAll(array, _) => fields.extend(elements(array)),
        Atom::ArrayEq(left, right) => {
            fields.extend(elements(left));
            fields.extend(elements(right));
        }
        Atom::CompareInt(relation, int, Int::Literal(bound)) if at_least_one(*relation, *bound) => {
            match int {
                Int::Literal(_) => {}
                Int::TextSize(subject) => fields.extend(text(subject)),
                Int::ArraySize(array) => fields.extend(elements(array)),
            }
        }
        Atom::Flag(field) => {
            fields.insert(&field.field);
        }
        Atom::CompareNumber(relation, field, _) if *relation != Relation::Ne => {
            fields.insert(&field.field);
        }
        Atom::Quantified { quantifier: Quantifier::Exists | Quantifier::ExistsOne, array, body, .. } => {
            fields.extend(elements(array));
            fields.extend(implied(body, depth + 1));
        }
        _ => {}
    }
}

/// Whether the comparison requires at least one element or character.
fn at_least_one(relation: Relation, bound: i64) -> bool {
    match relation {
        Relation::Eq | Relation::Ge => bound >= 1,
        Relation::Gt => bound >= 0,
        Relation::Ne | Relation::Lt | Relation::Le => false,
    }
}

fn text(text: &Text) -> Option<&FieldRef> {
    match text {
        Text::Field(field) => Some(&field.field),
        Text::Literal(_) | Text::Element(_) => None,
    }
}

fn elements(array: &Array) -> Vec<&FieldRef> {
    match array {
        Array::Field(field) => vec![&field.field],
        Array::List(values) => values.iter().filter_map(text).collect(),
    }
}

/// Returns all fields that the predicates refer to.
pub(super) fn fields_of<'a>(predicates: impl Iterator<Item = &'a Predicate>) -> HashSet<FieldRef> {
    let mut fields = HashSet::new();
    for predicate in predicates {
        predicate.for_each_field(&mut |field| {
            if !fields.contains(&field.field) {
                fields.insert(field.field.clone());
            }
        });
    }
    fields
}
