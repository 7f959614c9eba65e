//! Random predicates over two strings and an array, and their values on synthetic spans.
#![allow(dead_code, missing_docs)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use tracewarden_model::{FieldRef, LogicalType, MarkedField};
use tracewarden_policy::Predicate;
use tracewarden_policy::predicate::{Array, Atom, Int, Quantifier, Relation, Text, TextFunction};

use crate::support::field;

const VALUES: [&str; 5] = ["", "a", "b", "ab", "ba"];

/// Value of one field on one span. Strings need not be UTF-8.
#[derive(Debug, Clone, Default)]
pub struct FieldValues {
    pub present: bool,
    pub defined: bool,
    pub text: Vec<u8>,
    pub list: Vec<Vec<u8>>,
    pub flag: bool,
}

impl FieldValues {
    pub fn texts(present: bool, defined: bool, text: String, list: Vec<String>) -> Self {
        let list = list.into_iter().map(String::into_bytes).collect();
        Self { present, defined, text: text.into_bytes(), list, flag: false }
    }
}

pub type Spans = HashMap<String, FieldValues>;

type Elements = HashMap<u32, Vec<u8>>;

/// Returns one of the fields: two strings and an array.
pub fn marked(at: usize) -> Arc<MarkedField> {
    let key = |name| FieldRef::key("SpanAttributes", name);
    Arc::new(match at {
        0 => field(key("f"), LogicalType::String, "String"),
        1 => field(key("g"), LogicalType::String, "String"),
        _ => field(FieldRef::column("tags"), LogicalType::StringArray, "Array(String)"),
    })
}

fn text_of(text: &Text, span: &Spans, elements: &Elements) -> Vec<u8> {
    match text {
        Text::Literal(text) => text.clone().into_bytes(),
        Text::Field(field) => span[&field.field.name].text.clone(),
        Text::Element(variable) => elements[variable].clone(),
    }
}

fn list_of(array: &Array, span: &Spans, elements: &Elements) -> Vec<Vec<u8>> {
    match array {
        Array::Field(field) => span[&field.field.name].list.clone(),
        Array::List(values) => values.iter().map(|value| text_of(value, span, elements)).collect(),
    }
}

fn call(function: TextFunction, subject: &[u8], argument: &[u8]) -> bool {
    match function {
        TextFunction::StartsWith => subject.starts_with(argument),
        TextFunction::EndsWith => subject.ends_with(argument),
        TextFunction::Contains => {
            argument.is_empty() || subject.windows(argument.len()).any(|part| part == argument)
        }
    }
}

/// Evaluates a predicate as ClickHouse would, for the tests that policies use.
pub fn holds(predicate: &Predicate, span: &Spans, elements: &Elements) -> bool {
    let text = |text: &Text| text_of(text, span, elements);
    let list = |array: &Array| list_of(array, span, elements);
    match predicate {
        Predicate::True => true,
        Predicate::False => false,
        Predicate::And(junction) => junction.parts().iter().all(|part| holds(part, span, elements)),
        Predicate::Or(junction) => junction.parts().iter().any(|part| holds(part, span, elements)),
        Predicate::Not(junction) => !junction.parts().iter().all(|part| holds(part, span, elements)),
        Predicate::Atom(atom) => match &***atom {
            Atom::Present(field) => span[&field.field.name].present,
            Atom::Defined(field) => span[&field.field.name].defined,
            Atom::Flag(field) => span[&field.field.name].flag,
            Atom::Utf8(subject) => std::str::from_utf8(&text(subject)).is_ok(),
            Atom::CompareText(relation, left, right) => relation.holds(text(left).cmp(&text(right))),
            Atom::TextIn(needle, values, negated) => {
                let needle = text(needle);
                values.iter().any(|value| value.as_bytes() == needle) != *negated
            }
            Atom::TextCall(function, subject, argument) => call(*function, &text(subject), &text(argument)),
            Atom::TextCallAny(function, subject, values) => {
                let subject = text(subject);
                values.iter().any(|value| call(*function, &subject, value.as_bytes()))
            }
            Atom::Matches(subject, pattern) => {
                regex::bytes::Regex::new(&pattern.re2).unwrap().is_match(&text(subject))
            }
            Atom::ArrayHas(array, needle) => list(array).contains(&text(needle)),
            Atom::ArrayHasAny(array, values) => {
                values.iter().any(|value| list(array).iter().any(|stored| stored == value.as_bytes()))
            }
            Atom::ArrayHasAll(array, values) => {
                values.iter().all(|value| list(array).iter().any(|stored| stored == value.as_bytes()))
            }
            Atom::ArrayEq(left, right) => list(left) == list(right),
            Atom::CompareInt(relation, left, right) => {
                let int = |int: &Int| match int {
                    Int::Literal(value) => *value,
                    Int::TextSize(subject) => String::from_utf8_lossy(&text(subject)).chars().count() as i64,
                    Int::ArraySize(array) => list(array).len() as i64,
                };
                relation.holds(int(left).cmp(&int(right)))
            }
            Atom::Quantified { quantifier, array, variable, body } => {
                let satisfying = list(array)
                    .into_iter()
                    .map(|element| {
                        let mut elements = elements.clone();
                        elements.insert(*variable, element);
                        holds(body, span, &elements)
                    })
                    .collect::<Vec<bool>>();
                let count = satisfying.iter().filter(|holds| **holds).count();
                match quantifier {
                    Quantifier::Exists => count > 0,
                    Quantifier::All => count == satisfying.len(),
                    Quantifier::ExistsOne => count == 1,
                }
            }
            Atom::ExactlyOne(parts) => parts.iter().filter(|part| holds(part, span, elements)).count() == 1,
            Atom::CompareNumber(..) => panic!("policies compare no numbers"),
        },
    }
}

