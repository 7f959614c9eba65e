//! Lowers filter conditions to the same predicates as policies, so that operators mean the same in both. Only the "is
//! true" predicate is needed, because filters have no negation.

use std::sync::Arc;

use tracewarden_model::{Condition, Decimal, Operator, Test};

use crate::lower::fields::{defined, present};
use crate::predicate::{Array, Atom, Predicate, Relation, Text, TextFunction};

/// Returns the predicate that a span must satisfy to match the condition.
pub fn lower_condition(condition: &Condition) -> Predicate {
    let field = Arc::new(condition.field.clone());
    let text = || Text::Field(Arc::clone(&field));
    let array = || Array::Field(Arc::clone(&field));
    let number = |relation, number: &Decimal| {
        Predicate::atom(Atom::CompareNumber(relation, Arc::clone(&field), number.clone()))
    };
    let test = match &condition.test {
        Test::Exists => return present(&field),
        Test::NotExists => return present(&field).negate(),
        Test::StringEq(value) => {
            Predicate::atom(Atom::CompareText(Relation::Eq, text(), Text::Literal(value.clone())))
        }
        Test::StringNe(value) => {
            Predicate::atom(Atom::CompareText(Relation::Ne, text(), Text::Literal(value.clone())))
        }
        Test::StringIn(values) => Predicate::atom(Atom::TextIn(text(), values.clone(), false)),
        Test::StringNotIn(values) => Predicate::atom(Atom::TextIn(text(), values.clone(), true)),
        Test::Prefix(value) => {
            Predicate::atom(Atom::TextCall(TextFunction::StartsWith, text(), Text::Literal(value.clone())))
        }
        Test::Has(value) => Predicate::atom(Atom::ArrayHas(array(), Text::Literal(value.clone()))),
        Test::HasAny(values) => Predicate::atom(Atom::ArrayHasAny(array(), values.clone())),
        Test::HasAll(values) => Predicate::atom(Atom::ArrayHasAll(array(), values.clone())),
        Test::BoolEq(value) | Test::BoolNe(value) => {
            let wanted = *value == matches!(condition.test, Test::BoolEq(_));
            let flag = Predicate::atom(Atom::Flag(Arc::clone(&field)));
            if wanted { flag } else { flag.negate() }
        }
        Test::Compare(operator, value) => number(relation(*operator), value),
        Test::Between(low, high) => number(Relation::Ge, low).and(number(Relation::Le, high)),
    };
    defined(&field).and(test)
}

fn relation(operator: Operator) -> Relation {
    match operator {
        Operator::Ne => Relation::Ne,
        Operator::Gt => Relation::Gt,
        Operator::Gte => Relation::Ge,
        Operator::Lt => Relation::Lt,
        Operator::Lte => Relation::Le,
        _ => Relation::Eq,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_map_to_relations() {
        for (operator, expected) in [
            (Operator::Eq, Relation::Eq),
            (Operator::Ne, Relation::Ne),
            (Operator::Gt, Relation::Gt),
            (Operator::Gte, Relation::Ge),
            (Operator::Lt, Relation::Lt),
            (Operator::Lte, Relation::Le),
        ] {
            assert_eq!(relation(operator), expected);
        }
    }
}
