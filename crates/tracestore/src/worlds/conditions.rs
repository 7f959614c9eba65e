//! Conditions that may be in a filter, and what they say about a span.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use tracewarden_model::{AccessModel, Condition, LogicalType, MarkedField, Number, Operator, Test};
use tracewarden_policy::FieldValue;
use tracewarden_testkit::policies::texts;

use super::{NOON, SECOND, StoredSpan};
use crate::filter_reference;

pub(super) fn some_text(random: &mut ChaCha8Rng) -> String {
    let all: Vec<&str> = texts().collect();
    (*all.choose(random).unwrap()).to_owned()
}

pub(super) fn some_number(random: &mut ChaCha8Rng) -> Number {
    match random.random_range(0..6) {
        0 => Number::Float(2.5),
        1 => Number::UInt(u64::MAX),
        2 => Number::Int(NOON / SECOND),
        3 => Number::Int(*[9_007_199_254_740_992, 9_007_199_254_740_993].choose(random).unwrap()),
        _ => Number::Int(random.random_range(-5..12)),
    }
}

pub(super) fn some_condition(random: &mut ChaCha8Rng, model: &AccessModel) -> Condition {
    let field = model.fields.choose(random).unwrap().clone();
    let operator = *field.logical.operators().choose(random).unwrap();
    let text = some_text(random);
    let several: Vec<String> = (0..random.random_range(1..4)).map(|_| some_text(random)).collect();
    let test = match (field.logical, operator) {
        (_, Operator::Exists) => Test::Exists,
        (_, Operator::NotExists) => Test::NotExists,
        (_, Operator::In) => Test::StringIn(several),
        (_, Operator::NotIn) => Test::StringNotIn(several),
        (_, Operator::Prefix) => Test::Prefix(text),
        (_, Operator::Has) => Test::Has(text),
        (_, Operator::HasAny) => Test::HasAny(several),
        (_, Operator::HasAll) => Test::HasAll(several),
        (_, Operator::Between) => Test::Between(some_number(random), some_number(random)),
        (LogicalType::Boolean, Operator::Eq) => Test::BoolEq(random.random_bool(0.5)),
        (LogicalType::Boolean, _) => Test::BoolNe(random.random_bool(0.5)),
        (LogicalType::Number, operator) => Test::Compare(operator, some_number(random)),
        (_, Operator::Ne) => Test::StringNe(text),
        _ => Test::StringEq(text),
    };
    Condition { field, test }
}

/// The value of a field, NULL for none.
pub(super) fn raw(span: &StoredSpan, field: &MarkedField) -> FieldValue {
    let value = match (field.field.to_string().as_str(), &field.field.map) {
        ("Duration", _) => return FieldValue::Number(Number::UInt(span.duration)),
        ("Timestamp", _) => return FieldValue::Number(Number::Float(span.at as f64 / 1e9)),
        (name, None) => span.values.get(name),
        (_, Some(map)) => span.values.get(map).and_then(|map| map.under(field.field.name.as_bytes())),
    };
    value.cloned().unwrap_or(FieldValue::Null)
}

pub(super) fn matches(span: &StoredSpan, condition: &Condition) -> bool {
    filter_reference::matches(&raw(span, &condition.field), condition)
}
