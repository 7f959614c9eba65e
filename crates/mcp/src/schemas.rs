//! Schemas of arguments and responses, in the subset of JSON Schema that all hosts accept.
//!
//! Hosts pass the schemas of tools to models of several vendors, which support different parts of JSON Schema. So
//! these schemas use only the common part: one `type` per value (an optional member is not required, and never null),
//! except for operands of conditions, which have one of three types; no references, no number formats, choices as
//! `enum`, and a schema for the elements of each list.

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

pub(crate) fn arguments_schema<T: JsonSchema>() -> JsonObject {
    generate_schema::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

pub(crate) fn answer_schema<T: JsonSchema>() -> JsonObject {
    generate_schema::<T>(SchemaSettings::draft2020_12().for_serialize())
}

fn generate_schema<T: JsonSchema>(settings: SchemaSettings) -> JsonObject {
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    schema.as_object().cloned().unwrap_or_default()
}

/// Returns the schema of a condition's operand: a text, a number or a boolean.
pub(crate) fn scalar(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "anyOf": one_of_scalars() })
}

pub(crate) fn scalars(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "array", "items": { "anyOf": one_of_scalars() } })
}

fn one_of_scalars() -> Value {
    json!([{ "type": "string" }, { "type": "number" }, { "type": "boolean" }])
}

/// Reduces a schema and its subschemas to the common subset.
fn simplify(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    for name in ["$schema", "$defs", "title", "format", "default"] {
        members.remove(name);
    }
    for within in ["properties", "patternProperties"] {
        if let Some(Value::Object(properties)) = members.get_mut(within) {
            properties.values_mut().for_each(simplify);
        }
    }
    for within in ["items", "additionalProperties"] {
        members.get_mut(within).into_iter().for_each(simplify);
    }
    for choice in ["anyOf", "oneOf"] {
        let Some(Value::Array(mut choices)) = members.remove(choice) else { continue };
        choices.iter_mut().for_each(simplify);
        choices.retain(|schema| schema.get("type") != Some(&json!("null")));
        let names: Option<Vec<Vec<Value>>> = choices.iter().map(names).collect();
        let only = if choices.len() == 1 { choices.pop() } else { None };
        if let Some(Value::Object(only)) = only {
            // The member's own description takes precedence.
            only.into_iter().for_each(|(name, value)| _ = members.entry(name).or_insert(value));
        } else if let Some(names) = names.filter(|names| !names.is_empty()) {
            members.insert("type".to_owned(), json!("string"));
            members.insert("enum".to_owned(), names.concat().into());
        } else {
            members.insert("anyOf".to_owned(), Value::Array(choices));
        }
    }
    if let Some(Value::Array(types)) = members.get("type") {
        let one = types.iter().find(|name| **name != "null").cloned().unwrap_or_default();
        members.insert("type".to_owned(), one);
    }
    if let Some(Value::Array(names)) = members.get_mut("enum") {
        names.retain(|name| !name.is_null());
    }
}

/// Returns the values of a schema with `const` or `enum`.
fn names(schema: &Value) -> Option<Vec<Value>> {
    let one = schema.get("const").map(|name| vec![name.clone()]);
    one.or_else(|| schema.get("enum").and_then(Value::as_array).cloned())
}

#[cfg(test)]
mod tests {
    use tracewarden_service::Tool;

    use super::*;
    use crate::catalogue::tool_definition;

    /// Checks a schema and its subschemas, and counts them.
    fn check_schema(schema: &Value, path: &str) -> usize {
        let members = schema.as_object().unwrap_or_else(|| panic!("{path}: {schema}"));
        const SUPPORTED_KEYWORDS: [&str; 9] = [
            "type",
            "description",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "enum",
            "anyOf",
            "minimum",
        ];
        for name in members.keys() {
            assert!(SUPPORTED_KEYWORDS.contains(&name.as_str()), "{path}: {name}");
        }
        let mut count = 1;
        match (members.get("type"), members.get("anyOf")) {
            (Some(Value::String(name)), None) => {
                const TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];
                assert!(TYPES.contains(&name.as_str()), "{path}: {name}");
                assert_eq!(name == "array", members.contains_key("items"), "{path}");
                assert!(!members.contains_key("enum") || name == "string", "{path}");
            }
            (None, Some(Value::Array(choices))) => {
                assert!(choices.len() > 1, "{path}");
                count +=
                    choices.iter().map(|choice| check_schema(choice, &format!("{path}|"))).sum::<usize>();
            }
            other => panic!("{path}: {other:?}"),
        }
        let properties = members.get("properties").and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            count += check_schema(schema, &format!("{path}.{name}"));
        }
        for name in members.get("required").and_then(Value::as_array).into_iter().flatten() {
            assert!(properties.unwrap().contains_key(name.as_str().unwrap()), "{path}: {name}");
        }
        if let Some(items) = members.get("items") {
            count += check_schema(items, &format!("{path}[]"));
        }
        if let Some(others) = members.get("additionalProperties").filter(|others| !others.is_boolean()) {
            count += check_schema(others, &format!("{path}.*"));
        }
        count
    }

    #[test]
    fn schemas_use_only_widely_supported_keywords() {
        let mut count = 0;
        for tool in Tool::ALL {
            let tool_definition = tool_definition(tool);
            let answer = tool_definition.output_schema.as_deref().unwrap();
            for (side, schema) in [("takes", &*tool_definition.input_schema), ("gives", answer)] {
                count += check_schema(&Value::Object(schema.clone()), &format!("{} {side}", tool.name()));
            }
        }
        assert!(count > 150, "{count}");
    }
}
