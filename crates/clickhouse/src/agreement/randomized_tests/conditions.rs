//! Random filter conditions.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use tracewarden_model::{AccessModel, Condition, Decimal, LogicalType, MarkedField, Number, Operator, Test};
use tracewarden_policy::FieldValue;
use tracewarden_testkit::policies::texts;

use super::{NOON, SECOND, StoredSpan};
use crate::agreement::filter_reference;

pub(super) fn random_text(random: &mut ChaCha8Rng) -> String {
    let all: Vec<&str> = texts().collect();
    (*all.choose(random).unwrap()).to_owned()
}

pub(super) fn random_number(random: &mut ChaCha8Rng) -> Decimal {
    let digits = match random.random_range(0..8) {
        0 => "2.5".to_owned(),
        1 => u64::MAX.to_string(),
        2 => (NOON / SECOND).to_string(),
        3 => (*[9_007_199_254_740_992_i64, 9_007_199_254_740_993].choose(random).unwrap()).to_string(),
        4 => format!("{}.{:09}", NOON / SECOND, random.random_range(0..3)),
        5 => format!("{}.0000000005", random.random_range(-5..12)),
        _ => random.random_range(-5..12).to_string(),
    };
    Decimal::parse(&digits).unwrap()
}

pub(super) fn random_condition(random: &mut ChaCha8Rng, model: &AccessModel) -> Condition {
    let field = model.fields.choose(random).unwrap().clone();
    let operator = *field.logical.operators().choose(random).unwrap();
    let text = random_text(random);
    let several: Vec<String> = (0..random.random_range(1..4)).map(|_| random_text(random)).collect();
    let test = match (field.logical, operator) {
        (_, Operator::Exists) => Test::Exists,
        (_, Operator::NotExists) => Test::NotExists,
        (_, Operator::In) => Test::StringIn(several),
        (_, Operator::NotIn) => Test::StringNotIn(several),
        (_, Operator::Prefix) => Test::Prefix(text),
        (_, Operator::Has) => Test::Has(text),
        (_, Operator::HasAny) => Test::HasAny(several),
        (_, Operator::HasAll) => Test::HasAll(several),
        (_, Operator::Between) => Test::Between(random_number(random), random_number(random)),
        (LogicalType::Boolean, Operator::Eq) => Test::BoolEq(random.random_bool(0.5)),
        (LogicalType::Boolean, _) => Test::BoolNe(random.random_bool(0.5)),
        (LogicalType::Number, operator) => Test::Compare(operator, random_number(random)),
        (_, Operator::Ne) => Test::StringNe(text),
        _ => Test::StringEq(text),
    };
    Condition { field, test }
}

/// Returns the value of a field, if any.
pub(super) fn field_value(span: &StoredSpan, field: &MarkedField) -> Option<FieldValue> {
    match (field.field.to_string().as_str(), &field.field.map) {
        ("Duration", _) => Some(FieldValue::Number(Number::UInt(span.duration))),
        ("Timestamp", _) => Some(FieldValue::Number(Number::Decimal(Decimal::from(span.at).shifted(-9)))),
        (name, None) => span.values.get(name).cloned(),
        (_, Some(map)) => {
            span.values.get(map).and_then(|map| map.value_of_key(field.field.name.as_bytes())).cloned()
        }
    }
}

pub(super) fn matches(span: &StoredSpan, condition: &Condition) -> bool {
    filter_reference::matches(field_value(span, &condition.field).as_ref(), condition)
}