pub fn value() -> impl Strategy<Value = String> {
    prop::sample::select(VALUES.to_vec()).prop_map(str::to_owned)
}

fn values() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(value(), 0..4)
}

fn text(element: Option<u32>) -> impl Strategy<Value = Text> {
    let field = (0..2_usize).prop_map(|at| Text::Field(marked(at)));
    match element {
        Some(variable) => {
            prop_oneof![1 => field, 3 => Just(Text::Element(variable)), 1 => value().prop_map(Text::Literal)]
                .boxed()
        }
        None => prop_oneof![8 => field, 1 => value().prop_map(Text::Literal)].boxed(),
    }
}

fn relation() -> impl Strategy<Value = Relation> {
    use Relation::{Eq, Ge, Gt, Le, Lt, Ne};
    prop::sample::select(vec![Eq, Eq, Eq, Ne, Ne, Lt, Le, Gt, Ge])
}

fn function() -> impl Strategy<Value = TextFunction> {
    prop::sample::select(vec![TextFunction::StartsWith, TextFunction::EndsWith, TextFunction::Contains])
}

pub fn atom(element: Option<u32>) -> impl Strategy<Value = Predicate> {
    let tags = || Array::Field(marked(2));
    let literal = || value().prop_map(Text::Literal);
    prop_oneof![
        2 => (0..3_usize).prop_map(|at| Atom::Present(marked(at))),
        3 => (0..3_usize).prop_map(|at| Atom::Defined(marked(at))),
        6 => (relation(), text(element), literal()).prop_map(|(relation, left, right)| Atom::CompareText(relation, left, right)),
        1 => (relation(), literal(), text(element)).prop_map(|(relation, left, right)| Atom::CompareText(relation, left, right)),
        1 => (relation(), text(element), text(element)).prop_map(|(relation, left, right)| Atom::CompareText(relation, left, right)),
        3 => (text(element), values(), any::<bool>()).prop_map(|(text, values, negated)| Atom::TextIn(text, values, negated)),
        4 => (function(), text(element), literal()).prop_map(|(function, left, right)| Atom::TextCall(function, left, right)),
        1 => (function(), text(element), values()).prop_map(|(function, text, values)| Atom::TextCallAny(function, text, values)),
        3 => literal().prop_map(move |needle| Atom::ArrayHas(tags(), needle)),
        1 => text(element).prop_map(move |needle| Atom::ArrayHas(tags(), needle)),
        2 => values().prop_map(move |values| Atom::ArrayHasAny(tags(), values)),
        2 => values().prop_map(move |values| Atom::ArrayHasAll(tags(), values)),
        1 => (relation(), 0..3_i64).prop_map(move |(relation, size)| Atom::CompareInt(relation, Int::ArraySize(tags()), Int::Literal(size))),
        1 => (relation(), 0..3_i64, 0..3_i64).prop_map(|(relation, left, right)| Atom::CompareInt(relation, Int::Literal(left), Int::Literal(right))),
    ]
    .prop_map(Predicate::atom)
}

pub fn junctions(leaf: BoxedStrategy<Predicate>, depth: u32) -> BoxedStrategy<Predicate> {
    leaf.prop_recursive(depth, 40, 6, |inner| {
        prop_oneof![
            4 => prop::collection::vec(inner.clone(), 1..6).prop_map(Predicate::all),
            4 => prop::collection::vec(inner.clone(), 1..6).prop_map(Predicate::any),
            1 => prop::collection::vec(inner.clone(), 0..5).prop_map(Predicate::exactly_one),
            2 => inner.prop_map(Predicate::negate),
        ]
    })
    .boxed()
}

pub fn predicate() -> BoxedStrategy<Predicate> {
    let quantifier = prop::sample::select(vec![Quantifier::Exists, Quantifier::All, Quantifier::ExistsOne]);
    let quantified = (quantifier, 1..3_u32).prop_flat_map(|(quantifier, variable)| {
        junctions(atom(Some(variable)).boxed(), 2).prop_map(move |body| {
            let array = Array::Field(marked(2));
            Predicate::atom(Atom::Quantified { quantifier, array, variable, body })
        })
    });
    let constant = any::<bool>().prop_map(Predicate::constant);
    junctions(prop_oneof![12 => atom(None), 3 => quantified, 1 => constant].boxed(), 4)
}

pub fn spans() -> impl Strategy<Value = Vec<Spans>> {
    let stored = |name: &'static str| {
        (0..3_u32, value(), values()).prop_map(move |(state, text, list)| {
            (name.to_owned(), FieldValues::texts(state > 0, state > 1, text, list))
        })
    };
    let span = (stored("f"), stored("g"), stored("tags")).prop_map(|(f, g, tags)| Spans::from([f, g, tags]));
    prop::collection::vec(span, 30).no_shrink()
}
