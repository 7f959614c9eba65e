//! Reference semantics of filter conditions, computed from the values of a span: for tests of the translation to SQL.

use std::cmp::Ordering;

use tracewarden_model::{
    ColumnType, Condition, Decimal, FieldSource, LogicalType, MarkedField, Number, NumberType, Relation, Test,
};
use tracewarden_policy::FieldValue;

/// A value as the specification describes it; `None` where the field is absent or its value is not of its type.
enum TypedValue {
    Text(Vec<u8>),
    Texts(Vec<Vec<u8>>),
    Bool(bool),
    /// The text of the number.
    Number(String),
    Float(f64),
}

fn typed_value(value: &FieldValue, field: &MarkedField) -> Option<TypedValue> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    Some(match (value.clone(), field.logical) {
        (FieldValue::Bool(value), LogicalType::Boolean) => TypedValue::Bool(value),
        (FieldValue::Number(Number::Float(value)), LogicalType::Number) => TypedValue::Float(value),
        (FieldValue::Number(value), LogicalType::Number) => TypedValue::Number(value.to_string()),
        (FieldValue::Array(list), LogicalType::StringArray) => {
            let text = |value| if let FieldValue::String(bytes) = value { Some(bytes) } else { None };
            TypedValue::Texts(list.into_iter().map(text).collect::<Option<_>>()?)
        }
        (FieldValue::String(bytes), LogicalType::String) => TypedValue::Text(bytes),
        // Strings represent values of other types in maps, and nowhere else.
        _ if field.source == FieldSource::JsonPath => return None,
        (FieldValue::String(bytes), LogicalType::Boolean) => match bytes.as_slice() {
            b"true" => TypedValue::Bool(true),
            b"false" => TypedValue::Bool(false),
            _ => return None,
        },
        (FieldValue::String(bytes), LogicalType::Number) => {
            TypedValue::Number(text(&bytes).filter(|text| text.parse::<f64>().is_ok())?)
        }
        (FieldValue::String(bytes), LogicalType::StringArray) => {
            let list: Vec<String> = serde_json::from_str(&text(&bytes)?).ok()?;
            TypedValue::Texts(list.into_iter().map(String::into_bytes).collect())
        }
        _ => return None,
    })
}

/// Returns the distinct strings of a field: its value, or its elements.
pub(crate) fn strings(value: Option<&FieldValue>, field: &MarkedField) -> Vec<Vec<u8>> {
    let mut strings = match value.and_then(|value| typed_value(value, field)) {
        Some(TypedValue::Text(text)) => vec![text],
        Some(TypedValue::Texts(list)) => list,
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
    let ((left_negative, left, left_unit), (right_negative, right, right_unit)) = (parts(left), parts(right));
    let unit = left_unit.min(right_unit);
    let written = |digits: &str, own_unit: i64| {
        let all = format!("{digits}{}", "0".repeat(usize::try_from(own_unit - unit).unwrap()));
        all.trim_start_matches('0').to_owned()
    };
    let (left, right) = (written(&left, left_unit), written(&right, right_unit));
    let size = left.len().cmp(&right.len()).then_with(|| left.cmp(&right));
    match (left_negative, right_negative) {
        (false, false) => size,
        (true, true) => size.reverse(),
        (negative, _) => {
            if negative {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
    }
}

/// Returns the order of a float and an operand that is rounded once to its type. An operand beyond all finite numbers is
/// still below infinity.
pub(crate) fn float_order(value: f64, bits: u16, operand: &str) -> Option<Ordering> {
    let (value, rounded) = match bits {
        32 => (f64::from(value as f32), f64::from(operand.parse::<f32>().unwrap())),
        _ => (value, operand.parse::<f64>().unwrap()),
    };
    if rounded.is_finite() || value.is_nan() {
        return value.partial_cmp(&rounded);
    }
    let beyond = if rounded > 0.0 { Ordering::Greater } else { Ordering::Less };
    Some(if value == rounded { beyond } else { beyond.reverse() })
}

fn number_order(typed_value: &TypedValue, column_type: &ColumnType, operand: &Decimal) -> Option<Ordering> {
    let operand = operand.to_string();
    match typed_value {
        TypedValue::Number(text) => match text.parse::<f64>().unwrap() {
            _ if text.to_lowercase().contains("nan") => None,
            _ if !text.to_lowercase().contains("inf") => Some(exact_order(text, &operand)),
            infinite => infinite.partial_cmp(&0.0),
        },
        TypedValue::Float(value) => {
            let bits = match column_type.bare() {
                ColumnType::Number(NumberType::Float { bits }) => *bits,
                _ => 64,
            };
            float_order(*value, bits, &operand)
        }
        _ => None,
    }
}

/// Whether a value satisfies a comparison, given its order to the operand.
pub(crate) fn satisfies(order: Option<Ordering>, relation: Relation) -> bool {
    match relation {
        Relation::Eq => order.is_some_and(Ordering::is_eq),
        // A value without an order is unequal.
        Relation::Ne => order.is_none_or(Ordering::is_ne),
        Relation::Gt => order.is_some_and(Ordering::is_gt),
        Relation::Ge => order.is_some_and(Ordering::is_ge),
        Relation::Lt => order.is_some_and(Ordering::is_lt),
        Relation::Le => order.is_some_and(Ordering::is_le),
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
    let Some(typed_value) = typed_value(value, &condition.field) else { return false };
    let satisfies = |relation, operand| satisfies(number_order(&typed_value, column_type, operand), relation);
    match (&typed_value, &condition.test) {
        (TypedValue::Text(text), Test::StringEq(operand)) => text == operand.as_bytes(),
        (TypedValue::Text(text), Test::StringNe(operand)) => text != operand.as_bytes(),
        (TypedValue::Text(text), Test::StringIn(list)) => {
            list.iter().any(|operand| text == operand.as_bytes())
        }
        (TypedValue::Text(text), Test::StringNotIn(list)) => {
            !list.iter().any(|operand| text == operand.as_bytes())
        }
        (TypedValue::Text(text), Test::Contains(operand)) => {
            let (text, operand) = (text.to_ascii_lowercase(), operand.to_ascii_lowercase());
            operand.is_empty() || text.windows(operand.len()).any(|part| part == operand.as_bytes())
        }
        (TypedValue::Text(text), Test::Prefix(operand)) => text.starts_with(operand.as_bytes()),
        (TypedValue::Texts(list), test) => {
            let has = |operand: &String| list.iter().any(|text| text == operand.as_bytes());
            match test {
                Test::Has(operand) => has(operand),
                Test::HasAny(operand) => operand.iter().any(has),
                Test::HasAll(operand) => operand.iter().all(has),
                other => panic!("{other:?} is no test of this type"),
            }
        }
        (TypedValue::Bool(value), Test::BoolEq(operand)) => value == operand,
        (TypedValue::Bool(value), Test::BoolNe(operand)) => value != operand,
        (TypedValue::Number(_) | TypedValue::Float(_), Test::Between(low, high)) => {
            satisfies(Relation::Ge, low) && satisfies(Relation::Le, high)
        }
        (TypedValue::Number(_) | TypedValue::Float(_), Test::Compare(relation, operand)) => {
            satisfies(*relation, operand)
        }
        (_, other) => panic!("{other:?} is no test of this type"),
    }
}
