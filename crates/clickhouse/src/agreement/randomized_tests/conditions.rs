//! Random filter conditions.

use std::convert::Infallible;
use std::ops::Range;

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use tracewarden_model::{
    AccessModel, Condition, Decimal, Filter, LogicalType, MarkedField, Number, OperandSource, Operator, Test,
};
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

/// Random operands.
struct RandomOperands<'a>(&'a mut ChaCha8Rng);

impl OperandSource for RandomOperands<'_> {
    type Error = Infallible;

    fn none(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn string(&mut self) -> Result<String, Infallible> {
        Ok(random_text(self.0))
    }

    fn boolean(&mut self) -> Result<bool, Infallible> {
        Ok(self.0.random_bool(0.5))
    }

    fn number(&mut self) -> Result<Decimal, Infallible> {
        Ok(random_number(self.0))
    }

    fn strings(&mut self) -> Result<Vec<String>, Infallible> {
        Ok((0..self.0.random_range(1..4)).map(|_| random_text(self.0)).collect())
    }

    fn range(&mut self) -> Result<(Decimal, Decimal), Infallible> {
        Ok((random_number(self.0), random_number(self.0)))
    }
}

pub(super) fn random_condition(random: &mut ChaCha8Rng, model: &AccessModel) -> Condition {
    let field = model.fields.choose(random).unwrap().clone();
    if field.logical == LogicalType::String && random.random_bool(0.05) {
        let (text, start) = (random_text(random), random.random_range(0..3));
        let part = text.chars().skip(start).take(3).collect();
        return Condition { field, test: Test::Contains(part) };
    }
    let operator = *Operator::of_type(field.logical).choose(random).unwrap();
    let Ok(test) = Test::new(operator, field.logical, &mut RandomOperands(random));
    Condition { field, test }
}

/// Creates a filter of conditions, sometimes with groups for one span and with conditions that no span may satisfy.
pub(super) fn random_filter(random: &mut ChaCha8Rng, model: &AccessModel) -> Filter {
    let mut list = |sizes: Range<usize>| -> Vec<Condition> {
        (0..random.random_range(sizes)).map(|_| random_condition(random, model)).collect()
    };
    let (conditions, groups, none) = (list(0..3), list(0..8), list(0..3));
    // Few traces satisfy everything, and the plans are compared by what they find.
    if random.random_bool(0.65) {
        return Filter::of(conditions);
    }
    let conditions = if random.random_bool(0.3) { conditions } else { Vec::new() };
    // Few traces have a span that satisfies three conditions.
    let same_span = match groups.as_slice() {
        [one, other] => vec![vec![one.clone(), other.clone()]],
        [one, other, third] => vec![vec![one.clone()], vec![other.clone(), third.clone()]],
        _ => Vec::new(),
    };
    Filter { conditions, same_span, none }
}

/// Whether a span satisfies a group of conditions of a filter.
pub(super) fn matches_any_group(span: &StoredSpan, filter: &Filter) -> bool {
    filter.required_groups().any(|group| group.iter().all(|condition| matches(span, condition)))
}

/// Whether these spans of a trace satisfy a filter, by its definition.
pub(super) fn satisfy(spans: &[&StoredSpan], filter: &Filter) -> bool {
    let some =
        |group: &[Condition]| spans.iter().any(|span| group.iter().all(|condition| matches(span, condition)));
    let excluded = |condition: &Condition| spans.iter().any(|span| matches(span, condition));
    filter.required_groups().all(some) && !filter.none.iter().any(excluded)
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
