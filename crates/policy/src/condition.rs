//! Lowers filter conditions to the same predicates as policies, so that operators mean the same in both. Only the "is
//! true" predicate is needed, because filters have no negation.

use std::sync::Arc;

use tracewarden_model::{Condition, Decimal, Test};

use crate::lower::fields::{defined, present};
use crate::pattern::Pattern;
use crate::predicate::{Array, Atom, Predicate, Relation, Text, TextFunction};

/// Returns the predicate that a span must satisfy to match the condition.
pub fn lower_condition(condition: &Condition) -> Predicate {
    let field = Arc::new(condition.field.clone());
    let text = Text::Field(Arc::clone(&field));
    let array = Array::Field(Arc::clone(&field));
    let literal = |value: &String| Text::Literal(value.clone());
    let compare =
        |relation, number: &Decimal| Atom::CompareNumber(relation, Arc::clone(&field), number.clone());
    let test = match &condition.test {
        Test::Exists => return present(&field),
        Test::NotExists => return present(&field).negate(),
        Test::StringEq(value) => Atom::CompareText(Relation::Eq, text, literal(value)),
        Test::StringNe(value) => Atom::CompareText(Relation::Ne, text, literal(value)),
        Test::StringIn(values) => Atom::TextIn(text, values.clone(), false),
        Test::StringNotIn(values) => Atom::TextIn(text, values.clone(), true),
        Test::Prefix(value) => Atom::TextCall(TextFunction::StartsWith, text, literal(value)),
        Test::Contains(value) => match Pattern::parse(&without_case(value)) {
            Ok(pattern) => Atom::Matches(text, Arc::new(pattern)),
            // Too long for a pattern.
            Err(_) => return defined(&field),
        },
        Test::Has(value) => Atom::ArrayHas(array, literal(value)),
        Test::HasAny(values) => Atom::ArrayHasAny(array, values.clone()),
        Test::HasAll(values) => Atom::ArrayHasAll(array, values.clone()),
        Test::BoolEq(true) | Test::BoolNe(false) => Atom::Flag(Arc::clone(&field)),
        Test::BoolEq(false) | Test::BoolNe(true) => {
            let flag = Predicate::atom(Atom::Flag(Arc::clone(&field)));
            return defined(&field).and(flag.negate());
        }
        Test::Compare(relation, value) => compare(*relation, value),
        Test::Between(low, high) => {
            let range = [compare(Relation::Ge, low), compare(Relation::Le, high)];
            return defined(&field).and(Predicate::all(range.map(Predicate::atom)));
        }
    };
    defined(&field).and(Predicate::atom(test))
}

/// Returns a pattern for a text, ignoring the case of ASCII letters.
fn without_case(text: &str) -> String {
    let of_character = |character: char| match character.is_ascii_alphabetic() {
        true => format!("[{}{}]", character.to_ascii_lowercase(), character.to_ascii_uppercase()),
        false => regex_syntax::escape(character.encode_utf8(&mut [0; 4])),
    };
    text.chars().map(of_character).collect()
}
