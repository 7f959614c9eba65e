//! Reference semantics of filter conditions, computed from the values of a span: for tests of the translation to SQL.

use std::cmp::Ordering;

use tracewarden_model::{
    ColumnType, Condition, Decimal, FieldSource, LogicalType, MarkedField, Number, Operator, Test,
};
use tracewarden_policy::FieldValue;

/// A value as the specification describes it; `None` where the field is absent or its value is not of its type.
enum Found {
    Text(Vec<u8>),
    Texts(Vec<Vec<u8>>),
    Bool(bool),
    /// The text of the number.
    Number(String),
    Float(f64),
}

fn found(value: &FieldValue, field: &MarkedField) -> Option<Found> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    Some(match (value.clone(), field.logical) {
        (FieldValue::Bool(value), LogicalType::Boolean) => Found::Bool(value),
        (FieldValue::Number(Number::Float(value)), LogicalType::Number) => Found::Float(value),
        (FieldValue::Number(value), LogicalType::Number) => Found::Number(value.to_string()),
        (FieldValue::Array(list), LogicalType::StringArray) => {
            let text = |value| if let FieldValue::String(bytes) = value { Some(bytes) } else { None };
            Found::Texts(list.into_iter().map(text).collect::<Option<_>>()?)
        }
        (FieldValue::String(bytes), LogicalType::String) => Found::Text(bytes),
        // Strings represent values of other types in maps, and nowhere else.
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

/// Returns the distinct strings of a field: its value, or its elements.
pub(crate) fn strings(value: Option<&FieldValue>, field: &MarkedField) -> Vec<Vec<u8>> {
    let mut strings = match value.and_then(|value| found(value, field)) {
        Some(Found::Text(text)) => vec![text],
        Some(Found::Texts(list)) => list,
        _ => Vec::new(),
    };
    strings.sort();
    strings.dedup();
    strings
}

/// Splits a decimal number: whether it is negative, its digits, and the power of ten of their unit.
fn parts(text: &str) -> (bool, String, i64) {
    let unsigned = text.trim_start_matches(['+', '-']).to_lowercase();
    let (mantissa, exponent) = unsigned.split_once('e').unwrap_or((&unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    // No operand is beyond a thousand, and so no value beyond can equal one.
    let exponent =
        exponent.parse::<i64>().unwrap_or(if exponent.starts_with('-') { i64::MIN } else { i64::MAX });
    let digits = format!("{whole}{fraction}");
    let exponent = exponent.clamp(-3_000, 3_000) - i64::try_from(fraction.len()).unwrap();
    (text.starts_with('-') && digits.bytes().any(|digit| digit != b'0'), digits, exponent)
}

/// Returns the order of two decimal numbers, by writing both in the smaller of their units.
pub(crate) fn exact_order(left: &str, right: &str) -> Ordering {
    let ((left_below, left, left_unit), (right_below, right, right_unit)) = (parts(left), parts(right));
    let unit = left_unit.min(right_unit);
    let written = |digits: &str, of: i64| {
        let all = format!("{digits}{}", "0".repeat(usize::try_from(of - unit).unwrap()));
        all.trim_start_matches('0').to_owned()
    };
    let (left, right) = (written(&left, left_unit), written(&right, right_unit));
    let size = left.len().cmp(&right.len()).then_with(|| left.cmp(&right));
    match (left_below, right_below) {
        (false, false) => size,
        (true, true) => size.reverse(),
        (below, _) => {
            if below {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
    }
}

/// Returns the order of a float and an operand that is rounded once to its type. An operand beyond all finite numbers is
/// still below infinity.
pub(crate) fn float_order(value: f64, bits: u16, wanted: &str) -> Option<Ordering> {
    let (value, rounded) = match bits {
        32 => (f64::from(value as f32), f64::from(wanted.parse::<f32>().unwrap())),
        _ => (value, wanted.parse::<f64>().unwrap()),
    };
    if rounded.is_finite() || value.is_nan() {
        return value.partial_cmp(&rounded);
    }
    let beyond = if rounded > 0.0 { Ordering::Greater } else { Ordering::Less };
    Some(if value == rounded { beyond } else { beyond.reverse() })
}

fn number_order(found: &Found, column_type: &ColumnType, wanted: &Decimal) -> Option<Ordering> {
    let wanted = wanted.to_string();
    match found {
        Found::Number(text) => match text.parse::<f64>().unwrap() {
            _ if text.to_lowercase().contains("nan") => None,
            _ if !text.to_lowercase().contains("inf") => Some(exact_order(text, &wanted)),
            infinite => infinite.partial_cmp(&0.0),
        },
        Found::Float(value) => {
            let bits = if let ColumnType::Float { bits } = column_type.bare() { *bits } else { 64 };
            float_order(*value, bits, &wanted)
        }
        _ => None,
    }
}

/// Whether a value satisfies a comparison, given its order to the operand.
pub(crate) fn satisfies(order: Option<Ordering>, operator: Operator) -> bool {
    match operator {
        Operator::Eq => order.is_some_and(Ordering::is_eq),
        // A value without an order is unequal.
        Operator::Ne => order.is_none_or(Ordering::is_ne),
        Operator::Gt => order.is_some_and(Ordering::is_gt),
        Operator::Gte => order.is_some_and(Ordering::is_ge),
        Operator::Lt => order.is_some_and(Ordering::is_lt),
        _ => order.is_some_and(Ordering::is_le),
    }
}

/// Whether a value, or `None` for an absent one, satisfies a condition.
pub(crate) fn matches(value: Option<&FieldValue>, condition: &Condition) -> bool {
    // A map may hold a key with NULL; a column or a path with NULL counts as absent.
    let absent_as_null = condition.field.source != FieldSource::MapKey;
    let present = value.is_some_and(|value| *value != FieldValue::Null || !absent_as_null);
    match &condition.test {
        Test::Exists => return present,
        Test::NotExists => return !present,
        _ => {}
    }
    let value = value.unwrap_or(&FieldValue::Null);
    let column_type = &condition.field.column_type;
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
        (Some(found), Test::Between(low, high)) => {
            satisfies(number_order(&found, column_type, low), Operator::Gte)
                && satisfies(number_order(&found, column_type, high), Operator::Lte)
        }
        (Some(found), Test::Compare(operator, wanted)) => {
            satisfies(number_order(&found, column_type, wanted), *operator)
        }
        _ => false,
    }
}
