//! Filters as they are sent. Checking them against the access model is the service's work; here only their form counts.

use serde::Deserialize;
use serde_json::value::RawValue;
use tracewarden_model::{FieldRef, Number, RawCondition, Scalar};
use utoipa::ToSchema;

use crate::code::Code;
use crate::problem::Problem;

/// Conditions that a trace must all match, each by some span.
#[derive(Debug, Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = Filter)]
pub(crate) struct WireFilter {
    /// ANDed; absent or empty matches everything that the caller may see.
    conditions: Option<Vec<WireCondition>>,
}

/// A condition; a trace matches when any of its spans satisfies it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Condition)]
pub(crate) struct WireCondition {
    /// The map column that holds the field; absent for a column of its own.
    #[schema(examples("SpanAttributes"))]
    map: Option<String>,
    /// The key within the map, or the column's name.
    #[schema(examples("http.response.status_code"))]
    name: String,
    /// An operator of the field's type.
    #[schema(examples("eq"))]
    op: String,
    /// The value of `eq`, `ne`, `prefix`, `has`, `gt`, `gte`, `lt`, `lte`.
    #[schema(value_type = Option<ComparisonValue>)]
    value: Option<Box<RawValue>>,
    /// The values of `in`, `not_in`, `has_any`, `has_all`, `between`; for `between` exactly two numbers.
    #[schema(value_type = Option<Vec<ComparisonValue>>)]
    values: Option<Vec<Box<RawValue>>>,
}

/// A string, a number or a boolean.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes what is read from raw text")]
pub(crate) enum ComparisonValue {
    /// Text.
    String(String),
    /// A number; integers are compared exactly.
    Number(f64),
    /// A boolean.
    Boolean(bool),
}

/// The conditions of a filter, with values read exactly.
///
/// # Errors
/// `invalid_request` for a value that is neither string, number nor boolean, `value_type` for a number that is too
/// large for any column.
pub(crate) fn conditions(filter: Option<WireFilter>) -> Result<Vec<RawCondition>, Problem> {
    let sent = filter.unwrap_or_default().conditions.unwrap_or_default();
    sent.into_iter().enumerate().map(|(at, condition)| raw(at, condition)).collect()
}

fn raw(at: usize, sent: WireCondition) -> Result<RawCondition, Problem> {
    let value = match sent.value {
        None => None,
        Some(value) => Some(scalar(&value, || format!("/filter/conditions/{at}/value"))?),
    };
    let values = match sent.values {
        None => None,
        Some(values) => Some(
            values
                .iter()
                .enumerate()
                .map(|(index, value)| scalar(value, || format!("/filter/conditions/{at}/values/{index}")))
                .collect::<Result<Vec<_>, _>>()?,
        ),
    };
    // The filter schema shows a column of its own with an empty map, and clients send back what they were shown.
    let map = sent.map.filter(|map| !map.is_empty());
    Ok(RawCondition { field: FieldRef { map, name: sent.name }, op: sent.op, value, values })
}

fn scalar(raw: &RawValue, pointer: impl Fn() -> String) -> Result<Scalar, Problem> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str(text)
            .map(Scalar::String)
            .map_err(|error| Problem::invalid(pointer(), format!("not a string: {error}"))),
        Some(b't') => Ok(Scalar::Bool(true)),
        Some(b'f') => Ok(Scalar::Bool(false)),
        Some(b'-' | b'0'..=b'9') => number(text).map(Scalar::Number).ok_or_else(|| {
            Problem::member(Code::ValueType, pointer(), "the number is larger than any column can hold")
        }),
        _ => Err(Problem::invalid(pointer(), "expected a string, a number or a boolean")),
    }
}

/// A JSON number, exact for integers of 64 bits; `None` when it is not finite.
fn number(text: &str) -> Option<Number> {
    if let Ok(number) = text.parse() {
        return Some(Number::Int(number));
    }
    if let Ok(number) = text.parse() {
        return Some(Number::UInt(number));
    }
    text.parse().ok().filter(|number: &f64| number.is_finite()).map(Number::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_exact() {
        assert_eq!(number("9223372036854775807"), Some(Number::Int(i64::MAX)));
        assert_eq!(number("-9223372036854775808"), Some(Number::Int(i64::MIN)));
        assert_eq!(number("18446744073709551615"), Some(Number::UInt(u64::MAX)));
        assert_eq!(number("18446744073709551616"), Some(Number::Float(18_446_744_073_709_551_616.0)));
        assert_eq!(number("0.1"), Some(Number::Float(0.1)));
        assert_eq!(number("1e3"), Some(Number::Float(1e3)));
        assert_eq!(number("1e999"), None);
        assert_eq!(number("-1e999"), None);
    }

    fn read(text: &str) -> Result<Vec<RawCondition>, Problem> {
        conditions(Some(crate::body::parse(text.as_bytes())?))
    }

    #[test]
    fn values_are_read_by_their_form() {
        let read = read(r#"{"conditions": [{"name": "a", "op": "in", "values": ["x\u0000", 1, true]}]}"#);
        let values = read.unwrap().remove(0).values.unwrap();
        let number = Scalar::Number(Number::Int(1));
        assert_eq!(values, [Scalar::String("x\0".to_owned()), number, Scalar::Bool(true)]);
    }

    #[test]
    fn refusals_point_at_the_value() {
        let refused = |text: &str| format!("{:?}", read(text).unwrap_err());
        let large = refused(r#"{"conditions": [{"name": "a", "op": "gt", "value": 1e999}]}"#);
        assert!(large.contains("ValueType") && large.contains("/filter/conditions/0/value"), "{large}");
        let object = refused(r#"{"conditions": [{"name": "a", "op": "in", "values": ["b", {}]}]}"#);
        assert!(object.contains("InvalidRequest") && object.contains("/values/1"), "{object}");
        // It is not gone into, however deep it is.
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let deep = refused(&format!(r#"{{"conditions": [{{"name": "a", "op": "eq", "value": {deep}}}]}}"#));
        assert!(deep.contains("/filter/conditions/0/value") && deep.contains("expected a string"), "{deep}");
        let surrogate = refused(r#"{"conditions": [{"name": "a", "op": "eq", "value": "\ud800"}]}"#);
        assert!(surrogate.contains("InvalidRequest"), "{surrogate}");
    }
}
