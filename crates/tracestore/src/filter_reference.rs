//! The meaning of filter conditions, worked out from the values that a span was made of: for tests of the lowering.

use std::cmp::Ordering;

use tracewarden_model::{Condition, FieldSource, LogicalType, MarkedField, Number, Operator, Test};
use tracewarden_policy::FieldValue;

/// A value as the specification describes it; `None` where the field is absent or not of its type.
enum Found {
    Text(Vec<u8>),
    Texts(Vec<Vec<u8>>),
    Bool(bool),
    /// As it is written.
    Number(String),
}

fn found(value: &FieldValue, field: &MarkedField) -> Option<Found> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    Some(match (value.clone(), field.logical) {
        (FieldValue::Bool(value), LogicalType::Boolean) => Found::Bool(value),
        (FieldValue::Number(Number::Int(value)), LogicalType::Number) => Found::Number(value.to_string()),
        (FieldValue::Number(Number::UInt(value)), LogicalType::Number) => Found::Number(value.to_string()),
        (FieldValue::Number(Number::Float(value)), LogicalType::Number) => {
            Found::Number(format!("{value:?}"))
        }
        (FieldValue::Array(list), LogicalType::StringArray) => {
            let text = |value| if let FieldValue::String(bytes) = value { Some(bytes) } else { None };
            Found::Texts(list.into_iter().map(text).collect::<Option<_>>()?)
        }
        (FieldValue::String(bytes), LogicalType::String) => Found::Text(bytes),
        // Strings stand for values of the other types in maps, and nowhere else.
        _ if field.source == FieldSource::JsonPath => return None,
        (FieldValue::String(bytes), LogicalType::Boolean) => match bytes.as_slice() {
            b"true" => Found::Bool(true),
            b"false" => Found::Bool(false),
            _ => return None,
        },
        (FieldValue::String(bytes), LogicalType::Number) => {
            Found::Number(text(&bytes).filter(|text| text.parse::<f64>().is_ok())?)
        }
        (FieldValue::String(bytes), LogicalType::StringArray) => {
            let list: Vec<String> = serde_json::from_str(&text(&bytes)?).ok()?;
            Found::Texts(list.into_iter().map(String::into_bytes).collect())
        }
        _ => return None,
    })
}

/// The strings that a field has, each once: the one that it is, or its elements.
pub(crate) fn strings(value: &FieldValue, field: &MarkedField) -> Vec<Vec<u8>> {
    let mut strings = match found(value, field) {
        Some(Found::Text(text)) => vec![text],
        Some(Found::Texts(list)) => list,
        _ => Vec::new(),
    };
    strings.sort();
    strings.dedup();
    strings
}

/// Whether a value, NULL for none, satisfies a condition.
pub(crate) fn matches(value: &FieldValue, condition: &Condition) -> bool {
    let present = *value != FieldValue::Null;
    match &condition.test {
        Test::Exists => return present,
        Test::NotExists => return !present,
        _ => {}
    }
    // Integers compare as integers, everything else as floats.
    let order = |value: &str, wanted: &Number| {
        let wanted_int = match wanted {
            Number::Int(value) => Some(i128::from(*value)),
            Number::UInt(value) => Some(i128::from(*value)),
            Number::Float(_) => None,
        };
        if let (Ok(value), Some(wanted)) = (value.parse::<i128>(), wanted_int) {
            return Some(value.cmp(&wanted));
        }
        let wanted = match wanted {
            Number::Int(value) => *value as f64,
            Number::UInt(value) => *value as f64,
            Number::Float(value) => *value,
        };
        value.parse::<f64>().unwrap().partial_cmp(&wanted)
    };
    match (found(value, &condition.field), &condition.test) {
        (Some(Found::Text(text)), test) => match test {
            Test::StringEq(wanted) => text == wanted.as_bytes(),
            Test::StringNe(wanted) => text != wanted.as_bytes(),
            Test::StringIn(wanted) => wanted.iter().any(|wanted| text == wanted.as_bytes()),
            Test::StringNotIn(wanted) => !wanted.iter().any(|wanted| text == wanted.as_bytes()),
            Test::Prefix(wanted) => text.starts_with(wanted.as_bytes()),
            other => panic!("{other:?} is no test of this type"),
        },
        (Some(Found::Texts(list)), test) => {
            let has = |wanted: &String| list.iter().any(|text| text == wanted.as_bytes());
            match test {
                Test::Has(wanted) => has(wanted),
                Test::HasAny(wanted) => wanted.iter().any(has),
                Test::HasAll(wanted) => wanted.iter().all(has),
                other => panic!("{other:?} is no test of this type"),
            }
        }
        (Some(Found::Bool(value)), Test::BoolEq(wanted)) => value == *wanted,
        (Some(Found::Bool(value)), Test::BoolNe(wanted)) => value != *wanted,
        (Some(Found::Number(value)), Test::Between(low, high)) => {
            order(&value, low).is_some_and(Ordering::is_ge)
                && order(&value, high).is_some_and(Ordering::is_le)
        }
        (Some(Found::Number(value)), Test::Compare(operator, wanted)) => {
            let order = order(&value, wanted);
            match operator {
                Operator::Eq => order.is_some_and(Ordering::is_eq),
                // What has no order is unequal.
                Operator::Ne => order.is_none_or(Ordering::is_ne),
                Operator::Gt => order.is_some_and(Ordering::is_gt),
                Operator::Gte => order.is_some_and(Ordering::is_ge),
                Operator::Lt => order.is_some_and(Ordering::is_lt),
                _ => order.is_some_and(Ordering::is_le),
            }
        }
        _ => false,
    }
}
