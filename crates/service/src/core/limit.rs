//! Page limits. A limit above the maximum is reduced to the maximum, however large it is, even if it does not fit an integer.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A limit in a JSON body: a whole number in any notation; `5.0` and `5` are the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(
    /// The number.
    pub i64,
);

impl PartialSchema for Limit {
    fn schema() -> RefOr<Schema> {
        // Without a format, because the number has no upper bound.
        ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).into()
    }
}

impl ToSchema for Limit {}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Parsed from the raw text: a string is not a number, and an integer of any size remains an integer.
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let number = parse_saturating(text.get()).or_else(|| parse_whole(text.get()));
        number.map(Self).ok_or_else(|| Error::custom("expected a whole number"))
    }
}

/// Deserialises a limit in a query.
///
/// # Errors
/// When the value is not a whole number.
pub fn limit_in_query<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let limit = parse_saturating(&text).ok_or_else(|| Error::custom("expected a whole number"))?;
    Ok(Some(limit))
}

/// Parses a decimal integer; one that is out of range becomes the nearest 64-bit integer.
fn parse_saturating(text: &str) -> Option<i64> {
    let (digits, furthest) = match text.strip_prefix('-') {
        Some(digits) => (digits, i64::MIN),
        None => (text, i64::MAX),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Parsing digits fails only if there are too many.
    Some(text.parse().unwrap_or(furthest))
}

/// Parses a JSON number with a fraction or an exponent, if its value is whole.
fn parse_whole(text: &str) -> Option<i64> {
    if !text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    // The cast saturates. Infinity results from numbers that are too large for a float; all of those are whole.
    (number.is_infinite() || number.fract() == 0.0).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_saturate_and_other_values_are_refused() {
        let huge = "9".repeat(400);
        for (text, limit) in [
            ("0", 0),
            ("-1", -1),
            ("200", 200),
            ("9223372036854775808", i64::MAX),
            ("-99999999999999999999", i64::MIN),
            (&huge, i64::MAX),
        ] {
            assert_eq!(parse_saturating(text), Some(limit), "{text}");
            assert_eq!(serde_json::from_str::<Limit>(text).unwrap(), Limit(limit), "{text}");
        }
        for (text, limit) in
            [("5.0", 5), ("1e3", 1_000), ("-0.0", 0), ("1.5e30", i64::MAX), ("-1e999", i64::MIN)]
        {
            assert_eq!(serde_json::from_str::<Limit>(text).unwrap(), Limit(limit), "{text}");
        }
        for text in ["1.5", "1e-3", "\"5\"", "\"inf\"", "true", "null", "[1]", "{}"] {
            assert!(serde_json::from_str::<Limit>(text).is_err(), "{text}");
        }
        for text in ["", "-", "+5", " 5", "5 ", "1.5", "x", "--1"] {
            assert_eq!(parse_saturating(text), None, "{text}");
        }
    }
}
