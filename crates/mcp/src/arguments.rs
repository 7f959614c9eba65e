//! Arguments of tools, after [`crate::coercion`] parsed them.

use itertools::Itertools as _;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tracewarden_model::{
    Decimal, Filter, InvalidDecimal, LogicalType, Operands, Operator, RawCondition, Scalar, named_field,
};

use crate::failure::{Failure, argument_name};

/// Deserialises the arguments of a tool that its schema accepted.
///
/// # Errors
/// If the schema accepts arguments that the tool does not, which is an internal error.
pub(crate) fn parse_arguments<T: DeserializeOwned>(arguments: &Value) -> Result<T, Failure> {
    T::deserialize(arguments).map_err(|error| {
        tracing::error!(%error, "a schema allows arguments that its tool rejects");
        Failure::argument("", "these arguments cannot be read; see the schema of the tool")
    })
}

/// A condition. A trace matches if any of its spans satisfies it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Condition {
    /// The field as svc_filter_schema writes it; or give map and name.
    #[serde(rename = "ref")]
    reference: Option<String>,
    /// The map column that holds the field.
    map: Option<String>,
    /// The key within the map, or the column.
    name: Option<String>,
    #[schemars(description = op_description())]
    op: String,
    #[serde(default)]
    #[schemars(schema_with = "crate::schemas::scalar", description = value_description())]
    value: Option<Value>,
    #[serde(default)]
    #[schemars(schema_with = "crate::schemas::scalars", description = values_description())]
    values: Option<Vec<Value>>,
}

fn op_description() -> String {
    format!("An operator of the field's type: {}.", Operator::ALL.iter().join(", "))
}

fn value_description() -> String {
    format!("For {}.", Operator::taking(Operands::One).join(", "))
}

fn values_description() -> String {
    let lists = Operator::taking(Operands::List).map(|operator| operator.to_string());
    let ranges = Operator::taking(Operands::Range).map(|operator| format!("{operator} (two numbers)"));
    format!("For {}.", lists.chain(ranges).join(", "))
}

/// Converts a filter for the service.
///
/// # Errors
/// If a field has no name or two names, or if a value is not a string, a number or a boolean.
pub(crate) fn raw_filter(
    conditions: Option<Vec<Condition>>,
    same_span: Option<Vec<Vec<Condition>>>,
    none: Option<Vec<Condition>>,
) -> Result<Filter<RawCondition>, Failure> {
    let [conditions, none] = [conditions, none].map(Option::unwrap_or_default);
    let sent = Filter { conditions, same_span: same_span.unwrap_or_default(), none };
    sent.try_map(|pointer, condition| condition.raw_condition(pointer))
}

impl Condition {
    /// Returns the condition that a field of type string or string array has this value.
    pub(crate) fn equal_to(reference: &str, logical: LogicalType, value: &str) -> Value {
        let operator = if logical == LogicalType::StringArray { Operator::Has } else { Operator::Eq };
        serde_json::json!({ "ref": reference, "op": operator.as_str(), "value": value })
    }

    fn raw_condition(&self, pointer: &str) -> Result<RawCondition, Failure> {
        let path = |member: &str| argument_name(&format!("{pointer}/{member}"));
        let named = named_field(self.reference.as_deref(), self.map.as_deref(), self.name.as_deref());
        let (field, field_member) =
            named.map_err(|error| Failure::argument(&path("ref"), error.to_string()))?;
        let value = self.value.as_ref().map(|value| scalar(value, || path("value"))).transpose()?;
        let many = |values: &Vec<Value>| {
            let values = values.iter().enumerate();
            values.map(|(index, value)| scalar(value, || path(&format!("values/{index}")))).collect()
        };
        let values = self.values.as_ref().map(many).transpose()?;
        Ok(RawCondition { field, field_member, op: self.op.clone(), value, values })
    }
}

fn scalar(value: &Value, path: impl Fn() -> String) -> Result<Scalar, Failure> {
    Ok(match value {
        // Numbers with many digits arrive as text (`digits.rs`).
        Value::String(text) => match Decimal::parse(text) {
            Err(InvalidDecimal::NotANumber) => Scalar::String(text.clone()),
            number => Scalar::Digits(text.clone(), number),
        },
        Value::Bool(value) => Scalar::Bool(*value),
        Value::Number(number) => Scalar::Number(
            Decimal::parse(&number.to_string())
                .map_err(|error| Failure::argument(&path(), error.to_string()))?,
        ),
        _ => return Err(Failure::argument(&path(), "expected a string, a number or a boolean")),
    })
}

