//! The wire format of filters. This module checks their form only; the service checks them against the access model.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use tracewarden_model::{Decimal, Filter, Operands, Operator, RawCondition, Scalar, named_field};
use utoipa::openapi::schema::{
    AnyOfBuilder, ArrayBuilder, ObjectBuilder, OneOfBuilder, RefBuilder, SchemaType, Type,
};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::code::Code;
use crate::problem::Problem;

/// Conditions on the spans of a trace; a trace must match every member. All conditions together count towards the limit.
#[derive(Debug, Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
#[schema(as = Filter)]
pub(crate) struct WireFilter {
    /// Conditions, combined with AND. Absent or empty: no condition.
    conditions: Option<Vec<WireCondition>>,
    /// Groups of conditions: for each group, one span must satisfy all of its conditions.
    same_span: Option<Vec<Vec<WireCondition>>>,
    /// Conditions that no span of the trace may satisfy. They exclude traces; `ne` matches if any span differs.
    none: Option<Vec<WireCondition>>,
}

/// A condition; a trace matches when any of its spans satisfies it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Condition, examples(json!({"ref": "SpanAttributes[\"http.response.status_code\"]", "op": "gte", "value": 500})))]
pub(crate) struct WireCondition {
    /// The field, as in `ref` of the filter schema. Either this or `name`.
    #[serde(rename = "ref")]
    reference: Option<String>,
    /// With `name`: the map column that holds the field; absent for a field that is a column itself.
    map: Option<String>,
    /// The key within the map, or the column's name. Either this or `ref`.
    name: Option<String>,
    /// An operator that the field's type has.
    op: String,
    /// The operand of operators that take one.
    #[schema(schema_with = value_schema)]
    value: Option<Box<RawValue>>,
    /// The operands of operators that take several.
    #[schema(schema_with = values_schema)]
    values: Option<Vec<Box<RawValue>>>,
}

/// Returns the quoted names of the operators that take these operands.
fn operators(operands: Operands) -> Vec<String> {
    Operator::taking(operands).map(|operator| format!("`{operator}`")).collect()
}

fn comparison_value() -> RefBuilder {
    RefBuilder::new().ref_location_from_schema_name(ComparisonValue::name())
}

fn value_schema() -> OneOfBuilder {
    let description = format!("The value of {}.", operators(Operands::One).join(", "));
    OneOfBuilder::new()
        .item(comparison_value().description(Some(description)))
        .item(ObjectBuilder::new().schema_type(Type::Null))
}

fn values_schema() -> ArrayBuilder {
    let ranges = operators(Operands::Range).join(", ");
    let all = [operators(Operands::List), operators(Operands::Range)].concat().join(", ");
    ArrayBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Array, Type::Null]))
        .items(comparison_value())
        .description(Some(format!("The values of {all}; for {ranges} exactly two numbers.")))
}

/// Schema of a value that is kept as raw text: a string, a number or a boolean.
pub(crate) struct ComparisonValue;

impl PartialSchema for ComparisonValue {
    fn schema() -> RefOr<Schema> {
        let form = |kind, description: &str| {
            ObjectBuilder::new().schema_type(kind).description(Some(description)).build()
        };
        // `anyOf`, because an integer is also a number: `oneOf` would reject it.
        AnyOfBuilder::new()
            .item(form(Type::String, "Text."))
            .item(form(Type::Integer, "An integer of any size: every digit counts."))
            .item(form(Type::Number, "Any other number, compared exactly as it is written in decimal."))
            .item(form(Type::Boolean, "A boolean."))
            .description(Some("A string, a number or a boolean."))
            .into()
    }
}

impl ToSchema for ComparisonValue {
    fn name() -> Cow<'static, str> {
        "ComparisonValue".into()
    }
}

/// Returns a filter with values read exactly.
///
/// # Errors
/// `invalid_value` for a condition that names no field or two, `invalid_request` for a value that is not a string, a number or a
/// boolean, `value_type` for a number that no column can hold.
pub(crate) fn raw_filter(sent: Option<WireFilter>) -> Result<Filter<RawCondition>, Problem> {
    let WireFilter { conditions, same_span, none } = sent.unwrap_or_default();
    let [conditions, none] = [conditions, none].map(Option::unwrap_or_default);
    Filter { conditions, same_span: same_span.unwrap_or_default(), none }.try_map(raw_condition)
}

