//! Determines which fields have a value, and which tests imply it.

use std::collections::HashSet;

use tracewarden_model::{FieldRef, FieldSource, LogicalType, MarkedField};

use super::limits::MAX_DEPTH;
use crate::predicate::{Atom, Int, Predicate, Quantifier, Relation};

/// Whether the field has a value of its type wherever it is present.
pub(super) fn is_text_when_present(field: &MarkedField) -> bool {
    let may_be_null = field.source.is_map_key() && field.column_type.is_nullable();
    field.logical == LogicalType::String && field.source != FieldSource::JsonPath && !may_be_null
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
        Predicate::Not(_) => {
            if let Some((Atom::Flag(field), true)) = predicate.as_test() {
                fields.insert(&field.field);
            }
        }
        Predicate::Atom(atom) => match &***atom {
            Atom::Quantified {
                quantifier: Quantifier::Exists | Quantifier::ExistsOne, array, body, ..
            } => {
                fields.extend(array.fields().into_iter().map(|field| &field.field));
                fields.extend(implied(body, depth + 1));
            }
            atom if needs_values(atom) => fields.extend(atom.fields().into_iter().map(|field| &field.field)),
            _ => {}
        },
    }
    fields
}

/// Whether a reader assumes all fields of the test to have a value, if it holds.
fn needs_values(atom: &Atom) -> bool {
    match atom {
        Atom::CompareText(relation, ..) | Atom::CompareNumber(relation, ..) => *relation != Relation::Ne,
        Atom::TextIn(.., none) => !none,
        Atom::CompareInt(relation, _, Int::Literal(bound)) => at_least_one(*relation, *bound),
        Atom::TextCall(..)
        | Atom::TextCallAny(..)
        | Atom::Matches(..)
        | Atom::ArrayHas(..)
        | Atom::ArrayHasAny(..)
        | Atom::ArrayHasAll(..)
        | Atom::ArrayEq(..)
        | Atom::Flag(_) => true,
        _ => false,
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