/// Returns the given arguments without some and with others, for the next call.
pub(crate) fn modified_arguments(sent: &Value, without: &[&str], with: &[(&str, Value)]) -> Value {
    let mut arguments = sent.as_object().cloned().unwrap_or_default();
    arguments.retain(|name, _| !without.contains(&name.as_str()));
    arguments.extend(with.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    Value::Object(arguments)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tracewarden_model::FieldRef;

    use super::*;
    use crate::bounded_json::{Bounds, Json};
    use crate::coercion::coerce;

    fn conditions(value: Value) -> Result<Vec<RawCondition>, Failure> {
        #[derive(Debug, Deserialize, JsonSchema)]
        struct ConditionArguments {
            conditions: Vec<Condition>,
        }
        let arguments = Json::read(&json!({ "conditions": value }).to_string(), Bounds::NONE).unwrap();
        let read = coerce(&crate::schemas::arguments_schema::<ConditionArguments>(), arguments)?;
        let conditions = parse_arguments::<ConditionArguments>(&Value::Object(read))?.conditions;
        Ok(raw_filter(Some(conditions), None, None)?.conditions)
    }

    #[test]
    fn a_field_is_named_by_its_reference_or_by_map_and_name() {
        let check = |condition: Value, field: FieldRef| {
            assert_eq!(conditions(json!([condition])).unwrap()[0].field, field);
        };
        check(json!({"ref": "ServiceName", "op": "exists"}), FieldRef::column("ServiceName"));
        check(json!({"name": "ServiceName", "op": "exists"}), FieldRef::column("ServiceName"));
        check(json!({"map": "", "name": "ServiceName", "op": "exists"}), FieldRef::column("ServiceName"));
        let key = || FieldRef::key("Attributes", "a \"b\"]");
        check(json!({"ref": key().to_string(), "op": "exists"}), key());
        check(json!({"map": "Attributes", "name": "a \"b\"]", "op": "exists"}), key());
    }

    #[test]
    fn errors_name_the_argument_and_the_expected_value() {
        let check = |value: Value, path: &str, text: &str| {
            let failure = conditions(value).unwrap_err().text();
            assert!(failure.contains(&format!("{path}: ")) && failure.contains(text), "{failure}");
        };
        check(json!([{"op": "eq"}]), "conditions[0].ref", "`ref` as the filter schema shows it");
        check(json!([{"ref": "a", "name": "b", "op": "eq"}]), "conditions[0].ref", "name the field once");
        check(json!([{"ref": "a"}]), "conditions[0].op", "this argument is required");
        check(json!([{"ref": "a", "op": "eq", "valeu": 1}]), "conditions[0].valeu", "did you mean `value`?");
        check(
            json!([{"ref": "a", "op": "eq", "value": [1]}]),
            "conditions[0].value",
            "a string, a number or a boolean",
        );
        check(
            json!([{"ref": "a", "op": "in", "values": ["x", {}]}]),
            "conditions[0].values[1]",
            "a string, a number",
        );
        check(json!("ref"), "conditions", "a list of objects");
    }

    #[test]
    fn numbers_keep_their_digits() {
        let read = conditions(
            json!([{"ref": "a", "op": "in", "values": [18_446_744_073_709_551_615_u64, -1, 0.5]}]),
        );
        let large = "18446744073709551615";
        let expected = [
            Scalar::Digits(large.to_owned(), Ok(decimal(large))),
            Scalar::Number(decimal("-1")),
            Scalar::Number(decimal("0.5")),
        ];
        assert_eq!(read.unwrap()[0].values.as_deref(), Some(&expected[..]));
        let read =
            conditions(json!([{"ref": "a", "op": "in", "values": ["1700010800.901161215", "1x", "0x1"]}]));
        let digits = "1700010800.901161215".to_owned();
        let expected = [
            Scalar::Digits(digits.clone(), Ok(decimal(&digits))),
            Scalar::String("1x".to_owned()),
            Scalar::String("0x1".to_owned()),
        ];
        assert_eq!(read.unwrap()[0].values.as_deref(), Some(&expected[..]));
        // No column can hold these numbers: valid values for a string field, invalid for a number field.
        for (sent, why) in [("1e400", InvalidDecimal::TooLarge), ("-1e-999", InvalidDecimal::TooSmall)] {
            let read = conditions(json!([{"ref": "a", "op": "eq", "value": sent}])).unwrap();
            assert_eq!(read[0].value, Some(Scalar::Digits(sent.to_owned(), Err(why))));
        }
    }

    fn decimal(digits: &str) -> Decimal {
        Decimal::parse(digits).unwrap()
    }
}