fn raw_condition(pointer: &str, sent: WireCondition) -> Result<RawCondition, Problem> {
    let pointer = |member: &str| format!("/filter{pointer}/{member}");
    let value = sent.value.map(|value| scalar(&value, || pointer("value"))).transpose()?;
    let many = |values: Vec<Box<RawValue>>| {
        let values = values.iter().enumerate();
        values.map(|(index, value)| scalar(value, || pointer(&format!("values/{index}")))).collect()
    };
    let values = sent.values.map(many).transpose()?;
    let named = named_field(sent.reference.as_deref(), sent.map.as_deref(), sent.name.as_deref());
    let (field, field_member) =
        named.map_err(|error| Problem::member(Code::InvalidValue, pointer("ref"), error.to_string()))?;
    Ok(RawCondition { field, field_member, op: sent.op, value, values })
}

fn scalar(raw: &RawValue, pointer: impl Fn() -> String) -> Result<Scalar, Problem> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str(text)
            .map(Scalar::String)
            .map_err(|error| Problem::invalid(pointer(), format!("not a string: {error}"))),
        Some(b't') => Ok(Scalar::Bool(true)),
        Some(b'f') => Ok(Scalar::Bool(false)),
        Some(b'-' | b'0'..=b'9') => Decimal::parse(text)
            .map(Scalar::Number)
            .map_err(|error| Problem::member(Code::ValueType, pointer(), error.to_string())),
        _ => Err(Problem::invalid(pointer(), "expected a string, a number or a boolean")),
    }
}

#[cfg(test)]
mod tests {
    use tracewarden_model::FieldRef;

    use super::*;

    #[test]
    fn numbers_keep_their_digits() {
        for digits in
            ["9223372036854775807", "18446744073709551616", "1700010800.901161215", "12345678901234.5678"]
        {
            let read =
                read(&format!(r#"{{"conditions": [{{"name": "a", "op": "eq", "value": {digits}}}]}}"#));
            let value = read.unwrap().remove(0).value;
            assert_eq!(value, Some(Scalar::Number(Decimal::parse(digits).unwrap())), "{digits}");
        }
    }

    #[test]
    fn a_field_is_named_by_its_reference_or_by_map_and_name() {
        let field = |names: &str| {
            let read = read(&format!(r#"{{"conditions": [{{{names}, "op": "exists"}}]}}"#));
            read.map(|mut conditions| conditions.remove(0).field)
        };
        let key = FieldRef::key("M", "a.b");
        assert_eq!(field(r#""ref": "M[\"a.b\"]""#).unwrap(), key);
        assert_eq!(field(r#""map": "M", "name": "a.b""#).unwrap(), key);
        assert_eq!(field(r#""ref": "a""#).unwrap(), field(r#""map": "", "name": "a""#).unwrap());
        for wrong in [
            r#""map": "M""#,
            r#""ref": "a", "name": "a""#,
            r#""ref": "a", "map": "M""#,
            r#""ref": null, "name": null"#,
        ] {
            let refused = format!("{:?}", field(wrong).unwrap_err());
            assert!(
                refused.contains("InvalidValue") && refused.contains("/filter/conditions/0/ref"),
                "{refused}"
            );
        }
    }

    fn read(text: &str) -> Result<Vec<RawCondition>, Problem> {
        Ok(raw_filter(Some(crate::body::parse(text.as_bytes())?))?.conditions)
    }

    #[test]
    fn values_are_read_by_their_json_type() {
        let read = read(r#"{"conditions": [{"name": "a", "op": "in", "values": ["x\u0000", 1, true]}]}"#);
        let values = read.unwrap().remove(0).values.unwrap();
        let number = Scalar::Number(Decimal::from(1_u64));
        assert_eq!(values, [Scalar::String("x\0".to_owned()), number, Scalar::Bool(true)]);
    }

    #[test]
    fn errors_point_at_the_value() {
        let refused = |text: &str| format!("{:?}", read(text).unwrap_err());
        let large = refused(r#"{"conditions": [{"name": "a", "op": "gt", "value": 1e999}]}"#);
        assert!(large.contains("ValueType") && large.contains("/filter/conditions/0/value"), "{large}");
        let object = refused(r#"{"conditions": [{"name": "a", "op": "in", "values": ["b", {}]}]}"#);
        assert!(object.contains("InvalidRequest") && object.contains("/values/1"), "{object}");
        // The value is not parsed, whatever its depth.
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let deep = refused(&format!(r#"{{"conditions": [{{"name": "a", "op": "eq", "value": {deep}}}]}}"#));
        assert!(deep.contains("/filter/conditions/0/value") && deep.contains("expected a string"), "{deep}");
        let surrogate = refused(r#"{"conditions": [{"name": "a", "op": "eq", "value": "\ud800"}]}"#);
        assert!(surrogate.contains("InvalidRequest"), "{surrogate}");
    }
}
